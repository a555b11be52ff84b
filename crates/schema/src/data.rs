//! The committed facts: deflated postcard, written by the generator.

use std::io::Read as _;
use std::sync::LazyLock;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use smol_str::SmolStr;

use crate::error::Error;
use crate::registry::Facts;

/// The packed facts of the Kubernetes release this crate ships.
const BUILTIN: &[u8] = include_bytes!("../data/builtin.bin");

/// The packed descriptions of the same types.
const DESCRIPTIONS: &[u8] = include_bytes!("../data/descriptions.bin");

/// The descriptions of a built-in type and its fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TypeDescription {
    /// The definition name.
    pub name: SmolStr,
    /// The description of the type.
    pub text: String,
    /// `x-kubernetes-unions`, which only the published document shows.
    #[serde(with = "crate::json_text")]
    pub unions: Option<Value>,
    /// The descriptions of its fields, sorted by name.
    pub fields: Vec<(SmolStr, String)>,
}

impl TypeDescription {
    /// The description of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        let at = self
            .fields
            .binary_search_by(|(field, _)| field.as_str().cmp(name))
            .ok()?;
        self.fields.get(at).map(|(_, text)| text.as_str())
    }
}

/// Unpacks the facts compiled into the crate.
pub fn load() -> Result<Facts, Error> {
    unpack(BUILTIN)
}

/// Unpacks the descriptions compiled into the crate.
pub fn load_descriptions() -> Result<Vec<TypeDescription>, Error> {
    unpack(DESCRIPTIONS)
}

static LOADED: LazyLock<Vec<TypeDescription>> =
    LazyLock::new(|| load_descriptions().unwrap_or_default());

/// The descriptions of a built-in type, by definition name; all are unpacked on first use.
pub fn description(name: &str) -> Option<&'static TypeDescription> {
    let at = LOADED
        .binary_search_by(|entry| entry.name.as_str().cmp(name))
        .ok()?;
    LOADED.get(at)
}

fn unpack<T: DeserializeOwned>(packed: &[u8]) -> Result<T, Error> {
    let mut bytes = Vec::new();
    flate2::read::DeflateDecoder::new(packed)
        .read_to_end(&mut bytes)
        .map_err(|error| Error::DamagedData(error.to_string()))?;
    postcard::from_bytes(&bytes).map_err(|error| Error::DamagedData(error.to_string()))
}
