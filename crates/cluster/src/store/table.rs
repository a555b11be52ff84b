//! The objects and the log of each kind, and the one revision counter.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use everflow_env::watch;

use super::StoreError;
use super::history::{Change, ChangeKind};
use super::object::Stored;

/// The objects of one kind.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) objects: BTreeMap<String, Arc<Stored>>,
    pub(super) log: VecDeque<Arc<Change>>,
    /// The newest revision no longer in the log.
    pub(super) dropped: u64,
    pub(super) moved: watch::Sender<u64>,
}

/// All tables.
#[derive(Debug)]
pub(super) struct State {
    pub(super) revision: u64,
    pub(super) compacted: u64,
    /// What was before this revision is known to nobody: the store was opened with it.
    pub(super) opened: u64,
    pub(super) tables: BTreeMap<Arc<str>, Table>,
}

impl Table {
    pub(super) fn new(dropped: u64) -> Self {
        Table {
            objects: BTreeMap::new(),
            log: VecDeque::new(),
            dropped,
            moved: watch::Sender::new(dropped),
        }
    }
}

impl State {
    pub(super) fn table(&mut self, name: &str) -> &mut Table {
        // A table that never existed has no history worth refusing, but for what may have been in it before the store
        // was opened.
        let opened = self.opened;
        self.tables
            .entry(Arc::from(name))
            .or_insert_with(|| Table::new(opened))
    }

    /// Whether a key is taken.
    pub(super) fn has(&self, table: &str, key: &str) -> bool {
        let table = self.tables.get(table);
        table.is_some_and(|table| table.objects.contains_key(key))
    }

    pub(super) fn expect(
        &self,
        table: &str,
        key: &str,
        expected: u64,
    ) -> Result<Arc<Stored>, StoreError> {
        let current = self
            .tables
            .get(table)
            .and_then(|table| table.objects.get(key))
            .ok_or(StoreError::Missing)?;
        if current.revision != expected {
            return Err(StoreError::Stale);
        }
        Ok(current.clone())
    }

    pub(super) fn commit(
        &mut self,
        window: usize,
        name: &str,
        key: &str,
        kind: ChangeKind,
        stored: Arc<Stored>,
        previous: Option<Arc<Stored>>,
    ) {
        let revision = stored.revision;
        self.revision = revision;
        let table = self.table(name);
        if kind == ChangeKind::Deleted {
            table.objects.remove(key);
        } else {
            table.objects.insert(key.to_owned(), stored.clone());
        }
        table.log.push_back(Arc::new(Change {
            revision,
            kind,
            key: key.to_owned(),
            object: stored,
            previous,
        }));
        if table.log.len() > window
            && let Some(oldest) = table.log.pop_front()
        {
            table.dropped = oldest.revision;
        }
        table.moved.send_replace(revision);
    }
}
