//! A journal on disk. Every write is one transaction that is on the disk before anybody sees it.
//!
//! After an error of the disk the database is closed, and opened again for a later write: a disk that was full has room
//! again at some time. What may have become of the write that failed is not known then: it is undone, together with
//! the next write, for it was never acknowledged and nobody has seen it.

use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use everflow_env::disk::private;
use everflow_json::Value;
use redb::backends::FileBackend;
use redb::{
    BackendError, Database, ReadableDatabase as _, ReadableTable as _, StorageBackend,
    TableDefinition,
};

use super::StoreError;
use super::durable::{Journal, Loaded};

/// Key: table, a zero byte, the object's key. Value: the object as JSON.
const OBJECTS: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("objects");
/// One entry: the newest revision.
const REVISION: TableDefinition<'static, &str, u64> = TableDefinition::new("revision");
/// The key of that entry.
const NEWEST: &str = "newest";

/// How long after an error the database stays closed. Opening it reads all of it, and most often nothing has changed.
const PAUSE: Duration = Duration::from_secs(1);

/// Opens the database again, after an error of the disk.
type Reopen = Box<dyn Fn() -> Result<Database, StoreError> + Send + Sync>;

/// The journal.
pub struct DiskJournal {
    reopen: Reopen,
    pause: Duration,
    state: Mutex<State>,
}

struct State {
    /// Closed after an error of the disk.
    database: Option<Database>,
    /// What objects were before writes that failed in their last step, after which they may or may not be stored.
    doubtful: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// The newest revision that was acknowledged.
    acknowledged: u64,
    /// The revision of the last write that failed in its last step.
    attempted: Option<u64>,
    /// The last error, and when the database may be opened again.
    error: Option<(StoreError, Instant)>,
}

/// Why a write failed, and whether it may be stored all the same.
enum Failed {
    Before(StoreError),
    InCommit(StoreError, Option<Vec<u8>>),
}

impl std::fmt::Debug for DiskJournal {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("DiskJournal").finish_non_exhaustive()
    }
}

fn failed(error: impl std::fmt::Display) -> StoreError {
    StoreError::Durable(error.to_string())
}

fn before(error: impl std::fmt::Display) -> Failed {
    Failed::Before(failed(error))
}

fn full_key(table: &str, key: &str) -> Vec<u8> {
    let mut full = Vec::with_capacity(table.len() + key.len() + 1);
    full.extend_from_slice(table.as_bytes());
    full.push(0);
    full.extend_from_slice(key.as_bytes());
    full
}

impl DiskJournal {
    /// Opens or creates the journal in a file that only its owner may read.
    pub fn open(file: &Path) -> Result<Self, StoreError> {
        let path: PathBuf = file.to_owned();
        let first = private::open_or_create_file(file).map_err(failed)?;
        let backend = FileBackend::new(first).map_err(failed)?;
        // A file that is gone by then must not become an empty one.
        let open = move || {
            let file = std::fs::File::options().read(true).write(true).open(&path);
            FileBackend::new(file?).map_err(io::Error::other)
        };
        Self::begin(backend, open, PAUSE)
    }

    /// Opens or creates the journal on anything that stores bytes. After an error it stays closed.
    pub fn on(storage: impl StorageBackend) -> Result<Self, StoreError> {
        Self::prepare(storage, Box::new(|| Err(failed("it is closed"))), PAUSE)
    }

    /// The same on storage that can be opened again after an error, at the earliest after a pause.
    pub fn reopening<S: StorageBackend>(
        open: impl Fn() -> io::Result<S> + Send + Sync + 'static,
        pause: Duration,
    ) -> Result<Self, StoreError> {
        let storage = open().map_err(failed)?;
        Self::begin(storage, open, pause)
    }

    fn begin<S: StorageBackend>(
        storage: S,
        open: impl Fn() -> io::Result<S> + Send + Sync + 'static,
        pause: Duration,
    ) -> Result<Self, StoreError> {
        let reopen = move || {
            let storage = open().map_err(failed)?;
            settle(&storage)?;
            let database = Database::builder().create_with_backend(storage);
            database.map_err(failed)
        };
        Self::prepare(storage, Box::new(reopen), pause)
    }

    fn prepare(
        storage: impl StorageBackend,
        reopen: Reopen,
        pause: Duration,
    ) -> Result<Self, StoreError> {
        let database = Database::builder()
            .create_with_backend(storage)
            .map_err(failed)?;
        let begin = database.begin_write().map_err(failed)?;
        begin.open_table(OBJECTS).map_err(failed)?;
        begin.open_table(REVISION).map_err(failed)?;
        begin.commit().map_err(failed)?;
        let acknowledged = newest(&database)?;
        let state = State {
            database: Some(database),
            doubtful: BTreeMap::new(),
            acknowledged,
            attempted: None,
            error: None,
        };
        Ok(DiskJournal {
            reopen,
            pause,
            state: Mutex::new(state),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the database again if it was closed, unless that was a moment ago.
    fn recover(&self, state: &mut State) -> Result<(), StoreError> {
        if state.database.is_some() {
            return Ok(());
        }
        let begun = Instant::now();
        if let Some((error, until)) = &state.error
            && begun < *until
        {
            return Err(error.clone());
        }
        match self.reopened(state) {
            Ok(database) => {
                state.database = Some(database);
                Ok(())
            }
            Err(error) => {
                // Those who only read wait meanwhile, so what takes long is tried rarely.
                let longer = 1.0 + 10.0 * begun.elapsed().as_secs_f64();
                let pause = self.pause.mul_f64(longer);
                state.error = Some((error.clone(), Instant::now() + pause));
                Err(error)
            }
        }
    }

    fn reopened(&self, state: &State) -> Result<Database, StoreError> {
        let database = (self.reopen)()?;
        let (found, known) = (newest(&database)?, state.acknowledged);
        match found == known || Some(found) == state.attempted {
            true => Ok(database),
            false => Err(failed(format!(
                "the file holds revision {found} where {known} was written last: it was changed by somebody else, or \
                 the disk has lost writes; restart to go on with what it holds"
            ))),
        }
    }
}

/// The newest revision in a database.
fn newest(database: &Database) -> Result<u64, StoreError> {
    let read = database.begin_read().map_err(failed)?;
    let table = read.open_table(REVISION).map_err(failed)?;
    let newest = table.get(NEWEST).map_err(failed)?;
    Ok(newest.map_or(0, |revision| revision.value()))
}

/// Brings to the disk what is read from it. When bytes could not be written, systems forget that they have to be, and
/// still show them: what is built on them later would be lost with them.
fn settle(storage: &impl StorageBackend) -> Result<(), StoreError> {
    let all = (Bound::Unbounded, Bound::Unbounded);
    // Another process may have opened the file since.
    match storage.try_lock_range(all.0, all.1) {
        Ok(true) => {
            let written = rewrite(storage).map_err(failed);
            storage.unlock_range(all.0, all.1).map_err(failed)?;
            written
        }
        Ok(false) => Err(failed("another process has opened the file")),
        Err(BackendError::Unsupported) => rewrite(storage).map_err(failed),
        Err(error) => Err(failed(error)),
    }
}

/// Writes everything once more, as it is read.
fn rewrite(storage: &impl StorageBackend) -> io::Result<()> {
    const PIECE: usize = 4 << 10;
    let length = storage.len()?;
    let mut buffer = [0; PIECE];
    for offset in (0..length).step_by(PIECE) {
        let count = usize::try_from(length - offset).map_or(PIECE, |left| left.min(PIECE));
        let piece = buffer.get_mut(..count).unwrap_or_default();
        storage.read(offset, piece)?;
        // A hole takes no room, and should not begin to.
        if piece.iter().any(|byte| *byte != 0) {
            storage.write(offset, piece)?;
        }
    }
    storage.sync_data()
}

impl State {
    /// Stores a write, and undoes what may be left of writes that failed.
    fn write(&self, key: &[u8], object: Option<&[u8]>, revision: u64) -> Result<(), Failed> {
        let database = self
            .database
            .as_ref()
            .ok_or_else(|| before("it is closed"))?;
        let write = database.begin_write().map_err(before)?;
        let previous = {
            let mut objects = write.open_table(OBJECTS).map_err(before)?;
            let mut put = |key: &[u8], object: Option<&[u8]>| {
                let previous = match object {
                    Some(text) => objects.insert(key, text),
                    None => objects.remove(key),
                };
                let previous = previous.map_err(before)?;
                Ok::<_, Failed>(previous.map(|previous| previous.value().to_vec()))
            };
            for (key, object) in &self.doubtful {
                put(key, object.as_deref())?;
            }
            let previous = put(key, object)?;
            let mut newest = write.open_table(REVISION).map_err(before)?;
            newest.insert(NEWEST, revision).map_err(before)?;
            previous
        };
        let committed = write.commit();
        committed.map_err(|error| Failed::InCommit(failed(error), previous))
    }
}

impl Journal for DiskJournal {
    fn load(&self) -> Result<Loaded, StoreError> {
        let mut state = self.state();
        self.recover(&mut state)?;
        let database = state.database.as_ref();
        let read = database
            .ok_or_else(|| failed("it is closed"))?
            .begin_read()
            .map_err(failed)?;
        let mut loaded = Loaded::default();
        if let Some(revision) = read
            .open_table(REVISION)
            .map_err(failed)?
            .get(NEWEST)
            .map_err(failed)?
        {
            loaded.revision = revision.value();
        }
        for entry in read
            .open_table(OBJECTS)
            .map_err(failed)?
            .iter()
            .map_err(failed)?
        {
            let (key, value) = entry.map_err(failed)?;
            let key = String::from_utf8_lossy(key.value()).into_owned();
            let object = super::durable::read_object(value.value())?;
            let (table, name) = key
                .split_once('\0')
                .ok_or_else(|| failed("a key without a table"))?;
            let revision = object
                .pointer("/metadata/resourceVersion")
                .and_then(Value::as_str)
                .and_then(|text| text.parse().ok())
                .unwrap_or_default();
            loaded
                .objects
                .push((table.to_owned(), name.to_owned(), revision, object));
        }
        Ok(loaded)
    }

    fn append(
        &self,
        table: &str,
        key: &str,
        object: Option<Bytes>,
        revision: u64,
    ) -> Result<(), StoreError> {
        let mut state = self.state();
        self.recover(&mut state)?;
        let key = full_key(table, key);
        let error = match state.write(&key, object.as_deref(), revision) {
            Ok(()) => {
                state.doubtful.clear();
                state.acknowledged = revision;
                state.attempted = None;
                state.error = None;
                return Ok(());
            }
            Err(Failed::Before(error)) => error,
            Err(Failed::InCommit(error, previous)) => {
                state.doubtful.entry(key).or_insert(previous);
                state.attempted = Some(revision);
                error
            }
        };
        state.database = None;
        state.error = Some((error.clone(), Instant::now() + self.pause));
        Err(error)
    }
}
