//! The OpenAPI documents that the API server of the supported release publishes.
//!
//! The documents repeat themselves: every group's document holds the same metadata types, every
//! path the same parameters. They are stored as one graph in which equal parts are one node, and
//! unpacked on first use.

mod custom;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use everflow_json::{Map, Value};
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::data;
use crate::error::Error;

pub use custom::custom_resources_v3;

/// All documents.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Documents {
    /// Every text once.
    texts: Vec<String>,
    /// Every part once; parts refer to parts before them.
    parts: Vec<Part>,
    /// The part of each document, by name.
    roots: BTreeMap<String, u32>,
}

/// A JSON value whose parts are elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Part {
    Null,
    Bool(bool),
    /// The number's text.
    Number(String),
    /// A number of a text.
    Text(u32),
    List(Vec<u32>),
    /// Pairs of text and part.
    Object(Vec<(u32, u32)>),
}

/// The name of the document of version 2.
const SECOND: &str = "openapi/v2";
/// What stands before the path of a document of version 3.
const THIRD: &str = "openapi/v3/";

impl Documents {
    /// The document of version 2 (`/openapi/v2`).
    pub fn v2(&self) -> Option<Value> {
        self.roots.get(SECOND).map(|root| self.value(*root))
    }

    /// A document of version 3, by its path in the index (`apis/apps/v1`).
    pub fn v3(&self, path: &str) -> Option<Value> {
        self.roots
            .get(&format!("{THIRD}{path}"))
            .map(|root| self.value(*root))
    }

    /// The paths of all documents of version 3, sorted.
    pub fn v3_paths(&self) -> impl Iterator<Item = &str> {
        self.roots
            .keys()
            .filter_map(|name| name.strip_prefix(THIRD))
    }

    /// A definition of version 2, by name (`io.k8s.api.core.v1.Pod`).
    pub fn definition(&self, name: &str) -> Option<Value> {
        let root = self.roots.get(SECOND)?;
        let definition = self.child(self.child(*root, "definitions")?, name)?;
        Some(self.value(definition))
    }

    /// The descriptions of a type and its fields.
    pub fn description(&self, name: &str) -> Option<TypeDescription> {
        let definition = self.definition(name)?;
        let text = |value: &Value| value["description"].as_str().unwrap_or_default().to_owned();
        let fields = definition["properties"].as_object().into_iter().flatten();
        Some(TypeDescription {
            text: text(&definition),
            fields: fields
                .map(|(name, field)| (SmolStr::new(name), text(field)))
                .collect(),
        })
    }

    fn child(&self, part: u32, key: &str) -> Option<u32> {
        let Some(Part::Object(fields)) = self.parts.get(part as usize) else {
            return None;
        };
        let is_key = |text: &u32| {
            self.texts
                .get(*text as usize)
                .is_some_and(|text| text == key)
        };
        fields
            .iter()
            .find(|(name, _)| is_key(name))
            .map(|(_, child)| *child)
    }

    fn value(&self, part: u32) -> Value {
        let text = |at: &u32| self.texts.get(*at as usize).cloned().unwrap_or_default();
        match self.parts.get(part as usize) {
            None | Some(Part::Null) => Value::Null,
            Some(Part::Bool(flag)) => Value::Bool(*flag),
            Some(Part::Number(number)) => everflow_json::from_str(number).unwrap_or(Value::Null),
            Some(Part::Text(at)) => Value::String(text(at).into()),
            Some(Part::List(items)) => items.iter().map(|item| self.value(*item)).collect(),
            Some(Part::Object(fields)) => fields
                .iter()
                .map(|(name, child)| (text(name), self.value(*child)))
                .collect::<Map>()
                .into(),
        }
    }
}

/// The descriptions of a built-in type and its fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeDescription {
    /// The description of the type.
    pub text: String,
    /// The descriptions of its fields, by name.
    pub fields: BTreeMap<SmolStr, String>,
}

/// Collects documents; the generator uses it.
#[derive(Debug, Default)]
pub struct Builder {
    documents: Documents,
    texts: BTreeMap<String, u32>,
    parts: BTreeMap<Part, u32>,
}

impl Builder {
    /// Adds the document of version 2.
    pub fn add_v2(&mut self, document: &Value) {
        let root = self.part(document);
        self.documents.roots.insert(SECOND.to_owned(), root);
    }

    /// Adds a document of version 3.
    pub fn add_v3(&mut self, path: &str, document: &Value) {
        let root = self.part(document);
        self.documents.roots.insert(format!("{THIRD}{path}"), root);
    }

    /// The documents added.
    pub fn finish(self) -> Documents {
        self.documents
    }

    fn part(&mut self, value: &Value) -> u32 {
        let part = match value {
            Value::Null => Part::Null,
            Value::Bool(flag) => Part::Bool(*flag),
            Value::Number(number) => Part::Number(number.to_string()),
            Value::String(text) => Part::Text(self.text(text)),
            Value::Array(items) => Part::List(items.iter().map(|item| self.part(item)).collect()),
            Value::Object(fields) => Part::Object(
                fields
                    .iter()
                    .map(|(name, child)| (self.text(name), self.part(child)))
                    .collect(),
            ),
        };
        if let Some(known) = self.parts.get(&part) {
            return *known;
        }
        let at = u32::try_from(self.documents.parts.len()).unwrap_or(u32::MAX);
        self.documents.parts.push(part.clone());
        self.parts.insert(part, at);
        at
    }

    fn text(&mut self, text: &str) -> u32 {
        if let Some(known) = self.texts.get(text) {
            return *known;
        }
        let at = u32::try_from(self.documents.texts.len()).unwrap_or(u32::MAX);
        self.documents.texts.push(text.to_owned());
        self.texts.insert(text.to_owned(), at);
        at
    }
}

/// Unpacks the documents compiled into the crate.
pub fn load() -> Result<Documents, Error> {
    data::load_documents()
}

static LOADED: LazyLock<Documents> = LazyLock::new(|| load().unwrap_or_default());

/// The documents of the built-in groups, unpacked on first use.
pub fn documents() -> &'static Documents {
    &LOADED
}
