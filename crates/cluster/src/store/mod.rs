//! Storage: one revision counter, an index per kind, a bounded log of changes per kind.
//!
//! Watches are cursors on the log: a slow reader holds no memory of its own, and when the log has moved past its
//! position it is told so. Lists at an older revision undo the log's changes on a copy of the index.

pub mod disk;
pub mod durable;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::notice as watch;
use bytes::Bytes;
use serde_json::{Map, Value};

use durable::Journal;

use crate::faults::{Commits, Switch};

/// One version of an object. Its JSON text is made once and shared by every reader.
#[derive(Debug)]
pub struct Stored {
    /// The revision of the write that made this version.
    pub revision: u64,
    /// The object in its storage version.
    pub value: Value,
    /// Nothing was written to it since it was created.
    pub fresh: bool,
    text: OnceLock<Text>,
}

/// An object as JSON on a line of its own, with its type in front.
#[derive(Debug)]
struct Text {
    line: Bytes,
    /// Where the part behind the type starts.
    untyped: usize,
}

impl Text {
    fn of(value: &Value) -> Text {
        let mut line = Vec::with_capacity(512);
        let write = |line: &mut Vec<u8>, key: &str, value: &Value| {
            line.push(if line.is_empty() { b'{' } else { b',' });
            // Writing to memory does not fail, and keys are text.
            let _ = serde_json::to_writer(&mut *line, key);
            line.push(b':');
            let _ = serde_json::to_writer(line, value);
        };
        let empty = Map::new();
        let map = value.as_object().unwrap_or(&empty);
        for key in ["kind", "apiVersion"] {
            if let Some(value) = map.get(key) {
                write(&mut line, key, value);
            }
        }
        let untyped = line.len() + 1;
        for (key, value) in map {
            if key != "kind" && key != "apiVersion" {
                write(&mut line, key, value);
            }
        }
        if line.is_empty() {
            line.push(b'{');
        }
        line.extend_from_slice(b"}\n");
        Text {
            untyped: untyped.min(line.len() - 2),
            line: line.into(),
        }
    }
}

impl Stored {
    /// A version of an object, with its revision written into its metadata.
    pub fn new(revision: u64, mut value: Value) -> Arc<Self> {
        set_revision(&mut value, revision);
        Arc::new(Stored {
            revision,
            value,
            fresh: false,
            text: OnceLock::new(),
        })
    }

    /// The first version of an object.
    fn first(revision: u64, mut value: Value) -> Arc<Self> {
        set_revision(&mut value, revision);
        Arc::new(Stored {
            revision,
            value,
            fresh: true,
            text: OnceLock::new(),
        })
    }

    fn written(&self) -> &Text {
        self.text.get_or_init(|| Text::of(&self.value))
    }

    /// The object as JSON text on a line of its own.
    pub fn line(&self) -> Bytes {
        self.written().line.clone()
    }

    /// What stands between the braces of the object's JSON text, without its type.
    pub fn untyped_text(&self) -> &[u8] {
        let text = self.written();
        &text.line[text.untyped..text.line.len() - 2]
    }

    /// The object as JSON text.
    pub fn text(&self) -> Bytes {
        let line = self.line();
        line.slice(..line.len() - 1)
    }
}

/// Writes a revision into an object's metadata.
pub fn set_revision(value: &mut Value, revision: u64) {
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("resourceVersion".into(), Value::from(revision.to_string()));
    }
}

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

#[derive(Debug)]
struct Table {
    objects: BTreeMap<String, Arc<Stored>>,
    log: VecDeque<Arc<Change>>,
    /// The newest revision no longer in the log.
    dropped: u64,
    moved: watch::Sender<u64>,
}

#[derive(Debug)]
struct State {
    revision: u64,
    compacted: u64,
    /// What was before this revision is known to nobody: the store was opened with it.
    opened: u64,
    tables: BTreeMap<Arc<str>, Table>,
}

/// The store.
pub struct Store {
    state: RwLock<State>,
    window: usize,
    journal: Option<Box<dyn Journal>>,
    observer: Option<Arc<dyn Commits>>,
    crashed: Switch,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Store")
            .field("window", &self.window)
            .finish_non_exhaustive()
    }
}

/// A page of a list.
#[derive(Debug, Default)]
pub struct Page {
    /// The objects in key order.
    pub items: Vec<Arc<Stored>>,
    /// The key of the last item when more follow.
    pub last_key: Option<String>,
    /// How many items follow after this page (before any filter).
    pub remaining: usize,
    /// The revision the page shows.
    pub revision: u64,
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
        if state
            .tables
            .get(table)
            .is_some_and(|table| table.objects.contains_key(key))
        {
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
            stored.clone(),
            None,
        );
        drop(state);
        self.tell(table, key, Some(&stored), None);
        Ok(stored)
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
            stored.clone(),
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
            stored.clone(),
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

fn range_from<'k>(
    prefix: &'k str,
    after: Option<&'k str>,
) -> (std::ops::Bound<&'k str>, std::ops::Bound<&'k str>) {
    use std::ops::Bound;
    let start = match after {
        Some(key) => Bound::Excluded(key),
        None => Bound::Included(prefix),
    };
    (start, Bound::Unbounded)
}

/// Objects as they are now, with those that changed since as they were then.
struct Merged<N: Iterator, T: Iterator> {
    now: std::iter::Peekable<N>,
    then: std::iter::Peekable<T>,
}

impl<'a, N, T> Iterator for Merged<N, T>
where
    N: Iterator<Item = (&'a str, &'a Arc<Stored>)>,
    T: Iterator<Item = (&'a str, Option<&'a Arc<Stored>>)>,
{
    type Item = (&'a str, &'a Arc<Stored>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some((changed, _)) = self.then.peek() else {
                return self.now.next();
            };
            match self.now.peek() {
                Some((key, _)) if key < changed => return self.now.next(),
                Some((key, _)) if key == changed => drop(self.now.next()),
                _ => {}
            }
            if let Some((key, Some(stored))) = self.then.next() {
                return Some((key, stored));
            }
        }
    }
}

impl Page {
    fn fill<'a, K: AsRef<str> + ?Sized + 'a>(
        &mut self,
        range: impl Iterator<Item = (&'a K, &'a Arc<Stored>)>,
        prefix: &str,
        (limit, count_rest): (usize, bool),
    ) {
        let mut last: Option<&K> = None;
        for (key, stored) in range.take_while(|(key, _)| key.as_ref().starts_with(prefix)) {
            if limit > 0 && self.items.len() == limit {
                self.remaining += 1;
                if count_rest {
                    continue;
                }
                break;
            }
            self.items.push(stored.clone());
            last = Some(key);
        }
        if self.remaining > 0 {
            self.last_key = last.map(|key| key.as_ref().to_owned());
        }
    }
}

impl Table {
    fn new(dropped: u64) -> Self {
        Table {
            objects: BTreeMap::new(),
            log: VecDeque::new(),
            dropped,
            moved: watch::Sender::new(dropped),
        }
    }
}

impl State {
    fn table(&mut self, name: &str) -> &mut Table {
        // A table that never existed has no history worth refusing, but for what may have been in it before the store
        // was opened.
        let opened = self.opened;
        self.tables
            .entry(Arc::from(name))
            .or_insert_with(|| Table::new(opened))
    }

    fn expect(&self, table: &str, key: &str, expected: u64) -> Result<Arc<Stored>, StoreError> {
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

    fn commit(
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
