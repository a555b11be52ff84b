//! A disk on which one directory may not grow without bound.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};
use std::ops::Bound::{Included, Unbounded};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Disk, Entry, FileReader, FileWriter};

/// Another disk, on which the files below one directory hold no more than so many bytes together.
///
/// Counted is what is written through this disk: the directory is empty when it begins. A write
/// that would pass the bound fails with [`io::ErrorKind::StorageFull`], and says so.
#[derive(Clone)]
pub struct BoundedDisk {
    inner: Arc<dyn Disk>,
    area: Arc<Area>,
}

#[derive(Debug)]
struct Area {
    directory: String,
    bound: u64,
    files: Mutex<Files>,
}

#[derive(Debug, Default)]
struct Files {
    sizes: BTreeMap<String, u64>,
    total: u64,
}

impl BoundedDisk {
    /// Bounds what the files below `directory` hold.
    pub fn new(inner: Arc<dyn Disk>, directory: &str, bound: u64) -> Self {
        let area = Area {
            directory: directory.to_owned(),
            bound,
            files: Mutex::default(),
        };
        BoundedDisk {
            inner,
            area: Arc::new(area),
        }
    }

    /// How many bytes the files hold.
    pub fn used(&self) -> u64 {
        self.area.files().total
    }
}

impl fmt::Debug for BoundedDisk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("BoundedDisk");
        shown.field("inner", &self.inner);
        shown.field("directory", &self.area.directory);
        shown.field("bound", &self.area.bound).finish()
    }
}

impl Area {
    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has(&self, path: &str) -> bool {
        is_below(path, &self.directory)
    }

    fn grow(&self, path: &str, by: u64) -> io::Result<()> {
        let mut files = self.files();
        let (total, bound) = (files.total.saturating_add(by), self.bound);
        if total > bound {
            let message = format!(
                "the files of attempts under way take {} bytes, {by} more would pass the bound of {bound}",
                files.total
            );
            return Err(io::Error::new(io::ErrorKind::StorageFull, message));
        }
        files.total = total;
        // A file that was removed while it is written keeps its bytes until it is closed; that is
        // not counted.
        match files.sizes.get_mut(path) {
            Some(size) => *size += by,
            None => files.total -= by,
        }
        Ok(())
    }

    fn forget(&self, path: &str) {
        let mut files = self.files();
        let freed: u64 = files.take(path).iter().map(|(_, size)| size).sum();
        files.total -= freed;
    }

    fn rename(&self, from: &str, to: &str) {
        let mut files = self.files();
        for (name, size) in files.take(from) {
            let name = format!("{to}{}", name.strip_prefix(from).unwrap_or_default());
            let replaced = match self.has(&name) {
                true => files.sizes.insert(name, size).unwrap_or(0),
                false => size,
            };
            files.total -= replaced;
        }
    }
}

impl Files {
    /// Takes out the file, or those below the directory.
    fn take(&mut self, path: &str) -> Vec<(String, u64)> {
        let after = self.sizes.range::<str, _>((Included(path), Unbounded));
        let same_start = after.take_while(|(name, _)| name.starts_with(path));
        let names: Vec<String> = same_start
            .filter(|(name, _)| is_below(name, path))
            .map(|(name, _)| name.clone())
            .collect();
        let take = |name: String| self.sizes.remove_entry(&name);
        names.into_iter().filter_map(take).collect()
    }
}

/// Whether the path is the directory or something in it.
fn is_below(path: &str, directory: &str) -> bool {
    let rest = path.strip_prefix(directory);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl Disk for BoundedDisk {
    fn create(&self, path: &str) -> io::Result<Box<dyn FileWriter>> {
        let writer = self.inner.create(path)?;
        if !self.area.has(path) {
            return Ok(writer);
        }
        self.area.forget(path);
        self.area.files().sizes.insert(path.to_owned(), 0);
        Ok(Box::new(BoundedWriter {
            inner: writer,
            path: path.to_owned(),
            area: self.area.clone(),
        }))
    }

    fn open(&self, path: &str) -> io::Result<Box<dyn FileReader>> {
        self.inner.open(path)
    }

    fn open_contained(&self, path: &str) -> io::Result<Box<dyn FileReader>> {
        self.inner.open_contained(path)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)?;
        if self.area.has(from) {
            self.area.rename(from, to);
        }
        Ok(())
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.inner.remove(path)?;
        self.area.forget(path);
        Ok(())
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        self.inner.create_dir(path)
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        self.inner.remove_dir(path)?;
        self.area.forget(path);
        Ok(())
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

struct BoundedWriter {
    inner: Box<dyn FileWriter>,
    path: String,
    area: Arc<Area>,
}

impl Write for BoundedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Counted before it is written, so that two writers cannot pass the bound together.
        self.area.grow(&self.path, bytes.len() as u64)?;
        self.inner.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl FileWriter for BoundedWriter {
    fn sync(&mut self) -> io::Result<()> {
        self.inner.sync()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::MemoryDisk;

    fn write(disk: &dyn Disk, path: &str, count: usize) -> io::Result<()> {
        disk.create(path)?.write_all(&vec![b'x'; count])
    }

    #[test]
    fn writes_over_the_bound_are_refused_and_removals_free_space() {
        let disk = BoundedDisk::new(Arc::new(MemoryDisk::new()), "tmp", 100);
        for directory in ["tmp/one", "tmp/two", "kept", "tmpfs"] {
            disk.create_dir(directory).unwrap();
        }
        write(&disk, "tmp/one/a", 60).unwrap();
        write(&disk, "kept/large", 1000).unwrap();
        write(&disk, "tmpfs/large", 1000).unwrap();
        let error = write(&disk, "tmp/two/b", 41).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(error.to_string().contains("bound of 100"), "{error}");
        write(&disk, "tmp/two/b", 40).unwrap();
        // Written anew, it counts once.
        write(&disk, "tmp/one/a", 60).unwrap();
        assert_eq!(disk.used(), 100);
        disk.rename("tmp/one/a", "tmp/two/c").unwrap();
        assert_eq!(disk.used(), 100);
        disk.rename("tmp/two/c", "kept/c").unwrap();
        assert_eq!(disk.used(), 40);
        disk.remove_dir("tmp/two").unwrap();
        assert_eq!(disk.used(), 0);
        write(&disk, "tmp/one/d", 100).unwrap();
        disk.remove("tmp/one/d").unwrap();
        assert_eq!(disk.used(), 0);
    }

    #[test]
    fn a_file_that_is_removed_while_it_is_written_is_not_counted_for_ever() {
        let disk = BoundedDisk::new(Arc::new(MemoryDisk::new()), "tmp", 100);
        disk.create_dir("tmp/one").unwrap();
        let mut file = disk.create("tmp/one/a").unwrap();
        file.write_all(b"12345").unwrap();
        disk.remove_dir("tmp/one").unwrap();
        let _ = file.write_all(b"12345");
        assert_eq!(disk.used(), 0);
    }
}
