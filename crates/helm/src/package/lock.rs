//! `Chart.lock`.

use everflow_json::{Value as Json, json};

use crate::chart::Dependency;
use crate::chart::decode::Decoder;
use crate::index::GoTime;
use crate::release::dependency_record;

/// The versions that dependencies were resolved to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lock {
    /// When.
    pub generated: GoTime,
    /// The digest of the dependencies as they were asked for.
    pub digest: String,
    /// The dependencies; empty entries are left out.
    pub dependencies: Vec<Dependency>,
}

impl Lock {
    /// Reads what a lock file holds; the error is in Go's words.
    pub fn read(json: &Json) -> Result<Self, String> {
        let mut lock = Lock::default();
        let mut decoder = Decoder::default();
        if let Some(fields) = decoder.object(json, "Lock", "v2.Lock") {
            lock.digest = decoder.string(&fields, "digest");
            if let Some((_, value)) = fields.get("generated") {
                match value {
                    Json::Null => {}
                    Json::String(text) => lock.generated = GoTime::parse(text)?,
                    _ => return Err("Time.UnmarshalJSON: input is not a JSON string".to_owned()),
                }
            }
            if let Some((path, items)) = decoder.list(&fields, "dependencies", "[]*v2.Dependency") {
                lock.dependencies = items
                    .iter()
                    .filter_map(|item| Dependency::read(&mut decoder, item, &path))
                    .collect();
            }
        }
        decoder.finish()?;
        Ok(lock)
    }

    /// As it is written.
    pub fn to_json(&self) -> Json {
        let dependencies = match self.dependencies.is_empty() {
            true => Json::Null,
            false => self.dependencies.iter().map(dependency_record).collect(),
        };
        json!({
            "generated": self.generated.to_string(),
            "digest": self.digest,
            "dependencies": dependencies,
        })
    }
}
