//! Storage: one revision counter, an index per kind, a bounded log of changes per kind.
//!
//! Watches are cursors on the log: a slow reader holds no memory of its own, and when the log has moved past its
//! position it is told so. Lists at an older revision undo the log's changes on a copy of the index.

pub mod disk;
pub mod durable;
mod history;
mod object;
mod page;
mod snapshot;
mod table;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use everflow_env::watch;
use everflow_json::Value;

use durable::Journal;
pub use history::{Change, ChangeKind};
pub use object::{Object, Stored, Text, set_revision};
pub use page::Page;
use page::{Merged, range_from};
pub use snapshot::Snapshot;
use table::{State, Table};

use crate::faults::{Commits, Switch};

/// Why a write or a read at a revision was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The key is taken.
    #[error("the key exists")]
    Exists,
    /// The key is not there.
    #[error("the key does not exist")]
    Missing,
    /// The object has another revision than expected.
    #[error("the object has another revision")]
    Stale,
    /// The revision is older than the history kept.
    #[error("revision {0} is too old")]
    TooOld(u64),
    /// The durable store refused.
    #[error("the durable store failed: {0}")]
    Durable(String),
    /// The server is dead: nothing it does counts any more.
    #[error("the server has crashed")]
    Crashed,
}

/// The store.
pub struct Store {
    state: RwLock<State>,
    window: usize,
    journal: Option<Box<dyn Journal>>,
    observer: Option<Arc<dyn Commits>>,
    crashed: Switch,
    /// What is written now is kept as text alone.
    folds: AtomicBool,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Store")
            .field("window", &self.window)
            .finish_non_exhaustive()
    }
}

impl Store {
    /// An empty store in memory that keeps `window` changes per kind.
    pub fn new(window: usize) -> Self {
        let state = State {
            revision: 1,
            compacted: 0,
            opened: 0,
            tables: BTreeMap::new(),
        };
        Store {
            state: RwLock::new(state),
            window,
            journal: None,
            observer: None,
            crashed: Switch::default(),
            folds: AtomicBool::new(false),
        }
    }

    /// A store of its own that begins with the objects of this one. They are shared, so it costs little; the history
    /// before is not known to it. `observer` is told of all that is written.
    pub fn fork(&self, observer: Option<Arc<dyn Commits>>) -> Self {
        let state = self.read();
        let revision = state.revision;
        let tables = state.tables.iter().map(|(name, table)| {
            let mut fork = Table::new(revision);
            fork.objects = table.objects.clone();
            (name.clone(), fork)
        });
        let fork = State {
            revision,
            compacted: revision,
            opened: revision,
            tables: tables.collect(),
        };
        Store {
            state: RwLock::new(fork),
            window: self.window,
            journal: None,
            observer,
            crashed: Switch::default(),
            folds: AtomicBool::new(false),
        }
    }

    fn tell(&self, table: &str, key: &str, new: Option<&Arc<Stored>>, old: Option<&Arc<Stored>>) {
        if let Some(observer) = &self.observer {
            observer.committed(table, key, new, old);
        }
    }

    /// A store on a journal, with everything that was written to it before.
    pub fn open(window: usize, journal: Box<dyn Journal>) -> Result<Self, StoreError> {
        let loaded = journal.load()?;
        let mut tables: BTreeMap<Arc<str>, Table> = BTreeMap::new();
        let revision = loaded.revision.max(1);
        for (table, key, written, value) in loaded.objects {
            let stored = Stored::new(written, value);
            tables
                .entry(Arc::from(table))
                .or_insert_with(|| Table::new(revision))
                .objects
                .insert(key, stored);
        }
        let state = State {
            revision,
            compacted: revision,
            opened: revision,
            tables,
        };
        Ok(Store {
            state: RwLock::new(state),
            window,
            journal: Some(journal),
            observer: None,
            crashed: Switch::default(),
            folds: AtomicBool::new(false),
        })
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The revision of the newest write.
    pub fn revision(&self) -> u64 {
        self.read().revision
    }

    /// The newest revision that can no longer be read.
    pub fn compacted(&self) -> u64 {
        self.read().compacted
    }

    /// The current version of an object.
    pub fn get(&self, table: &str, key: &str) -> Option<Arc<Stored>> {
        self.read().tables.get(table)?.objects.get(key).cloned()
    }

    /// How many objects a table holds.
    pub fn count(&self, table: &str) -> usize {
        self.read()
            .tables
            .get(table)
            .map_or(0, |table| table.objects.len())
    }

    /// The names of all tables that hold objects.
    pub fn tables(&self) -> Vec<Arc<str>> {
        self.read()
            .tables
            .iter()
            .filter(|(_, table)| !table.objects.is_empty())
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// Creates an object.
    pub fn create(&self, table: &str, key: &str, value: Value) -> Result<Arc<Stored>, StoreError> {
        let mut state = self.write();
        if state.has(table, key) {
            return Err(StoreError::Exists);
        }
        let revision = state.revision + 1;
        let stored = Stored::first(revision, value);
        self.record(table, key, Some(&stored), revision)?;
        state.commit(
            self.window,
            table,
            key,
            ChangeKind::Added,
            self.kept(&stored),
            None,
        );
        drop(state);
        self.tell(table, key, Some(&stored), None);
        Ok(stored)
    }

    /// Creates an object from its text, which is made for a revision.
    pub(crate) fn create_written(
        &self,
        table: &str,
        key: &str,
        text: impl FnOnce(u64) -> Text,
    ) -> Result<(), StoreError> {
        let mut state = self.write();
        if state.has(table, key) {
            return Err(StoreError::Exists);
        }
        let revision = state.revision + 1;
        let stored = Stored::first_written(revision, text(revision));
        self.record(table, key, Some(&stored), revision)?;
        let kept = stored.clone();
        state.commit(self.window, table, key, ChangeKind::Added, kept, None);
        drop(state);
        self.tell(table, key, Some(&stored), None);
        Ok(())
    }

    /// Whether what is written from now on is kept as text, without its tree: right for much that few will read.
    pub(crate) fn fold(&self, folds: bool) {
        self.folds.store(folds, Ordering::Relaxed);
    }

    fn kept(&self, stored: &Arc<Stored>) -> Arc<Stored> {
        match self.folds.load(Ordering::Relaxed) {
            true => stored.folded(),
            false => stored.clone(),
        }
    }

    /// Replaces an object that still has the expected revision.
    pub fn update(
        &self,
        table: &str,
        key: &str,
        expected: u64,
        value: Value,
    ) -> Result<Arc<Stored>, StoreError> {
        let mut state = self.write();
        let previous = state.expect(table, key, expected)?;
        let revision = state.revision + 1;
        let stored = Stored::new(revision, value);
        self.record(table, key, Some(&stored), revision)?;
        state.commit(
            self.window,
            table,
            key,
            ChangeKind::Modified,
            self.kept(&stored),
            Some(previous.clone()),
        );
        drop(state);
        self.tell(table, key, Some(&stored), Some(&previous));
        Ok(stored)
    }

    /// Deletes an object that still has the expected revision; `last` is the state its watchers see.
    pub fn delete(
        &self,
        table: &str,
        key: &str,
        expected: u64,
        last: Option<Value>,
    ) -> Result<Arc<Stored>, StoreError> {
        let mut state = self.write();
        let previous = state.expect(table, key, expected)?;
        let revision = state.revision + 1;
        let stored = Stored::new(revision, last.unwrap_or_else(|| previous.value.clone()));
        self.record(table, key, None, revision)?;
        state.commit(
            self.window,
            table,
            key,
            ChangeKind::Deleted,
            self.kept(&stored),
            Some(previous.clone()),
        );
        drop(state);
        self.tell(table, key, None, Some(&previous));
        Ok(stored)
    }

    fn record(
        &self,
        table: &str,
        key: &str,
        object: Option<&Arc<Stored>>,
        revision: u64,
    ) -> Result<(), StoreError> {
        if self.crashed.is_set() {
            return Err(StoreError::Crashed);
        }
        let kept = match &self.journal {
            Some(journal) => {
                journal.append(table, key, object.map(|stored| stored.text()), revision)
            }
            None => Ok(()),
        };
        if kept == Err(StoreError::Crashed) {
            self.crashed.set(true);
        }
        kept
    }

    /// From now on nothing is written any more, and everybody who reads is cut off.
    pub fn crash(&self) {
        // Whatever is being written is done, or not begun.
        let _state = self.write();
        self.crashed.set(true);
    }

    /// The switch of [`Store::crash`].
    pub(crate) fn crashed(&self) -> &Switch {
        &self.crashed
    }

    /// An object as it was at a revision.
    pub fn get_at(
        &self,
        table: &str,
        key: &str,
        revision: u64,
    ) -> Result<Option<Arc<Stored>>, StoreError> {
        let state = self.read();
        let Some(table) = state.tables.get(table) else {
            return Ok(None);
        };
        if revision < table.dropped {
            return Err(StoreError::TooOld(revision));
        }
        let mut later = table.log.iter().skip(
            table
                .log
                .partition_point(|change| change.revision <= revision),
        );
        Ok(match later.find(|change| change.key == key) {
            Some(change) => change.previous.clone(),
            None => table.objects.get(key).cloned(),
        })
    }

    /// Lists a table below a key prefix at the current revision.
    pub fn list(&self, table: &str, prefix: &str, after: Option<&str>, limit: usize) -> Page {
        let state = self.read();
        let mut page = Page {
            revision: state.revision,
            ..Page::default()
        };
        if let Some(table) = state.tables.get(table) {
            page.fill(
                table.objects.range::<str, _>(range_from(prefix, after)),
                prefix,
                (limit, true),
            );
        }
        page
    }

    /// Lists a table as it was at a revision.
    pub fn list_at(
        &self,
        table: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        revision: u64,
    ) -> Result<Page, StoreError> {
        self.page_at(table, prefix, after, (limit, true), revision)
    }

    /// As [`Store::list_at`], without counting what remains after the page.
    pub fn slice_at(
        &self,
        table: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        revision: u64,
    ) -> Result<Page, StoreError> {
        self.page_at(table, prefix, after, (limit, false), revision)
    }

    fn page_at(
        &self,
        table: &str,
        prefix: &str,
        after: Option<&str>,
        limit: (usize, bool),
        revision: u64,
    ) -> Result<Page, StoreError> {
        let state = self.read();
        let mut page = Page {
            revision,
            ..Page::default()
        };
        let Some(table) = state.tables.get(table) else {
            return Ok(page);
        };
        if revision < table.dropped {
            return Err(StoreError::TooOld(revision));
        }
        let mut undone: BTreeMap<&str, Option<&Arc<Stored>>> = BTreeMap::new();
        for change in table
            .log
            .iter()
            .rev()
            .take_while(|change| change.revision > revision)
        {
            if change.key.starts_with(prefix) {
                undone.insert(&change.key, change.previous.as_ref());
            }
        }
        if undone.is_empty() {
            page.fill(
                table.objects.range::<str, _>(range_from(prefix, after)),
                prefix,
                limit,
            );
            return Ok(page);
        }
        let now = table
            .objects
            .range::<str, _>(range_from(prefix, after))
            .map(|(key, stored)| (key.as_str(), stored));
        let then = undone.range::<str, _>(range_from(prefix, after));
        page.fill(
            Merged {
                now: now.peekable(),
                then: then.map(|(key, stored)| (*key, *stored)).peekable(),
            },
            prefix,
            limit,
        );
        Ok(page)
    }

    /// Changes of a table after a revision, at most `most` of them.
    pub fn changes(
        &self,
        table: &str,
        after: u64,
        most: usize,
    ) -> Result<Vec<Arc<Change>>, StoreError> {
        let state = self.read();
        let Some(table) = state.tables.get(table) else {
            return if after < state.opened {
                Err(StoreError::TooOld(after))
            } else {
                Ok(Vec::new())
            };
        };
        if after < table.dropped {
            return Err(StoreError::TooOld(after));
        }
        let start = table.log.partition_point(|change| change.revision <= after);
        Ok(table.log.iter().skip(start).take(most).cloned().collect())
    }

    /// The oldest revision a watch on this table may start from.
    pub fn oldest(&self, table: &str) -> u64 {
        self.read()
            .tables
            .get(table)
            .map_or(0, |table| table.dropped)
    }

    /// A receiver that wakes when a table changes.
    pub fn subscribe(&self, table: &str) -> watch::Receiver<u64> {
        if let Some(found) = self.read().tables.get(table) {
            return found.moved.subscribe();
        }
        let mut state = self.write();
        state.table(table).moved.subscribe()
    }

    /// Starts a table whose history begins now.
    pub fn open_table(&self, table: &str) {
        let mut state = self.write();
        let now = state.revision;
        state
            .tables
            .entry(Arc::from(table))
            .or_insert_with(|| Table::new(now));
    }

    /// Forgets history up to a revision.
    pub fn compact(&self, revision: u64) {
        let mut state = self.write();
        state.compacted = state.compacted.max(revision.min(state.revision));
    }

    /// Forgets a table's history up to a revision, so that watches from before it are refused.
    pub fn forget(&self, table: &str, revision: u64) {
        let mut state = self.write();
        let table = state.table(table);
        while table
            .log
            .front()
            .is_some_and(|change| change.revision <= revision)
        {
            table.log.pop_front();
        }
        table.dropped = table.dropped.max(revision);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everflow_json::json;

    fn object(text: &str) -> Value {
        json!({"metadata": {"name": text}})
    }

    #[test]
    fn history_can_be_listed_and_watched() {
        let store = Store::new(100);
        let first = store.create("t", "ns/a", object("a")).unwrap();
        let second = store.create("t", "ns/b", object("b")).unwrap();
        store
            .update("t", "ns/a", first.revision, object("a2"))
            .unwrap();
        store.delete("t", "ns/b", second.revision, None).unwrap();
        let then = store.list_at("t", "ns/", None, 0, second.revision).unwrap();
        assert_eq!(then.items.len(), 2);
        assert_eq!(store.list("t", "ns/", None, 0).items.len(), 1);
        let kinds: Vec<ChangeKind> = store
            .changes("t", second.revision, 10)
            .unwrap()
            .iter()
            .map(|change| change.kind)
            .collect();
        assert_eq!(kinds, [ChangeKind::Modified, ChangeKind::Deleted]);
        assert_eq!(
            store
                .update("t", "ns/a", first.revision, object("x"))
                .unwrap_err(),
            StoreError::Stale
        );
    }

    #[test]
    fn pages_count_what_remains() {
        let store = Store::new(3);
        for name in ["a", "b", "c", "d", "e"] {
            store
                .create("t", &format!("ns/{name}"), object(name))
                .unwrap();
        }
        let page = store.list("t", "ns/", None, 2);
        assert_eq!(
            (page.items.len(), page.remaining, page.last_key.as_deref()),
            (2, 3, Some("ns/b"))
        );
        let rest = store.list("t", "ns/", Some("ns/b"), 0);
        assert_eq!((rest.items.len(), rest.remaining), (3, 0));
        assert_eq!(
            store.changes("t", 1, 10).unwrap_err(),
            StoreError::TooOld(1)
        );
    }
}
