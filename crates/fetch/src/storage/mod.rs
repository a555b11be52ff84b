//! The artifact store: files that statuses name and other programs download.
//!
//! The layout is Flux's: `kind/namespace/name/file`. A file appears under its name all at once and
//! never changes; what a status names is never collected; what a crash left behind is in the
//! temporary area, which is emptied at start.

#[cfg(test)]
mod peer_tests;
mod peers;
mod server;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use everflow_env::disk::{EntryKind, FileWriter};
use everflow_env::{Disk, Env, run_blocking};

pub use peers::FROM_PEER;
pub use server::{FileServer, NamedArtifacts, Posts, ServerLimits};

use crate::Error;
use crate::archive::{Algorithm, Digest, DigestWriter, Digester, digest_reader};
use crate::temporary::{TEMPORARY, TemporaryDirectory, TemporaryFile};

/// How the store behaves.
#[derive(Debug, Clone)]
pub struct StorageOptions {
    /// Where others reach the store: `host`, `host:port` or a whole URL.
    pub advertised: String,
    /// How long a file is kept that no status names.
    pub retention: Duration,
    /// How many files of one source are kept beside that.
    pub records: usize,
    /// The digest of artifacts.
    pub algorithm: Algorithm,
    /// Bytes that all artifacts together may take.
    pub quota: u64,
}

impl Default for StorageOptions {
    /// One minute, two records, SHA-256, no quota to speak of.
    fn default() -> Self {
        StorageOptions {
            advertised: "localhost".to_owned(),
            retention: Duration::from_secs(60),
            records: 2,
            algorithm: Algorithm::Sha256,
            quota: u64::MAX,
        }
    }
}

/// The source that a file belongs to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    directory: String,
}

impl Owner {
    /// A source by kind, namespace and name.
    pub fn new(kind: &str, namespace: &str, name: &str) -> Result<Self, Error> {
        for part in [kind, namespace, name] {
            plain_name(part)?;
        }
        let kind = kind.to_lowercase();
        Ok(Owner {
            directory: format!("{kind}/{namespace}/{name}"),
        })
    }

    /// The directory of the source's files.
    pub fn directory(&self) -> &str {
        &self.directory
    }

    /// The path of one of the source's files.
    pub fn file(&self, name: &str) -> Result<String, Error> {
        plain_name(name)?;
        Ok(format!("{}/{name}", self.directory))
    }
}

fn plain_name(name: &str) -> Result<(), Error> {
    let odd = name.is_empty()
        || name.starts_with('.')
        || name.len() > 255
        || name.contains(['/', '\\', '\0'])
        || name.chars().any(char::is_control)
        || name.ends_with(UNFINISHED);
    match odd {
        true => Err(Error::Storage {
            reason: "InvalidPath",
            message: format!("{name:?} cannot be part of an artifact's path"),
        }),
        false => Ok(()),
    }
}

/// Names that the disk uses while it replaces a link.
const UNFINISHED: &str = ".unfinished";

/// What was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// The path in the store.
    pub path: String,
    /// Where others download it.
    pub url: String,
    /// The digest of the file.
    pub digest: Digest,
    /// The size of the file.
    pub size: u64,
}

/// The store. Clones share it.
#[derive(Debug, Clone)]
pub struct Storage {
    env: Env,
    options: Arc<StorageOptions>,
    seen: Arc<Mutex<BTreeMap<String, Seen>>>,
    peers: Option<Arc<peers::Peers>>,
}

/// What is known of a file.
#[derive(Debug)]
struct Seen {
    /// When it was stored or first seen, by the clock that does not jump.
    since: Duration,
    /// How it was when it was last read to its end and found whole.
    whole: Option<Whole>,
}

/// A file that had its digest.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Whole {
    digest: Digest,
    size: u64,
    modified: SystemTime,
    /// When it was read.
    read: Duration,
}

/// Even a file that nobody seems to have touched is read again after so long: disks rot.
const READ_AGAIN: Duration = Duration::from_secs(24 * 3_600);

/// Pieces in which files are copied.
const PIECE: usize = 256 << 10;

impl Storage {
    /// Opens the store and empties the temporary area.
    pub async fn open(env: &Env, options: StorageOptions) -> Result<Self, Error> {
        let storage = Storage {
            env: env.clone(),
            options: Arc::new(options),
            seen: Arc::default(),
            peers: None,
        };
        storage
            .blocking(|disk| {
                disk.remove_dir(TEMPORARY)
                    .and_then(|()| disk.create_dir(TEMPORARY))
                    .map_err(|error| Error::disk("empty", TEMPORARY, error))
            })
            .await?;
        Ok(storage)
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Disk) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let disk = self.env.disk.clone();
        run_blocking(&*self.env.blocking, move || work(&*disk))
            .await
            .ok_or(Error::Lost)?
    }

    /// The digest that new artifacts get.
    pub fn algorithm(&self) -> Algorithm {
        self.options.algorithm
    }

    /// Where others download a path.
    pub fn url(&self, path: &str) -> String {
        let address = self.options.advertised.trim_end_matches('/');
        match address.starts_with("http://") || address.starts_with("https://") {
            true => format!("{address}/{path}"),
            false => format!("http://{address}/{path}"),
        }
    }

    /// A directory for unfinished work.
    pub async fn temporary(&self, what: &'static str) -> Result<TemporaryDirectory, Error> {
        let env = self.env.clone();
        self.blocking(move |_| TemporaryDirectory::new(&env, what))
            .await
    }

    /// Gives a finished file from the temporary area its name in the store, all at once and so
    /// that a crash cannot undo it. Digest and size are those that its writer computed.
    pub async fn publish(
        &self,
        finished: &str,
        owner: &Owner,
        name: &str,
        digest: Digest,
        size: u64,
    ) -> Result<Stored, Error> {
        let path = owner.file(name)?;
        self.check_quota(size).await?;
        let (from, to, directory) = (finished.to_owned(), path.clone(), owner.directory.clone());
        self.blocking(move |disk| put_in_place(disk, &from, &directory, &to))
            .await?;
        Ok(self.stored(path, digest, size))
    }

    /// The same, and makes `link` in the source's directory point to it. That may fail without
    /// harm: the address of the link, or why there is none.
    pub async fn publish_linked(
        &self,
        finished: &str,
        owner: &Owner,
        name: &str,
        (digest, size): (Digest, u64),
        link: &str,
    ) -> Result<(Stored, Result<String, Error>), Error> {
        let path = owner.file(name)?;
        let linked = owner.file(link)?;
        let url = self.url(&linked);
        self.check_quota(size).await?;
        let (from, to, directory) = (finished.to_owned(), path.clone(), owner.directory.clone());
        let target = name.to_owned();
        let link = self
            .blocking(move |disk| {
                put_in_place(disk, &from, &directory, &to)?;
                Ok(link_to(disk, &target, &linked))
            })
            .await?;
        Ok((self.stored(path, digest, size), link.map(|()| url)))
    }

    /// Stores a copy of a file of the store for another source. `None` when it is not there any
    /// more, or not what it was.
    pub async fn publish_copy(
        &self,
        of: &str,
        owner: &Owner,
        name: &str,
        (digest, size): (Digest, u64),
    ) -> Result<Option<Stored>, Error> {
        let path = owner.file(name)?;
        self.check_quota(size).await?;
        let (from, to, directory) = (of.to_owned(), path.clone(), owner.directory.clone());
        let (env, expected) = (self.env.clone(), digest.clone());
        let copied = self
            .blocking(move |disk| {
                let (file, writer) = TemporaryFile::create(&env, "copy")?;
                if !copy(disk, &from, file.path(), writer, &expected)? {
                    return Ok(false);
                }
                put_in_place(disk, file.path(), &directory, &to)?;
                Ok(true)
            })
            .await?;
        Ok(copied.then(|| self.stored(path, digest, size)))
    }

    /// A file that has its name in the store from now on.
    fn stored(&self, path: String, digest: Digest, size: u64) -> Stored {
        self.note(&path);
        Stored {
            url: self.url(&path),
            path,
            digest,
            size,
        }
    }

    /// Stores bytes as a file.
    pub async fn publish_bytes(
        &self,
        bytes: Vec<u8>,
        owner: &Owner,
        name: &str,
    ) -> Result<Stored, Error> {
        let place = self.temporary("bytes").await?;
        let path = place.file("content");
        let algorithm = self.options.algorithm;
        let target = path.clone();
        let (digest, size) = self
            .blocking(move |disk| {
                let failed = |error| Error::disk("write", &target, error);
                let file = disk.create(&target).map_err(failed)?;
                let mut writer = DigestWriter::new(file, algorithm);
                writer.write_all(&bytes).map_err(failed)?;
                let (mut file, digest, size) = writer.finish();
                file.sync().map_err(failed)?;
                Ok((digest, size))
            })
            .await?;
        self.publish(&path, owner, name, digest, size).await
    }

    async fn check_quota(&self, more: u64) -> Result<(), Error> {
        if self.options.quota == u64::MAX {
            return Ok(());
        }
        let used = self.used().await?;
        match used.saturating_add(more) > self.options.quota {
            true => Err(Error::Storage {
                reason: "StorageOperationFailed",
                message: format!(
                    "the artifacts take {used} bytes, {more} more would pass the quota of {}; \
                     raise the quota or remove sources",
                    self.options.quota
                ),
            }),
            false => Ok(()),
        }
    }

    /// How many bytes the artifacts take.
    pub async fn used(&self) -> Result<u64, Error> {
        self.blocking(|disk| {
            let mut total = 0;
            for kind in directories(disk, "")? {
                if kind == TEMPORARY {
                    continue;
                }
                for namespace in directories(disk, &kind)? {
                    for name in directories(disk, &namespace)? {
                        total += list(disk, &name)?
                            .iter()
                            .map(|entry| entry.size)
                            .sum::<u64>();
                    }
                }
            }
            Ok(total)
        })
        .await
    }

    /// Whether the file that a status names is there, with that digest. A file of another digest
    /// is removed: it must not be served. A file is read when it is first looked at, when its size
    /// or time has changed since, and once a day.
    pub async fn verify(&self, path: &str, digest: &Digest) -> Result<bool, Error> {
        let now = self.env.clock.elapsed();
        let known = self
            .known_whole(path)
            .filter(|whole| whole.digest == *digest && now.saturating_sub(whole.read) < READ_AGAIN);
        self.note(path);
        let (name, digest) = (path.to_owned(), digest.clone());
        let work = move |disk: &dyn Disk| read_whole(disk, &name, digest, known, now);
        let whole = self.blocking(work).await?;
        let found = whole.is_some();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match seen.get_mut(path) {
            Some(seen) => seen.whole = whole,
            // It was collected meanwhile.
            None => return Ok(false),
        }
        Ok(found)
    }

    fn known_whole(&self, path: &str) -> Option<Whole> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(path)?.whole.clone()
    }

    /// Makes a name in the source's directory point to one of its files, as `latest.tar.gz`.
    pub async fn link(&self, owner: &Owner, file: &str, name: &str) -> Result<String, Error> {
        let (path, target) = (owner.file(name)?, file.to_owned());
        plain_name(file)?;
        let url = self.url(&path);
        self.blocking(move |disk| link_to(disk, &target, &path))
            .await?;
        Ok(url)
    }

    fn note(&self, path: &str) -> Duration {
        let now = self.env.clock.elapsed();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let first = || Seen {
            since: now,
            whole: None,
        };
        seen.entry(path.to_owned()).or_insert_with(first).since
    }

    /// Removes files of a source that are old or too many; never one that `keep` names (paths in
    /// the store). Gives what it removed.
    pub async fn collect(&self, owner: &Owner, keep: &[&str]) -> Result<Vec<String>, Error> {
        let directory = owner.directory.clone();
        let files = self
            .blocking(move |disk| {
                let mut files = list(disk, &directory)?;
                files.retain(|entry| entry.kind == EntryKind::File);
                Ok(files)
            })
            .await?;
        let now = self.env.clock.elapsed();
        let mut kept = Vec::new();
        let mut garbage = Vec::new();
        for entry in files {
            let path = format!("{}/{}", owner.directory, entry.name);
            let age = now.saturating_sub(self.note(&path));
            let named = keep.contains(&path.as_str());
            match !named && age > self.options.retention {
                true => garbage.push(path),
                false => kept.push((entry.modified, path, named)),
            }
        }
        kept.sort();
        let mut too_many = kept.len().saturating_sub(self.options.records.max(1));
        for (_, path, named) in kept {
            if too_many > 0 && !named {
                garbage.push(path);
                too_many -= 1;
            }
        }
        if garbage.is_empty() {
            return Ok(garbage);
        }
        let removing = garbage.clone();
        self.blocking(move |disk| {
            for path in &removing {
                remove(disk, path)?;
            }
            Ok(())
        })
        .await?;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        for path in &garbage {
            seen.remove(path);
        }
        Ok(garbage)
    }

    /// Removes all files of a source that is gone.
    pub async fn remove_owner(&self, owner: &Owner) -> Result<(), Error> {
        let directory = owner.directory.clone();
        self.blocking(move |disk| {
            disk.remove_dir(&directory)
                .map_err(|error| Error::disk("remove", &directory, error))
        })
        .await?;
        let prefix = format!("{}/", owner.directory);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.retain(|path, _| !path.starts_with(&prefix));
        Ok(())
    }
}

/// Reads a file unless it is as it was when it was last found whole; `None` when it is missing or
/// broken.
fn read_whole(
    disk: &dyn Disk,
    path: &str,
    digest: Digest,
    known: Option<Whole>,
    now: Duration,
) -> Result<Option<Whole>, Error> {
    let entry = match disk.entry(path) {
        Ok(entry) => entry,
        Err(error) if gone(&error) => return Ok(None),
        Err(error) => return Err(Error::disk("look at", path, error)),
    };
    let same = |known: &Whole| known.size == entry.size && known.modified == entry.modified;
    if let Some(known) = known.filter(same) {
        return Ok(Some(known));
    }
    let file = match disk.open(path) {
        Ok(file) => file,
        Err(error) if gone(&error) => return Ok(None),
        Err(error) => return Err(Error::disk("open", path, error)),
    };
    let found = digest_reader(digest.algorithm(), file)
        .map_err(|error| Error::disk("read", path, error))?;
    if found != digest {
        disk.remove(path)
            .map_err(|error| Error::disk("remove", path, error))?;
        return Ok(None);
    }
    Ok(Some(Whole {
        digest,
        size: entry.size,
        modified: entry.modified,
        read: now,
    }))
}

/// Gives a finished file its name in a directory of the store, so that a crash cannot undo it.
fn put_in_place(disk: &dyn Disk, from: &str, directory: &str, to: &str) -> Result<(), Error> {
    disk.create_dir(directory)
        .and_then(|()| disk.rename(from, to))
        .and_then(|()| disk.sync_dir(directory))
        .map_err(|error| Error::disk("store", to, error))
}

/// Copies a file and makes it durable; whether it was there, with its digest.
fn copy(
    disk: &dyn Disk,
    from: &str,
    to: &str,
    mut writer: Box<dyn FileWriter>,
    digest: &Digest,
) -> Result<bool, Error> {
    let mut reader = match disk.open(from) {
        Ok(reader) => reader,
        Err(error) if gone(&error) => return Ok(false),
        Err(error) => return Err(Error::disk("open", from, error)),
    };
    let failed = |error| Error::disk("copy", to, error);
    let mut digester = Digester::new(digest.algorithm());
    let length = reader.len().map_err(failed)?;
    let mut buffer = vec![0; usize::try_from(length).unwrap_or(PIECE).clamp(1, PIECE)];
    loop {
        let count = reader.read(&mut buffer).map_err(failed)?;
        if count == 0 {
            break;
        }
        let piece = buffer.get(..count).unwrap_or_default();
        digester.update(piece);
        writer.write_all(piece).map_err(failed)?;
    }
    if digester.finish() != *digest {
        return Ok(false);
    }
    writer.sync().map_err(failed)?;
    Ok(true)
}

fn link_to(disk: &dyn Disk, target: &str, path: &str) -> Result<(), Error> {
    disk.link(target, path).map_err(|error| Error::Storage {
        reason: "SymlinkUpdateFailed",
        message: format!("failed to link {path} to {target}: {error}"),
    })
}

fn gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory
    )
}

fn remove(disk: &dyn Disk, path: &str) -> Result<(), Error> {
    match disk.remove(path) {
        Err(error) if !gone(&error) => Err(Error::disk("remove", path, error)),
        _ => Ok(()),
    }
}

fn list(disk: &dyn Disk, path: &str) -> Result<Vec<everflow_env::disk::Entry>, Error> {
    match disk.list(path) {
        Err(error) if gone(&error) => Ok(Vec::new()),
        other => other.map_err(|error| Error::disk("list", path, error)),
    }
}

fn directories(disk: &dyn Disk, path: &str) -> Result<Vec<String>, Error> {
    let below = |name: String| match path {
        "" => name,
        _ => format!("{path}/{name}"),
    };
    Ok(list(disk, path)?
        .into_iter()
        .filter(|entry| entry.kind == EntryKind::Directory)
        .map(|entry| below(entry.name))
        .collect())
}
