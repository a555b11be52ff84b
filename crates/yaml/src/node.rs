//! The tree that every reader builds and every writer prints.

use smol_str::SmolStr;

/// Whose rules decide what an untagged scalar means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// go-yaml v2 through `sigs.k8s.io/yaml`: kubectl, helm, Flux, the API server.
    Sigs,
    /// go-yaml v3 through kyaml: what kustomize reads.
    Kyaml,
}

/// Where a node began in its input; both numbers count from 1, and 0 means "made, not read".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Position {
    /// Line in the whole input, not in the document.
    pub line: u32,
    /// Column in characters.
    pub column: u32,
}

/// How a node was written. Writers that keep style look at it; the others ignore it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Style {
    /// Plain scalars and block collections.
    #[default]
    Plain,
    /// `'single quoted'`
    SingleQuoted,
    /// `"double quoted"`
    DoubleQuoted,
    /// `|` scalars.
    Literal,
    /// `>` scalars.
    Folded,
    /// `{a: b}` and `[a, b]`.
    Flow,
}

/// Comments attached to a node the way go-yaml v3 attaches them, each with its `#`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comments {
    /// Lines before the node.
    pub head: SmolStr,
    /// On the node's own line.
    pub line: SmolStr,
    /// After the node, before an empty line.
    pub foot: SmolStr,
}

/// One node of a document.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// What the node is.
    pub value: Value,
    /// How it was written.
    pub style: Style,
    /// Where it began.
    pub position: Position,
    /// What few nodes have; boxed so that the others do not pay for it.
    pub extras: Option<Box<Extras>>,
}

/// The rare parts of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// A tag that stood in the input, in short form (`!!str`, `!custom`).
    pub tag: Option<SmolStr>,
    /// The anchor's name without `&`.
    pub anchor: Option<SmolStr>,
    /// Comments; only kept by loaders that are asked to.
    pub comments: Comments,
}

/// What a node is.
#[derive(Clone, Debug)]
pub enum Value {
    /// A leaf.
    Scalar(Scalar),
    /// A list.
    Sequence(Vec<Node>),
    /// A map in insertion order.
    Mapping(Mapping),
    /// `*name`; loaders that expand aliases leave none.
    Alias(SmolStr),
}

/// A leaf: its text after unquoting and folding, and what that text means in the dialect it was
/// loaded under.
#[derive(Clone, Debug, PartialEq)]
pub struct Scalar {
    /// The text.
    pub text: SmolStr,
    /// Its meaning.
    pub kind: ScalarKind,
}

/// The meaning of a scalar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ScalarKind {
    /// `null`, `~` or nothing.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer that fits `i64`.
    Int(i64),
    /// An integer that fits only `u64`.
    Uint(u64),
    /// A floating-point number.
    Float(f64),
    /// Text.
    String,
    /// A date or time; its text is kept, because each Go tool prints it its own way.
    Timestamp,
    /// `!!binary`; the text is the base64.
    Binary,
    /// `<<` as a key.
    Merge,
}

/// A map in insertion order. Looking a key up walks the entries: maps in manifests are small.
#[derive(Clone, Debug, Default)]
pub struct Mapping {
    /// Keys and values as they stood in the input.
    pub entries: Vec<Entry>,
}

/// One key with its value.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The key; a scalar in every valid Kubernetes object.
    pub key: Node,
    /// The value.
    pub value: Node,
}

impl Default for Value {
    fn default() -> Self {
        Value::Scalar(Scalar {
            text: SmolStr::new_static("null"),
            kind: ScalarKind::Null,
        })
    }
}

impl Node {
    /// A node with a value and nothing else.
    pub fn new(value: Value) -> Self {
        Node {
            value,
            ..Node::default()
        }
    }

    /// A string scalar; writers quote it where its text would read as something else.
    pub fn string(text: impl Into<SmolStr>) -> Self {
        Node::new(Value::Scalar(Scalar {
            text: text.into(),
            kind: ScalarKind::String,
        }))
    }

    /// A map with no entries.
    pub fn mapping() -> Self {
        Node::new(Value::Mapping(Mapping::default()))
    }

    /// A list of the given items.
    pub fn sequence(items: Vec<Node>) -> Self {
        Node::new(Value::Sequence(items))
    }

    /// The scalar's text, whatever it means.
    pub fn as_text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar(scalar) => Some(&scalar.text),
            _ => None,
        }
    }

    /// The text of a scalar that is a string, and `None` for `1`, `true` or `null`.
    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar(scalar) if scalar.kind == ScalarKind::String => Some(&scalar.text),
            _ => None,
        }
    }

    /// The map, if the node is one.
    pub fn as_mapping(&self) -> Option<&Mapping> {
        match &self.value {
            Value::Mapping(mapping) => Some(mapping),
            _ => None,
        }
    }

    /// The map, if the node is one.
    pub fn as_mapping_mut(&mut self) -> Option<&mut Mapping> {
        match &mut self.value {
            Value::Mapping(mapping) => Some(mapping),
            _ => None,
        }
    }

    /// The items, if the node is a list.
    pub fn as_sequence(&self) -> Option<&[Node]> {
        match &self.value {
            Value::Sequence(items) => Some(items),
            _ => None,
        }
    }

    /// The items, if the node is a list.
    pub fn as_sequence_mut(&mut self) -> Option<&mut Vec<Node>> {
        match &mut self.value {
            Value::Sequence(items) => Some(items),
            _ => None,
        }
    }

    /// True for a null scalar.
    pub fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar(scalar) if scalar.kind == ScalarKind::Null)
    }

    /// The value under a key, if the node is a map that has it.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.as_mapping()?.get(key)
    }

    /// The value under a key, if the node is a map that has it.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        self.as_mapping_mut()?.get_mut(key)
    }

    /// The anchor's name, without `&`.
    pub fn anchor(&self) -> Option<&str> {
        self.extras.as_ref()?.anchor.as_deref()
    }

    /// The tag that stood in the input.
    pub fn tag(&self) -> Option<&str> {
        self.extras.as_ref()?.tag.as_deref()
    }
}

impl Mapping {
    /// Where a key is. Keys compare by text, as kyaml compares them.
    pub fn position(&self, key: &str) -> Option<usize> {
        self.entries
            .iter()
            .position(|entry| entry.key.as_text() == Some(key))
    }

    /// The value under a key.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entries
            .iter()
            .find(|entry| entry.key.as_text() == Some(key))
            .map(|entry| &entry.value)
    }

    /// The value under a key.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        self.entries
            .iter_mut()
            .find(|entry| entry.key.as_text() == Some(key))
            .map(|entry| &mut entry.value)
    }

    /// Sets a key: in place if it is there, at the end if not. Returns what it replaced.
    pub fn insert(&mut self, key: impl Into<SmolStr>, value: Node) -> Option<Node> {
        let key = key.into();
        if let Some(slot) = self.get_mut(&key) {
            return Some(std::mem::replace(slot, value));
        }
        self.entries.push(Entry {
            key: Node::string(key),
            value,
        });
        None
    }

    /// Removes a key and returns its value; the order of the others stays.
    pub fn remove(&mut self, key: &str) -> Option<Node> {
        let index = self
            .entries
            .iter()
            .position(|entry| entry.key.as_text() == Some(key))?;
        Some(self.entries.remove(index).value)
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True without keys.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
