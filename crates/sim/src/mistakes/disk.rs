//! Mistakes with files.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use everflow_env::Disk;
use everflow_env::disk::{Entry, FileReader, FileWriter};

use super::Mistake;
use super::queue;

/// A disk that a mistake uses in another way.
#[derive(Debug)]
pub(crate) struct MistakenDisk {
    pub inner: Arc<dyn Disk>,
    pub mistake: Mistake,
}

impl MistakenDisk {
    /// Removes the other files beside one that is about to be there: what the status still names, for one.
    fn remove_beside(&self, path: &str) {
        let Some((directory, name)) = path.rsplit_once('/') else {
            return;
        };
        for other in self.inner.list(directory).unwrap_or_default() {
            if other.name != name && other.name.ends_with(".tar.gz") {
                let _ = self.inner.remove(&format!("{directory}/{}", other.name));
            }
        }
    }
}

impl Disk for MistakenDisk {
    fn create(&self, path: &str) -> io::Result<Box<dyn FileWriter>> {
        let file = self.inner.create(path)?;
        Ok(match self.mistake {
            Mistake::NoSyncBeforeRename => Box::new(Unsynced(file)),
            // What came from another replica is put here before it has its name.
            Mistake::CopyOfArtifactCutShort if path.contains("copy") => Box::new(CutShort(file)),
            Mistake::DeliveredBeforeAnswer if queue::is_one(path) => queue::done_at_once(file),
            _ => file,
        })
    }

    fn open(&self, path: &str) -> io::Result<Box<dyn FileReader>> {
        if self.mistake == Mistake::QueueForgotten && queue::is_one(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.inner.open(path)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        if self.mistake == Mistake::ArtifactDeletedFirst && to.ends_with(".tar.gz") {
            self.remove_beside(to);
        }
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.inner.remove(path)
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        self.inner.create_dir(path)
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        self.inner.remove_dir(path)
    }

    fn list(&self, path: &str) -> io::Result<Vec<Entry>> {
        self.inner.list(path)
    }

    fn entry(&self, path: &str) -> io::Result<Entry> {
        self.inner.entry(path)
    }

    fn link(&self, target: &str, path: &str) -> io::Result<()> {
        self.inner.link(target, path)
    }

    fn sync_dir(&self, path: &str) -> io::Result<()> {
        self.inner.sync_dir(path)
    }

    fn location(&self, path: &str) -> Option<PathBuf> {
        self.inner.location(path)
    }
}

/// A file that nobody makes durable.
struct Unsynced(Box<dyn FileWriter>);

impl Write for Unsynced {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl FileWriter for Unsynced {
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A file of which the last bytes of each piece are not written, though it is said that they were.
struct CutShort(Box<dyn FileWriter>);

impl Write for CutShort {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_all(&bytes[..bytes.len() / 2])?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl FileWriter for CutShort {
    fn sync(&mut self) -> io::Result<()> {
        self.0.sync()
    }
}
