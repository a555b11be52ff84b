//! Bodies of requests.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use everflow_json::Value;
use everflow_json::text::to_vec;

use crate::codec::json::Json;

/// Trees that nest deeper than this are sent as text, for which there are rules.
const DEEP: usize = 100;

/// A body: text, or from callers in the same process a tree, of which the text is made when somebody asks for it.
#[derive(Clone, Debug, Default)]
pub struct RequestBody {
    tree: Option<Tree>,
    text: OnceLock<Bytes>,
}

/// A tree that every reader of its text would read as it is.
#[derive(Clone, Debug)]
struct Tree {
    value: Arc<Value>,
    /// At least as many bytes as its text has.
    room: usize,
}

impl RequestBody {
    /// A body that is a tree.
    pub fn of_tree(tree: Value) -> Self {
        let Some(room) = room(&tree, DEEP) else {
            return to_vec(&tree).into();
        };
        RequestBody {
            tree: Some(Tree {
                value: Arc::new(tree),
                room,
            }),
            text: OnceLock::new(),
        }
    }

    /// The tree, where the body is one.
    pub fn tree(&self) -> Option<&Value> {
        self.tree.as_ref().map(|tree| &*tree.value)
    }

    /// Whether its text is longer than this. Of a tree that is far from it no text is made.
    pub fn is_longer_than(&self, limit: usize) -> bool {
        let near = self.tree.as_ref().is_none_or(|tree| tree.room > limit);
        near && self.len() > limit
    }

    /// The body in the order it was sent in: the tree, or what a reader makes of the text.
    pub fn read<E>(&self, read: impl FnOnce(&[u8]) -> Result<Json, E>) -> Result<Json, E> {
        match self.tree() {
            Some(tree) => Ok(Json::from_value(tree)),
            None => read(self),
        }
    }
}

/// At least as many bytes as the text of a tree has: a character takes no more than six where it must be escaped. `None`
/// where readers of the text may not agree on what it says: numbers that are not whole are one thing in YAML and another
/// in JSON.
fn room(tree: &Value, depth: usize) -> Option<usize> {
    const NUMBER: usize = 24;
    let string = |text: &str| text.len() * 6 + 2;
    let below = depth.checked_sub(1)?;
    let mut sum = 2;
    match tree {
        Value::String(text) => sum = string(text),
        Value::Number(number) if !number.is_i64() => return None,
        Value::Array(items) => {
            for item in items {
                sum += room(item, below)? + 1;
            }
        }
        Value::Object(map) => {
            for (key, value) in map {
                sum += string(key) + room(value, below)? + 2;
            }
        }
        _ => sum = NUMBER,
    }
    Some(sum)
}

impl Deref for RequestBody {
    type Target = Bytes;

    fn deref(&self) -> &Bytes {
        self.text
            .get_or_init(|| self.tree().map(to_vec).unwrap_or_default().into())
    }
}

impl<T: Into<Bytes>> From<T> for RequestBody {
    fn from(text: T) -> Self {
        RequestBody {
            tree: None,
            text: OnceLock::from(text.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use everflow_json::json;

    use super::*;

    #[test]
    fn a_tree_is_as_long_as_its_text() {
        let tree = json!({"a": [1, i64::MIN, null, true], "b": "\u{1}\u{1}x", "c": {}});
        let body = RequestBody::of_tree(tree.clone());
        let length = tree.to_string().len();
        assert!(room(&tree, DEEP).unwrap() >= length);
        assert!(body.is_longer_than(length - 1));
        assert!(!body.is_longer_than(length));
        assert_eq!(**body, *tree.to_string().as_bytes());
        assert_eq!(body.tree(), Some(&tree));
        let body = RequestBody::of_tree(json!([1.5]));
        assert_eq!((body.tree(), &**body), (None, &b"[1.5]"[..]));
        assert!(RequestBody::from("12345").is_longer_than(4));
        assert!(!RequestBody::default().is_longer_than(0));
    }
}
