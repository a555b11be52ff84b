//! Files in memory, which can be lost, and a disk that can fill.

use std::collections::BTreeMap;
use std::io::{self, Cursor, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{Disk, Entry, EntryKind, FileReader, FileWriter, parts};

/// Files in memory. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct MemoryDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// Full path to what is there. Directories are entries of their own.
    nodes: BTreeMap<String, Node>,
    capacity: Option<u64>,
    /// Counts changes; stands for the time of a change, so that the order is kept.
    changes: u64,
}

#[derive(Debug, Clone)]
struct Node {
    content: Content,
    changed: u64,
}

#[derive(Debug, Clone)]
enum Content {
    Directory,
    Link(String),
    /// What is read, and whether all of it was synced.
    File {
        bytes: Arc<Vec<u8>>,
        synced: bool,
    },
}

impl MemoryDisk {
    /// An empty disk without bound.
    pub fn new() -> Self {
        MemoryDisk::default()
    }

    /// Bounds the sum of the sizes of all files.
    pub fn set_capacity(&self, capacity: Option<u64>) {
        self.lock().capacity = capacity;
    }

    /// The machine fails: files that were not synced are gone.
    pub fn crash(&self) {
        self.lock()
            .nodes
            .retain(|_, node| !matches!(node.content, Content::File { synced: false, .. }));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn not_found(path: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::NotFound,
        format!("{path}: no such file or directory"),
    )
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

impl State {
    fn is_directory(&self, path: &str) -> bool {
        let node = self.nodes.get(path);
        path.is_empty() || node.is_some_and(|node| matches!(node.content, Content::Directory))
    }

    fn put(&mut self, path: &str, content: Content) -> io::Result<()> {
        if !self.is_directory(parent(path)) {
            return Err(not_found(parent(path)));
        }
        self.changes += 1;
        let changed = self.changes;
        self.nodes
            .insert(path.to_owned(), Node { content, changed });
        Ok(())
    }

    fn used(&self) -> u64 {
        let size = |node: &Node| match &node.content {
            Content::File { bytes, .. } => bytes.len() as u64,
            _ => 0,
        };
        self.nodes.values().map(size).sum()
    }

    /// The bytes of a file, through at most eight links.
    fn read(&self, path: &str) -> io::Result<Arc<Vec<u8>>> {
        let mut path = path.to_owned();
        for _ in 0..8 {
            match self.nodes.get(&path).map(|node| &node.content) {
                Some(Content::File { bytes, .. }) => return Ok(bytes.clone()),
                Some(Content::Link(target)) => {
                    path = match parent(&path) {
                        "" => target.clone(),
                        parent => format!("{parent}/{target}"),
                    };
                }
                _ => break,
            }
        }
        Err(not_found(&path))
    }

    fn below(&self, path: &str) -> Vec<String> {
        let prefix = format!("{path}/");
        let keys = self.nodes.keys();
        keys.filter(|key| *key == path || key.starts_with(&prefix))
            .cloned()
            .collect()
    }
}

impl Disk for MemoryDisk {
    fn create(&self, path: &str) -> io::Result<Box<dyn FileWriter>> {
        parts(path)?;
        let bytes = Arc::new(Vec::new());
        self.lock().put(
            path,
            Content::File {
                bytes,
                synced: false,
            },
        )?;
        Ok(Box::new(MemoryWriter {
            disk: self.clone(),
            path: path.to_owned(),
        }))
    }

    fn open(&self, path: &str) -> io::Result<Box<dyn FileReader>> {
        parts(path)?;
        Ok(Box::new(MemoryReader(Cursor::new(self.lock().read(path)?))))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        parts(from)?;
        parts(to)?;
        let mut state = self.lock();
        if !state.is_directory(parent(to)) {
            return Err(not_found(parent(to)));
        }
        let moved = state.below(from);
        if moved.is_empty() {
            return Err(not_found(from));
        }
        for path in moved {
            if let Some(node) = state.nodes.remove(&path) {
                state
                    .nodes
                    .insert(format!("{to}{}", &path[from.len()..]), node);
            }
        }
        Ok(())
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        parts(path)?;
        let mut state = self.lock();
        match state.nodes.get(path).map(|node| &node.content) {
            None => Err(not_found(path)),
            Some(Content::Directory) => Err(io::ErrorKind::IsADirectory.into()),
            Some(_) => {
                state.nodes.remove(path);
                Ok(())
            }
        }
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        let mut state = self.lock();
        let mut full = String::new();
        for part in parts(path)? {
            if !full.is_empty() {
                full.push('/');
            }
            full.push_str(part);
            match state.nodes.get(&full) {
                None => state.put(&full, Content::Directory)?,
                Some(_) if state.is_directory(&full) => {}
                Some(_) => return Err(io::ErrorKind::NotADirectory.into()),
            }
        }
        Ok(())
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        parts(path)?;
        let mut state = self.lock();
        for path in state.below(path) {
            state.nodes.remove(&path);
        }
        Ok(())
    }

    fn list(&self, path: &str) -> io::Result<Vec<Entry>> {
        parts(path)?;
        let state = self.lock();
        if !state.is_directory(path) {
            return Err(not_found(path));
        }
        let direct = state.nodes.iter().filter(|(key, _)| parent(key) == path);
        Ok(direct.map(|(key, node)| describe(key, node)).collect())
    }

    fn entry(&self, path: &str) -> io::Result<Entry> {
        parts(path)?;
        let state = self.lock();
        let node = state.nodes.get(path).ok_or_else(|| not_found(path))?;
        Ok(describe(path, node))
    }

    fn link(&self, target: &str, path: &str) -> io::Result<()> {
        parts(path)?;
        self.lock().put(path, Content::Link(target.to_owned()))
    }

    fn sync_dir(&self, path: &str) -> io::Result<()> {
        parts(path)?;
        match self.lock().is_directory(path) {
            true => Ok(()),
            false => Err(not_found(path)),
        }
    }

    fn location(&self, _path: &str) -> Option<PathBuf> {
        None
    }
}

fn describe(path: &str, node: &Node) -> Entry {
    let (kind, size) = match &node.content {
        Content::Directory => (EntryKind::Directory, 0),
        Content::Link(_) => (EntryKind::Link, 0),
        Content::File { bytes, .. } => (EntryKind::File, bytes.len() as u64),
    };
    let modified: SystemTime = UNIX_EPOCH + Duration::from_secs(node.changed);
    Entry {
        name: path.rsplit('/').next().unwrap_or_default().to_owned(),
        kind,
        size,
        modified,
    }
}

struct MemoryWriter {
    disk: MemoryDisk,
    path: String,
}

impl MemoryWriter {
    fn change(&self, how: impl FnOnce(&mut Vec<u8>, &mut bool)) -> io::Result<()> {
        let mut state = self.disk.lock();
        let node = state.nodes.get_mut(&self.path);
        match node.map(|node| &mut node.content) {
            Some(Content::File { bytes, synced }) => {
                how(Arc::make_mut(bytes), synced);
                Ok(())
            }
            // The file was removed under the writer, which no one else can see.
            _ => Ok(()),
        }
    }
}

impl Write for MemoryWriter {
    fn write(&mut self, new: &[u8]) -> io::Result<usize> {
        let state = self.disk.lock();
        let full = state
            .capacity
            .is_some_and(|limit| state.used() + new.len() as u64 > limit);
        drop(state);
        if full {
            return Err(io::Error::new(
                io::ErrorKind::StorageFull,
                "no space left on device",
            ));
        }
        self.change(|bytes, synced| {
            bytes.extend_from_slice(new);
            *synced = false;
        })?;
        Ok(new.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl FileWriter for MemoryWriter {
    fn sync(&mut self) -> io::Result<()> {
        self.change(|_, synced| *synced = true)
    }
}

struct MemoryReader(Cursor<Arc<Vec<u8>>>);

impl Read for MemoryReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.0.get_ref();
        let start = usize::try_from(self.0.position())
            .unwrap_or(usize::MAX)
            .min(bytes.len());
        let count = (&bytes[start..]).read(buffer)?;
        self.0.set_position((start + count) as u64);
        Ok(count)
    }
}

impl Seek for MemoryReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let length = self.0.get_ref().len() as i128;
        let target = match to {
            SeekFrom::Start(at) => i128::from(at),
            SeekFrom::End(by) => length + i128::from(by),
            SeekFrom::Current(by) => i128::from(self.0.position()) + i128::from(by),
        };
        let target = u64::try_from(target).map_err(|_| io::ErrorKind::InvalidInput)?;
        self.0.set_position(target);
        Ok(target)
    }
}

impl FileReader for MemoryReader {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.get_ref().len() as u64)
    }
}
