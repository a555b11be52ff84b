//! The seam for durability: every write is handed to a journal before it becomes visible.

use bytes::Bytes;
use everflow_json::Value;

use super::StoreError;

/// Everything a journal holds.
#[derive(Debug, Default)]
pub struct Loaded {
    /// The newest revision.
    pub revision: u64,
    /// Table, key, revision and object.
    pub objects: Vec<(String, String, u64, Value)>,
}

/// Reads an object back. Most are read fast; those that nest deeper than that reader goes are read, too.
pub fn read_object(text: &[u8]) -> Result<Value, StoreError> {
    let slowly = |error: everflow_json::Error| {
        // Who owns what nests a little deeper than what is owned.
        let levels = crate::codec::json::DEPTH_LIMIT + 20;
        let tree = crate::codec::json::parse_within(text, levels);
        tree.map_err(|_| StoreError::Durable(error.to_string()))
    };
    everflow_json::from_slice(text).or_else(|error| Ok(slowly(error)?.to_value()))
}

/// Where writes are kept across restarts.
pub trait Journal: Send + Sync {
    /// Reads everything back.
    fn load(&self) -> Result<Loaded, StoreError>;
    /// Keeps one write (`None` is a deletion). When this returns, the write survives a crash.
    fn append(
        &self,
        table: &str,
        key: &str,
        object: Option<Bytes>,
        revision: u64,
    ) -> Result<(), StoreError>;
}
