//! The disk of one replica: it outlives the process, loses what was not synced, fills and fails.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use everflow_env::disk::{Entry, FileReader, FileWriter};
use everflow_env::{Disk, MemoryDisk};

/// Where the marks of attempts under way are.
const MARKS: &str = "in-flight/";

/// A change that is about to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<'a> {
    /// A file is made.
    Create(&'a str),
    /// A file is given its name.
    Rename(&'a str, &'a str),
    /// A file or a whole directory goes.
    Remove(&'a str),
    /// A file becomes durable.
    Sync(&'a str),
}

impl std::fmt::Display for Change<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Change::Create(path) => write!(f, "makes the file {path}"),
            Change::Rename(from, to) => write!(f, "moves the file {from} to {to}"),
            Change::Remove(path) => write!(f, "removes the file {path}"),
            Change::Sync(path) => write!(f, "secures the file {path}"),
        }
    }
}

/// Judges changes on a disk.
pub trait DiskJudge: Send + Sync + std::fmt::Debug {
    /// Before a change; an error keeps it from happening.
    fn before(&self, change: Change<'_>) -> io::Result<()>;
    /// After a change that happened.
    fn after(&self, change: Change<'_>);
}

/// A disk in memory whose changes are judged.
#[derive(Debug, Clone)]
pub struct JudgedDisk {
    /// The files, which outlive the process.
    pub files: MemoryDisk,
    /// Who judges.
    pub judge: Arc<dyn DiskJudge>,
}

impl JudgedDisk {
    fn judged<T>(&self, change: Change<'_>, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        self.judge.before(change)?;
        let done = work()?;
        self.judge.after(change);
        Ok(done)
    }
}

impl Disk for JudgedDisk {
    fn create(&self, path: &str) -> io::Result<Box<dyn FileWriter>> {
        let file = self.judged(Change::Create(path), || self.files.create(path))?;
        Ok(Box::new(JudgedWriter {
            disk: self.clone(),
            path: path.to_owned(),
            file,
        }))
    }

    fn open(&self, path: &str) -> io::Result<Box<dyn FileReader>> {
        self.files.open(path)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.judged(Change::Rename(from, to), || self.files.rename(from, to))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.judged(Change::Remove(path), || self.files.remove(path))
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        self.files.create_dir(path)
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        // Marks of attempts under way come and go with each of them: they are no effect of their own.
        if path.starts_with(MARKS) {
            return self.files.remove_dir(path);
        }
        self.judged(Change::Remove(path), || self.files.remove_dir(path))
    }

    fn list(&self, path: &str) -> io::Result<Vec<Entry>> {
        self.files.list(path)
    }

    fn entry(&self, path: &str) -> io::Result<Entry> {
        self.files.entry(path)
    }

    fn link(&self, target: &str, path: &str) -> io::Result<()> {
        self.judged(Change::Create(path), || self.files.link(target, path))
    }

    fn sync_dir(&self, path: &str) -> io::Result<()> {
        self.files.sync_dir(path)
    }

    fn location(&self, path: &str) -> Option<PathBuf> {
        self.files.location(path)
    }
}

struct JudgedWriter {
    disk: JudgedDisk,
    path: String,
    file: Box<dyn FileWriter>,
}

impl Write for JudgedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl FileWriter for JudgedWriter {
    fn sync(&mut self) -> io::Result<()> {
        let (disk, path) = (self.disk.clone(), self.path.clone());
        disk.judged(Change::Sync(&path), || self.file.sync())
    }
}
