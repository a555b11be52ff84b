//! What happened to a table's objects.

use std::sync::Arc;

use super::object::Stored;

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It was created.
    Added,
    /// It was changed.
    Modified,
    /// It was deleted.
    Deleted,
}

/// One entry of the log.
#[derive(Debug)]
pub struct Change {
    /// The revision of the write.
    pub revision: u64,
    /// What happened.
    pub kind: ChangeKind,
    /// The key of the object.
    pub key: String,
    /// The object afterwards; for a deletion its last state with the deletion's revision.
    pub object: Arc<Stored>,
    /// The object before.
    pub previous: Option<Arc<Stored>>,
}
