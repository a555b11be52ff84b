//! What a whole cluster can go back to.

use std::sync::Arc;

use crate::resource::Registry;
use crate::store::Snapshot;

/// All that a server knows at one moment: see [`ApiServer::backup`](crate::ApiServer::backup).
#[derive(Clone)]
pub struct Backup {
    pub(crate) stored: Snapshot,
    pub(crate) registry: Arc<Registry>,
}

impl std::fmt::Debug for Backup {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Backup")
            .field("revision", &self.revision())
            .finish_non_exhaustive()
    }
}

impl Backup {
    /// The revision of the newest write in it.
    pub fn revision(&self) -> u64 {
        self.stored.revision()
    }
}
