//! A directory of the machine.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::{Disk, Entry, EntryKind, FileReader, FileWriter, parts, private};

/// The files below a directory.
#[derive(Debug, Clone)]
pub struct RealDisk {
    root: PathBuf,
}

impl RealDisk {
    /// The files below `root`, which is made when it is not there.
    pub fn new(root: &Path) -> io::Result<Self> {
        private::create_dir(root)?;
        Ok(RealDisk {
            root: root.canonicalize()?,
        })
    }

    fn path(&self, path: &str) -> io::Result<PathBuf> {
        let mut full = self.root.clone();
        full.extend(parts(path)?);
        Ok(full)
    }
}

impl Disk for RealDisk {
    fn create(&self, path: &str) -> io::Result<Box<dyn FileWriter>> {
        let file = private::create_file(&self.path(path)?)?;
        Ok(Box::new(RealWriter(file)))
    }

    fn open(&self, path: &str) -> io::Result<Box<dyn FileReader>> {
        open(path, &self.path(path)?)
    }

    fn open_contained(&self, path: &str) -> io::Result<Box<dyn FileReader>> {
        let full = self.path(path)?.canonicalize()?;
        match full.starts_with(&self.root) {
            true => open(path, &full),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path(from)?, self.path(to)?)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        std::fs::remove_file(self.path(path)?)
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        private::create_dir(&self.path(path)?)
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        match std::fs::remove_dir_all(self.path(path)?) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    fn list(&self, path: &str) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in std::fs::read_dir(self.path(path)?)? {
            let entry = entry?;
            // Names that are not text are not ours.
            if let Ok(name) = entry.file_name().into_string() {
                entries.push(describe(name, &entry.metadata()?)?);
            }
        }
        entries.sort_by(|one, two| one.name.cmp(&two.name));
        Ok(entries)
    }

    fn entry(&self, path: &str) -> io::Result<Entry> {
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        describe(name, &std::fs::symlink_metadata(self.path(path)?)?)
    }

    fn link(&self, target: &str, path: &str) -> io::Result<()> {
        let unfinished = self.path(&format!("{path}.unfinished"))?;
        match std::fs::remove_file(&unfinished) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        symlink(target, &unfinished)?;
        std::fs::rename(unfinished, self.path(path)?)
    }

    fn sync_dir(&self, path: &str) -> io::Result<()> {
        File::open(self.path(path)?)?.sync_all()
    }

    fn location(&self, path: &str) -> Option<PathBuf> {
        self.path(path).ok()
    }
}

fn open(path: &str, full: &Path) -> io::Result<Box<dyn FileReader>> {
    // Opening a pipe waits until somebody writes to it, which may be never.
    let metadata = std::fs::metadata(full)?;
    if !metadata.is_file() && !metadata.is_dir() {
        let text = format!("{path} is a pipe, a socket or a device, not a file");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(Box::new(RealReader(File::open(full)?)))
}

#[cfg(unix)]
fn symlink(target: &str, path: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, path)
}

#[cfg(not(unix))]
fn symlink(_target: &str, _path: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

fn describe(name: String, metadata: &std::fs::Metadata) -> io::Result<Entry> {
    let kind = if metadata.is_dir() {
        EntryKind::Directory
    } else if metadata.is_symlink() {
        EntryKind::Link
    } else if metadata.is_file() {
        EntryKind::File
    } else {
        EntryKind::Special
    };
    Ok(Entry {
        name,
        kind,
        size: if kind == EntryKind::File {
            metadata.len()
        } else {
            0
        },
        modified: metadata.modified()?,
    })
}

struct RealWriter(File);

impl Write for RealWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl FileWriter for RealWriter {
    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_all()
    }
}

struct RealReader(File);

impl Read for RealReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Seek for RealReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.seek(to)
    }
}

impl FileReader for RealReader {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}
