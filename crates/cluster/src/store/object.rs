//! One version of an object, as a tree and as text.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use everflow_json::{Map, Value};

use super::durable::read_object;

/// One version of an object. Its JSON text is made once and shared by every reader.
#[derive(Debug)]
pub struct Stored {
    /// The revision of the write that made this version.
    pub revision: u64,
    /// The object in its storage version.
    pub value: Object,
    /// Nothing was written to it since it was created.
    pub fresh: bool,
    /// Its other texts.
    texts: Texts,
    /// The definition that this version was last read by, and, in the lowest bit, whether it reads as it is stored.
    read_by: AtomicU64,
}

/// Texts of an object that many ask for and that are made only then. Both are for objects that read as they are stored.
#[derive(Debug, Default)]
struct Texts {
    /// With all keys in order, as custom resources are written.
    sorted: OnceLock<Bytes>,
    /// Its metadata alone.
    metadata: OnceLock<Bytes>,
}

/// An object as a tree, as text, or both: what is missing is made when somebody asks for it. The tree takes ten times
/// the memory of the text, and of most objects that a cluster has from its start nobody ever asks for it.
#[derive(Debug)]
pub struct Object {
    tree: OnceLock<Value>,
    text: OnceLock<Text>,
}

/// An object as JSON on a line of its own, with its type in front.
#[derive(Clone, Debug)]
pub struct Text {
    line: Bytes,
    /// Where the part behind the type starts.
    untyped: usize,
}

impl Text {
    /// The text of an object.
    pub fn of(value: &Value) -> Text {
        let mut line = Vec::with_capacity(512);
        let write = |line: &mut Vec<u8>, key: &str, value: &Value| {
            line.push(if line.is_empty() { b'{' } else { b',' });
            everflow_json::text::write_string(key, line);
            line.push(b':');
            everflow_json::text::write(value, line);
        };
        let empty = Map::new();
        let map = value.as_object().unwrap_or(&empty);
        for key in ["kind", "apiVersion"] {
            if let Some(value) = map.get(key) {
                write(&mut line, key, value);
            }
        }
        let untyped = line.len() + 1;
        for (key, value) in map {
            if key != "kind" && key != "apiVersion" {
                write(&mut line, key, value);
            }
        }
        if line.is_empty() {
            line.push(b'{');
        }
        line.extend_from_slice(b"}\n");
        Text {
            untyped: untyped.min(line.len() - 2),
            // No more memory than it has letters: it stays for long.
            line: line.into_boxed_slice().into(),
        }
    }

    /// The same text with every `mark`, which stands behind the type only, and the letter behind it replaced.
    pub fn filled(&self, mark: char, fill: impl Fn(char) -> String) -> Text {
        // It was written from a tree, so it is text.
        let line = std::str::from_utf8(&self.line).unwrap_or_default();
        let mut parts = line.split(mark);
        let mut filled = String::with_capacity(line.len() + 256);
        filled.push_str(parts.next().unwrap_or_default());
        for part in parts {
            let mut rest = part.chars();
            filled.extend(rest.next().map(&fill));
            filled.push_str(rest.as_str());
        }
        Text {
            line: filled.into_boxed_str().into_boxed_bytes().into(),
            untyped: self.untyped,
        }
    }
}

impl Object {
    fn of_tree(tree: Value) -> Self {
        Object {
            tree: tree.into(),
            text: OnceLock::new(),
        }
    }

    fn of_text(text: Text) -> Self {
        Object {
            tree: OnceLock::new(),
            text: text.into(),
        }
    }

    /// The tree, without keeping it where it is not kept already.
    pub fn read(&self) -> Cow<'_, Value> {
        match self.tree.get() {
            Some(tree) => Cow::Borrowed(tree),
            None => Cow::Owned(self.parsed()),
        }
    }

    fn parsed(&self) -> Value {
        // Without a tree there is a text, and it was written from a tree.
        let text = self.text.get().map(|text| read_object(&text.line));
        text.and_then(Result::ok).unwrap_or_default()
    }

    fn written(&self) -> &Text {
        self.text.get_or_init(|| Text::of(self))
    }
}

impl Deref for Object {
    type Target = Value;

    fn deref(&self) -> &Value {
        self.tree.get_or_init(|| self.parsed())
    }
}

impl PartialEq<Object> for Value {
    fn eq(&self, other: &Object) -> bool {
        self == &**other
    }
}

impl Stored {
    /// A version of an object, with its revision written into its metadata.
    pub fn new(revision: u64, mut value: Value) -> Arc<Self> {
        set_revision(&mut value, revision);
        Arc::new(Stored {
            revision,
            value: Object::of_tree(value),
            fresh: false,
            texts: Texts::default(),
            read_by: AtomicU64::new(0),
        })
    }

    /// The first version of an object.
    pub(super) fn first(revision: u64, mut value: Value) -> Arc<Self> {
        set_revision(&mut value, revision);
        Arc::new(Stored {
            revision,
            value: Object::of_tree(value),
            fresh: true,
            texts: Texts::default(),
            read_by: AtomicU64::new(0),
        })
    }

    /// The first version of an object from its text, which says the revision.
    pub(crate) fn first_written(revision: u64, text: Text) -> Arc<Self> {
        Arc::new(Stored {
            revision,
            value: Object::of_text(text),
            fresh: true,
            texts: Texts::default(),
            read_by: AtomicU64::new(0),
        })
    }

    /// The same version without its tree.
    pub(super) fn folded(&self) -> Arc<Self> {
        Arc::new(Stored {
            revision: self.revision,
            value: Object::of_text(self.value.written().clone()),
            fresh: self.fresh,
            texts: Texts::default(),
            read_by: AtomicU64::new(0),
        })
    }

    /// Whether it reads as it is stored by a definition, which has a number of its own: found out once.
    pub(crate) fn reads_the_same(&self, definition: u64, find_out: impl FnOnce() -> bool) -> bool {
        let known = self.read_by.load(Ordering::Relaxed);
        if known >> 1 == definition {
            return known & 1 == 1;
        }
        let same = find_out();
        self.read_by
            .store((definition << 1) | u64::from(same), Ordering::Relaxed);
        same
    }

    /// The object as JSON text on a line of its own, with all its keys in order.
    pub fn sorted_line(&self) -> Bytes {
        let make = || crate::rest::request::json_line(&self.value);
        self.texts.sorted.get_or_init(make).clone()
    }

    /// The text of the object's metadata, which always has to be made in the same way.
    pub(crate) fn metadata_text(&self, make: impl FnOnce(&Value) -> Bytes) -> Bytes {
        let make = || make(&self.value);
        self.texts.metadata.get_or_init(make).clone()
    }

    /// The object as JSON text on a line of its own.
    pub fn line(&self) -> Bytes {
        self.value.written().line.clone()
    }

    /// What stands between the braces of the object's JSON text, without its type.
    pub fn untyped_text(&self) -> &[u8] {
        let text = self.value.written();
        &text.line[text.untyped..text.line.len() - 2]
    }

    /// The object as JSON text.
    pub fn text(&self) -> Bytes {
        let line = self.line();
        line.slice(..line.len() - 1)
    }
}

/// Writes a revision into an object's metadata.
pub fn set_revision(value: &mut Value, revision: u64) {
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("resourceVersion".into(), Value::from(revision.to_string()));
    }
}

#[cfg(test)]
mod tests {
    use everflow_json::json;

    use super::*;

    #[test]
    fn a_folded_object_is_the_same() {
        let value = json!({"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"n": 1.0, "m": 2}});
        let stored = Stored::first(7, value);
        let folded = stored.folded();
        assert_eq!(*folded.value.read(), *stored.value);
        assert!(folded.value.tree.get().is_none());
        assert_eq!(stored.line(), folded.line());
        assert_eq!(stored.untyped_text(), folded.untyped_text());
        assert_eq!(*stored.value, *folded.value);
        assert_eq!((folded.revision, folded.fresh), (7, true));
    }

    #[test]
    fn marks_in_a_text_are_filled() {
        let text = Text::of(
            &json!({"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "~n", "uid": "~u"}}),
        );
        let filled = text.filled('~', |letter| format!("<{letter}>"));
        let stored = Stored::first_written(3, filled);
        assert_eq!(
            stored.untyped_text(),
            br#""metadata":{"name":"<n>","uid":"<u>"}"#
        );
        assert_eq!(stored.value["metadata"]["uid"], "<u>");
    }
}
