//! The seam for durability: every write is handed to a journal before it becomes visible.

use bytes::Bytes;
use serde_json::Value;

use super::StoreError;

/// Everything a journal holds.
#[derive(Debug, Default)]
pub struct Loaded {
    /// The newest revision.
    pub revision: u64,
    /// Table, key, revision and object.
    pub objects: Vec<(String, String, u64, Value)>,
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
