//! All that is stored at one moment, to go back to.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::table::Table;
use super::{Store, Stored};

/// All that is stored at one moment. The objects are shared, so it costs little.
#[derive(Clone, Debug)]
pub struct Snapshot {
    revision: u64,
    tables: BTreeMap<Arc<str>, BTreeMap<String, Arc<Stored>>>,
}

impl Snapshot {
    /// The revision of its newest write.
    pub fn revision(&self) -> u64 {
        self.revision
    }
}

impl Store {
    /// All that is stored now.
    pub fn snapshot(&self) -> Snapshot {
        let state = self.read();
        let tables = state.tables.iter();
        Snapshot {
            revision: state.revision,
            tables: tables
                .map(|(name, table)| (name.clone(), table.objects.clone()))
                .collect(),
        }
    }

    /// Goes back to a snapshot: what was written since has never been, revisions are counted on from it and so given
    /// out a second time, and of what was before it no history is known. Everybody who reads is cut off. A journal
    /// is not told; this is for stores in memory.
    pub fn go_back(&self, snapshot: &Snapshot) {
        let mut state = self.write();
        let revision = snapshot.revision;
        for name in snapshot.tables.keys() {
            state.table(name);
        }
        for (name, table) in &mut state.tables {
            let objects = snapshot.tables.get(name).cloned().unwrap_or_default();
            let moved = std::mem::replace(table, Table::new(revision)).moved;
            (table.objects, table.moved) = (objects, moved);
            table.moved.send_replace(revision);
        }
        state.revision = revision;
        state.compacted = revision;
        state.opened = revision;
        drop(state);
        self.crashed().set(true);
        self.crashed().set(false);
    }
}
