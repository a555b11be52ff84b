//! What a file holds, whatever its format.

use everflow_json::Value;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Tree {
    /// Nothing; never encrypted.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// A text.
    Text(String),
    /// Bytes that are no text.
    Bytes(Vec<u8>),
    /// A moment, as RFC 3339 has it.
    Time(String),
    /// A list.
    List(Vec<Item>),
    /// A map in order.
    Map(Vec<Entry>),
}

/// A comment without its mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment {
    pub text: String,
    /// It stands behind what it is about.
    pub inline: bool,
}

/// One line of a list.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    Comment(Comment),
    Value(Tree),
}

/// One line of a map.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    Comment(Comment),
    Pair(String, Tree),
}

impl Tree {
    /// A text, or bytes where it is none.
    pub fn of_bytes(bytes: Vec<u8>) -> Tree {
        match String::from_utf8(bytes) {
            Ok(text) => Tree::Text(text),
            Err(error) => Tree::Bytes(error.into_bytes()),
        }
    }

    /// The value of a key of a map.
    pub fn get(&self, key: &str) -> Option<&Tree> {
        let Tree::Map(entries) = self else {
            return None;
        };
        entries.iter().find_map(|entry| match entry {
            Entry::Pair(name, value) if name == key => Some(value),
            _ => None,
        })
    }

    /// The values of a list.
    pub fn items(&self) -> impl Iterator<Item = &Tree> {
        let items: &[Item] = match self {
            Tree::List(items) => items,
            _ => &[],
        };
        items.iter().filter_map(|item| match item {
            Item::Value(value) => Some(value),
            Item::Comment(_) => None,
        })
    }

    /// The text of a scalar; empty for nothing.
    pub fn scalar(&self) -> Option<String> {
        match self {
            Tree::Null => Some(String::new()),
            Tree::Bool(flag) => Some(flag.to_string()),
            Tree::Int(number) => Some(number.to_string()),
            Tree::Float(number) => Some(number.to_string()),
            Tree::Text(text) | Tree::Time(text) => Some(text.clone()),
            Tree::Bytes(_) | Tree::List(_) | Tree::Map(_) => None,
        }
    }

    /// What the authentication code is taken over.
    pub fn mac_bytes(&self) -> Vec<u8> {
        match self {
            Tree::Bool(true) => b"True".to_vec(),
            Tree::Bool(false) => b"False".to_vec(),
            Tree::Bytes(bytes) => bytes.clone(),
            other => other.scalar().unwrap_or_default().into_bytes(),
        }
    }

    /// What the tree may take when it is written, with what it is written from: deep trees are mostly
    /// indentation.
    pub fn printed(&self) -> usize {
        self.printed_at(1)
    }

    fn printed_at(&self, level: usize) -> usize {
        /// The widest indentation of a level.
        const INDENT: usize = 4;
        /// What an entry is written from, with its key.
        const ENTRY: usize = 2 * size_of::<everflow_yaml::Node>();
        /// JSON escapes letters with so many.
        const ESCAPED: usize = 6;
        let line = |text: &str| {
            let breaks = 1 + text.matches('\n').count();
            ESCAPED * text.len() + breaks * INDENT * level
        };
        match self {
            Tree::Null | Tree::Bool(_) | Tree::Int(_) | Tree::Float(_) | Tree::Time(_) => 32,
            Tree::Text(text) => line(text),
            Tree::Bytes(bytes) => ESCAPED * bytes.len(),
            Tree::List(items) => items
                .iter()
                .map(|item| match item {
                    Item::Comment(comment) => ENTRY + line(&comment.text),
                    Item::Value(tree) => ENTRY + INDENT * level + tree.printed_at(level + 1),
                })
                .sum(),
            Tree::Map(entries) => entries
                .iter()
                .map(|entry| match entry {
                    Entry::Comment(comment) => ENTRY + line(&comment.text),
                    Entry::Pair(key, tree) => ENTRY + line(key) + tree.printed_at(level + 1),
                })
                .sum(),
        }
    }

    /// The name of Go's type, for messages.
    pub fn go_type(&self) -> &'static str {
        match self {
            Tree::Null => "<nil>",
            Tree::Bool(_) => "bool",
            Tree::Int(_) => "int",
            Tree::Float(_) => "float64",
            Tree::Text(_) => "string",
            Tree::Bytes(_) => "[]uint8",
            Tree::Time(_) => "time.Time",
            Tree::List(_) => "[]interface {}",
            Tree::Map(_) => "sops.TreeBranch",
        }
    }

    /// The same as plain JSON, without comments.
    pub fn to_json(&self) -> Value {
        match self {
            Tree::Null => Value::Null,
            Tree::Bool(flag) => Value::Bool(*flag),
            Tree::Int(number) => Value::from(*number),
            Tree::Float(number) => Value::from(*number),
            Tree::Text(text) | Tree::Time(text) => Value::String(text.clone().into()),
            Tree::Bytes(bytes) => Value::String(String::from_utf8_lossy(bytes).into()),
            Tree::List(_) => self.items().map(Tree::to_json).collect(),
            Tree::Map(entries) => entries
                .iter()
                .filter_map(|entry| match entry {
                    Entry::Pair(key, value) => Some((key.clone(), value.to_json())),
                    Entry::Comment(_) => None,
                })
                .collect(),
        }
    }

    /// A tree of plain JSON.
    pub fn of_json(value: &Value) -> Tree {
        match value {
            Value::Null => Tree::Null,
            Value::Bool(flag) => Tree::Bool(*flag),
            Value::Number(number) => match number.as_i64() {
                Some(number) => Tree::Int(number),
                None => Tree::Float(number.as_f64().unwrap_or_default()),
            },
            Value::String(text) => Tree::Text(text.to_string()),
            Value::Array(items) => Tree::List(
                items
                    .iter()
                    .map(|item| Item::Value(Tree::of_json(item)))
                    .collect(),
            ),
            Value::Object(map) => Tree::Map(
                map.iter()
                    .map(|(key, value)| Entry::Pair(key.to_string(), Tree::of_json(value)))
                    .collect(),
            ),
        }
    }
}
