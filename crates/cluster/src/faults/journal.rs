//! What is durable, and what can happen on the way there.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use everflow_json::Value;

use crate::store::StoreError;
use crate::store::durable::{Journal, Loaded, read_object};

/// What happens to one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteVerdict {
    /// It is kept.
    Pass,
    /// It is refused and not kept; the request fails with an internal error.
    Fail,
    /// The server dies before it is kept.
    CrashBefore,
    /// It is kept, and the server dies before it can tell.
    CrashAfter,
}

/// The hook at each write.
pub trait WriteFaults: Send + Sync + 'static {
    /// Before a write (`is_deletion` when the object goes) gets its revision for good.
    fn write(&self, table: &str, key: &str, revision: u64, is_deletion: bool) -> WriteVerdict;
}

/// A journal whose writes a simulator judges. Once dead, it keeps nothing more.
pub struct FaultyJournal {
    journal: Box<dyn Journal>,
    faults: Arc<dyn WriteFaults>,
    dead: Mutex<bool>,
}

impl std::fmt::Debug for FaultyJournal {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("FaultyJournal").finish_non_exhaustive()
    }
}

impl FaultyJournal {
    /// The journal with faults.
    pub fn new(journal: Box<dyn Journal>, faults: Arc<dyn WriteFaults>) -> Self {
        FaultyJournal {
            journal,
            faults,
            dead: Mutex::new(false),
        }
    }
}

impl Journal for FaultyJournal {
    fn load(&self) -> Result<Loaded, StoreError> {
        self.journal.load()
    }

    fn append(
        &self,
        table: &str,
        key: &str,
        object: Option<Bytes>,
        revision: u64,
    ) -> Result<(), StoreError> {
        let mut dead = self.dead.lock().unwrap_or_else(PoisonError::into_inner);
        if *dead {
            return Err(StoreError::Crashed);
        }
        match self.faults.write(table, key, revision, object.is_none()) {
            WriteVerdict::Pass => self.journal.append(table, key, object, revision),
            WriteVerdict::Fail => Err(StoreError::Durable("the write was refused".to_owned())),
            WriteVerdict::CrashBefore => {
                *dead = true;
                Err(StoreError::Crashed)
            }
            WriteVerdict::CrashAfter => {
                *dead = true;
                self.journal.append(table, key, object, revision)?;
                Err(StoreError::Crashed)
            }
        }
    }
}

#[derive(Debug, Default)]
struct Kept {
    objects: BTreeMap<(String, String), (u64, Bytes)>,
    revision: u64,
    /// Counts the openings: only the newest may write.
    opened: u64,
}

/// A disk in memory that outlives servers. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct MemoryDisk {
    kept: Arc<Mutex<Kept>>,
}

impl MemoryDisk {
    /// An empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    /// A journal on the disk. Journals opened before keep nothing more: theirs was another life.
    pub fn open(&self) -> impl Journal + use<> {
        let mut kept = self.kept();
        kept.opened += 1;
        MemoryJournal {
            disk: self.clone(),
            life: kept.opened,
        }
    }

    /// The newest revision kept.
    pub fn revision(&self) -> u64 {
        self.kept().revision
    }

    /// The keys of a table and the objects there.
    pub fn objects(&self, table: &str) -> Vec<(String, Value)> {
        let kept = self.kept();
        let of_table = kept.objects.iter().filter(|((name, _), _)| name == table);
        of_table
            .filter_map(|((_, key), (_, text))| {
                Some((key.clone(), everflow_json::from_slice(text).ok()?))
            })
            .collect()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct MemoryJournal {
    disk: MemoryDisk,
    life: u64,
}

impl Journal for MemoryJournal {
    fn load(&self) -> Result<Loaded, StoreError> {
        let kept = self.disk.kept();
        let mut loaded = Loaded {
            revision: kept.revision,
            ..Loaded::default()
        };
        for ((table, key), (revision, text)) in &kept.objects {
            let object = read_object(text)?;
            loaded
                .objects
                .push((table.clone(), key.clone(), *revision, object));
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
        let mut kept = self.disk.kept();
        if kept.opened != self.life {
            return Err(StoreError::Crashed);
        }
        let place = (table.to_owned(), key.to_owned());
        match object {
            Some(text) => drop(kept.objects.insert(place, (revision, text))),
            None => drop(kept.objects.remove(&place)),
        }
        kept.revision = revision;
        Ok(())
    }
}
