//! Files.

mod bounded;
mod memory;
pub mod private;
mod real;

use std::fmt;
use std::io;
use std::io::{Read, Seek, Write};
use std::time::SystemTime;

pub use bounded::BoundedDisk;
pub use memory::MemoryDisk;
pub use real::RealDisk;

/// An area of files that is ours alone.
///
/// Paths are relative to its root, with `/` between the parts; a path with `..`, an empty part or
/// a root of its own is refused. All calls block: make them from blocking work. What must survive
/// a crash is written to a new file, synced, renamed to its name, and the directory is synced.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Makes a file, or empties the one that is there; its directory must exist.
    fn create(&self, path: &str) -> io::Result<Box<dyn FileWriter>>;
    /// Opens a file to read.
    fn open(&self, path: &str) -> io::Result<Box<dyn FileReader>>;
    /// The same for a path that a stranger named: symbolic links are followed only where they stay in the area. What
    /// lies behind others is not found.
    fn open_contained(&self, path: &str) -> io::Result<Box<dyn FileReader>> {
        self.open(path)
    }
    /// Gives a file or directory another name; a file of that name is replaced at once.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file or a symbolic link.
    fn remove(&self, path: &str) -> io::Result<()>;
    /// Makes a directory with all its parents; fine when it exists.
    fn create_dir(&self, path: &str) -> io::Result<()>;
    /// Removes a directory and all in it; fine when it does not exist.
    fn remove_dir(&self, path: &str) -> io::Result<()>;
    /// What is in a directory, sorted by name. The empty path is the root.
    fn list(&self, path: &str) -> io::Result<Vec<Entry>>;
    /// What is known of a path; symbolic links are not followed.
    fn entry(&self, path: &str) -> io::Result<Entry>;
    /// Makes a symbolic link to `target` (relative to the link's directory), replacing one that is
    /// there at once.
    fn link(&self, target: &str, path: &str) -> io::Result<()>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &str) -> io::Result<()>;
    /// Where the path is for other programs, when it is anywhere.
    fn location(&self, path: &str) -> Option<std::path::PathBuf>;
}

/// A file that is being written.
pub trait FileWriter: Write + Send {
    /// Makes what was written durable.
    fn sync(&mut self) -> io::Result<()>;
}

/// A file that is being read.
pub trait FileReader: Read + Seek + Send {
    /// How long the file is.
    fn len(&self) -> io::Result<u64>;
    /// Whether there is nothing in it.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// What stands in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The last part of the path.
    pub name: String,
    /// A file, a directory or a link.
    pub kind: EntryKind,
    /// The size of a file.
    pub size: u64,
    /// When it was last changed.
    pub modified: SystemTime,
}

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// Something else: a pipe, a socket or a device. It is never opened.
    Special,
}

/// Reads a whole file, up to a bound.
pub fn read_all(disk: &dyn Disk, path: &str, bound: u64) -> io::Result<Vec<u8>> {
    let file = disk.open(path)?;
    if file.len()? > bound {
        let message = format!("{path} is larger than {bound} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    let mut bytes = Vec::new();
    file.take(bound).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Writes a file so that after a crash either all of it or nothing of it is there.
pub fn write_whole(disk: &dyn Disk, path: &str, bytes: &[u8]) -> io::Result<()> {
    let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
    disk.create_dir(directory)?;
    let unfinished = format!("{path}.unfinished");
    let mut file = disk.create(&unfinished)?;
    file.write_all(bytes)?;
    file.sync()?;
    drop(file);
    disk.rename(&unfinished, path)?;
    disk.sync_dir(directory)
}

/// A path without `.`, `..` and empty parts; what would lead above the root ends there.
pub fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// A path in a directory; either may be empty, which stands for the root and for the directory
/// itself.
pub fn below(directory: &str, name: &str) -> String {
    match (directory, name) {
        ("", name) => name.to_owned(),
        (directory, "") => directory.to_owned(),
        (directory, name) => format!("{directory}/{name}"),
    }
}

/// The parts of a path; an error for one that could leave the area.
fn parts(path: &str) -> io::Result<Vec<&str>> {
    if path.is_empty() {
        return Ok(Vec::new());
    }
    let parts: Vec<&str> = path.split('/').collect();
    let odd = |part: &&str| matches!(*part, "" | "." | "..") || part.contains(['\\', '\0']);
    if parts.iter().any(odd) {
        let message = format!("the path {path:?} is not a plain relative path");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same story on both kinds of disk.
    fn tell(disk: &dyn Disk) {
        write_whole(disk, "git/team/one.tar.gz", b"first").unwrap();
        write_whole(disk, "git/team/one.tar.gz", b"second").unwrap();
        assert_eq!(
            read_all(disk, "git/team/one.tar.gz", 100).unwrap(),
            b"second"
        );
        assert!(read_all(disk, "git/team/one.tar.gz", 3).is_err());
        disk.link("one.tar.gz", "git/team/latest").unwrap();
        disk.link("one.tar.gz", "git/team/latest").unwrap();
        let shown = |entries: Vec<Entry>| {
            let one = |entry: Entry| (entry.name, entry.kind);
            entries.into_iter().map(one).collect::<Vec<_>>()
        };
        let expected = [
            ("latest".to_owned(), EntryKind::Link),
            ("one.tar.gz".to_owned(), EntryKind::File),
        ];
        assert_eq!(shown(disk.list("git/team").unwrap()), expected);
        assert_eq!(disk.entry("git/team/one.tar.gz").unwrap().size, 6);
        assert_eq!(read_all(disk, "git/team/latest", 100).unwrap(), b"second");
        disk.rename("git/team", "git/other").unwrap();
        assert!(disk.open("git/team/one.tar.gz").is_err());
        disk.remove("git/other/latest").unwrap();
        assert_eq!(
            disk.remove("nothing").unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        disk.remove_dir("git").unwrap();
        disk.remove_dir("git").unwrap();
        assert_eq!(shown(disk.list("").unwrap()), []);
        assert!(disk.create("nowhere/file").is_err());
        for path in ["../out", "/etc/passwd", "a//b", "a/./b", "a/../../b"] {
            assert_eq!(
                disk.open(path).err().unwrap().kind(),
                io::ErrorKind::InvalidInput
            );
        }
    }

    #[test]
    fn memory_disk_behaves_like_a_real_directory() {
        tell(&MemoryDisk::new());
        let directory = tempfile::tempdir().unwrap();
        tell(&RealDisk::new(directory.path()).unwrap());
    }

    #[test]
    fn unsynced_writes_are_lost_in_a_crash() {
        let disk = MemoryDisk::new();
        write_whole(&disk, "kept", b"all of it").unwrap();
        let mut file = disk.create("lost").unwrap();
        file.write_all(b"half").unwrap();
        disk.crash();
        assert_eq!(read_all(&disk, "kept", 100).unwrap(), b"all of it");
        assert!(disk.open("lost").is_err());
    }

    #[test]
    fn full_disk_error_is_returned() {
        let disk = MemoryDisk::new();
        disk.set_capacity(Some(4));
        let error = write_whole(&disk, "big", b"12345").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        disk.set_capacity(None);
        write_whole(&disk, "big", b"12345").unwrap();
    }
}
