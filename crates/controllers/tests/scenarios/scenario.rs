//! A recorded scenario, and its steps in the order written.

use std::path::Path;

use everflow_json::Value;
use serde::Deserialize;
use serde::de::{MapAccess, Visitor};

/// A map in the order of the text.
#[derive(Debug, Clone, Default)]
pub struct Ordered(pub Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Ordered;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ordered, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Ordered(entries))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

impl Ordered {
    pub fn get(&self, name: &str) -> &Value {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map_or(&Value::Null, |(_, value)| value)
    }

    /// The whole, without order.
    pub fn value(&self) -> Value {
        Value::Object(self.0.iter().cloned().collect())
    }
}

#[derive(Debug, Clone, Deserialize)]
pub struct Scenario {
    pub name: String,
    pub namespace: String,
    #[serde(default)]
    pub unstable: Vec<String>,
    #[serde(default)]
    pub files: Value,
    #[serde(default)]
    pub git: Vec<Value>,
    #[serde(default)]
    pub charts: Value,
    #[serde(default)]
    pub oci: Vec<Push>,
    #[serde(default)]
    pub objects: Vec<Value>,
    #[serde(default)]
    pub observe: Vec<Value>,
    pub then: Value,
    #[serde(default)]
    pub steps: Vec<Ordered>,
}

/// An artifact in a registry.
#[derive(Debug, Clone, Deserialize)]
pub struct Push {
    pub repo: Option<String>,
    pub tags: Vec<String>,
    #[serde(default)]
    pub layers: Vec<Value>,
    #[serde(default)]
    pub config: Value,
    #[serde(rename = "configMediaType")]
    pub config_media_type: Option<String>,
    /// In the order of the manifest.
    #[serde(default)]
    pub annotations: Ordered,
}

impl Scenario {
    pub fn load(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        everflow_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }
}
