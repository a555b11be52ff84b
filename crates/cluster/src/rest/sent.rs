//! Bodies of requests.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use everflow_json::Value;

use crate::codec::json::Json;

/// A body: text, or from callers in the same process a tree, of which the text is made when somebody asks for it.
#[derive(Clone, Debug, Default)]
pub struct Sent {
    tree: Option<Arc<Value>>,
    text: OnceLock<Bytes>,
}

impl Sent {
    /// A body that is a tree.
    pub fn of_tree(tree: Value) -> Self {
        Sent {
            tree: Some(Arc::new(tree)),
            text: OnceLock::new(),
        }
    }

    /// Whether its text is longer than this. Of a tree that is far from it no text is made.
    pub fn is_longer_than(&self, limit: usize) -> bool {
        let near = self.tree.as_ref().is_none_or(|tree| room(tree) > limit);
        near && self.len() > limit
    }

    /// The body in the order it was sent in: the tree, or what a reader makes of the text.
    pub fn read<E>(&self, read: impl FnOnce(&[u8]) -> Result<Json, E>) -> Result<Json, E> {
        match &self.tree {
            Some(tree) => Ok(Json::from_value(tree)),
            None => read(self),
        }
    }
}

/// At least as many bytes as the text of a tree has: a character takes no more than six where it must be escaped.
fn room(tree: &Value) -> usize {
    const NUMBER: usize = 32;
    let string = |text: &str| text.len() * 6 + 2;
    match tree {
        Value::String(text) => string(text),
        Value::Array(items) => items.iter().map(|item| room(item) + 1).sum::<usize>() + 2,
        Value::Object(map) => {
            let entries = map.iter().map(|(key, value)| string(key) + room(value) + 2);
            entries.sum::<usize>() + 2
        }
        _ => NUMBER,
    }
}

impl Deref for Sent {
    type Target = Bytes;

    fn deref(&self) -> &Bytes {
        self.text.get_or_init(|| {
            let mut text = Vec::new();
            if let Some(tree) = &self.tree {
                everflow_json::text::write(tree, &mut text);
            }
            text.into()
        })
    }
}

impl<T: Into<Bytes>> From<T> for Sent {
    fn from(text: T) -> Self {
        Sent {
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
        let tree = json!({"a": [1, -2.5, null, true], "b": "\u{1}\u{1}x", "c": {}});
        let sent = Sent::of_tree(tree.clone());
        let length = tree.to_string().len();
        assert!(room(&tree) >= length);
        assert!(sent.is_longer_than(length - 1));
        assert!(!sent.is_longer_than(length));
        assert_eq!(**sent, *tree.to_string().as_bytes());
        assert!(Sent::from("12345").is_longer_than(4));
        assert!(!Sent::default().is_longer_than(0));
    }
}
