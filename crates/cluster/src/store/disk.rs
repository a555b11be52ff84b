//! A journal on disk. Every write is one transaction that is on the disk before anybody sees it.

use std::path::Path;

use bytes::Bytes;
use everflow_json::Value;
use redb::{Database, ReadableDatabase as _, ReadableTable as _, StorageBackend, TableDefinition};

use super::StoreError;
use super::durable::{Journal, Loaded};

/// Key: table, a zero byte, the object's key. Value: the object as JSON.
const OBJECTS: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("objects");
/// One entry: the newest revision.
const REVISION: TableDefinition<'static, &str, u64> = TableDefinition::new("revision");

/// The journal.
#[derive(Debug)]
pub struct DiskJournal {
    database: Database,
}

fn failed(error: impl std::fmt::Display) -> StoreError {
    StoreError::Durable(error.to_string())
}

fn full_key(table: &str, key: &str) -> Vec<u8> {
    let mut full = Vec::with_capacity(table.len() + key.len() + 1);
    full.extend_from_slice(table.as_bytes());
    full.push(0);
    full.extend_from_slice(key.as_bytes());
    full
}

impl DiskJournal {
    /// Opens or creates the journal in a file.
    pub fn open(file: &Path) -> Result<Self, StoreError> {
        Self::prepare(Database::create(file).map_err(failed)?)
    }

    /// Opens or creates the journal on anything that stores bytes.
    pub fn on(storage: impl StorageBackend) -> Result<Self, StoreError> {
        let database = Database::builder()
            .create_with_backend(storage)
            .map_err(failed)?;
        Self::prepare(database)
    }

    fn prepare(database: Database) -> Result<Self, StoreError> {
        let begin = database.begin_write().map_err(failed)?;
        begin.open_table(OBJECTS).map_err(failed)?;
        begin.open_table(REVISION).map_err(failed)?;
        begin.commit().map_err(failed)?;
        Ok(DiskJournal { database })
    }
}

impl Journal for DiskJournal {
    fn load(&self) -> Result<Loaded, StoreError> {
        let read = self.database.begin_read().map_err(failed)?;
        let mut loaded = Loaded::default();
        if let Some(revision) = read
            .open_table(REVISION)
            .map_err(failed)?
            .get("newest")
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
        let write = self.database.begin_write().map_err(failed)?;
        {
            let mut objects = write.open_table(OBJECTS).map_err(failed)?;
            let full = full_key(table, key);
            match object {
                Some(text) => drop(objects.insert(full.as_slice(), &text[..]).map_err(failed)?),
                None => drop(objects.remove(full.as_slice()).map_err(failed)?),
            }
            let mut newest = write.open_table(REVISION).map_err(failed)?;
            newest.insert("newest", revision).map_err(failed)?;
        }
        write.commit().map_err(failed)
    }
}
