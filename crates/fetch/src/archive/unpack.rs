//! Reading archives that others made, with every bound explicit.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};

use everflow_env::Disk;
use everflow_limits::{Budget, Exceeded, at_most};
use everflow_tar::{Archive, Kind, Limit, Limits, Meter, exceeded_in, gunzip, shown};

use crate::Error;

/// The option that says how many bytes the files of an artifact may have together.
pub const SIZE_FLAG: &str = "--artifact-max-size";
/// The option that says how many files and directories an artifact may have.
pub const ENTRIES_FLAG: &str = "--artifact-max-entries";
/// How many bytes the files of an artifact may have where nobody says otherwise.
pub const USUAL_SIZE: u64 = 1 << 30;
/// How many files and directories an artifact may have where nobody says otherwise.
pub const USUAL_ENTRIES: u64 = 200_000;

/// The longest path that a file system would take.
const LONGEST_PATH: usize = 4_096;
/// What a directory takes in memory beside its path, here and with whoever unpacks.
const DIRECTORY_WEIGHT: usize = 192;

/// What an artifact may hold.
pub fn artifact_limits(size: u64, entries: u64) -> Limits {
    Limits::new(
        Limit::new(size, SIZE_FLAG),
        Limit::new(entries, ENTRIES_FLAG),
    )
}

/// What to do with symbolic links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// Leave them out without a word.
    Skip,
    /// Refuse the archive.
    Refuse,
}

/// A file or directory of an archive.
pub enum Item<'a> {
    /// A directory.
    Directory,
    /// A file with its content.
    File {
        /// Whether its owner may run it.
        executable: bool,
        /// How long it is.
        size: u64,
        /// Its content.
        content: &'a mut dyn Read,
    },
}

/// Goes through a gzipped tar archive; each path is plain, relative and below the root.
pub fn read_archive(
    packed: impl Read,
    limits: Limits,
    links: Links,
    budget: &Budget,
    visit: &mut dyn FnMut(&str, Item<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut packed = BufReader::with_capacity(64 << 10, packed);
    let start = packed.fill_buf().map_err(Error::archive_io)?;
    if !start.starts_with(&[0x1f, 0x8b]) {
        return Err(Error::Archive(
            "requires gzip-compressed body: gzip: invalid header".to_owned(),
        ));
    }
    let mut meter = Meter::new(limits, budget);
    let mut archive = Archive::new(gunzip(packed, budget), &mut meter);
    let mut directories = Directories {
        seen: BTreeSet::new(),
        limit: limits.entries,
        budget,
    };
    while let Some(mut entry) = archive.next_entry().map_err(broken)? {
        let path = plain_path(entry.path())?;
        match entry.kind() {
            Kind::Directory if path.is_empty() => {}
            Kind::Directory => {
                directories.add(&path)?;
                visit(&path, Item::Directory)?;
            }
            Kind::File if path.is_empty() => {
                let message = "tar contained invalid name error \".\"";
                return Err(Error::Archive(message.to_owned()));
            }
            Kind::File => {
                directories.add(parent(&path))?;
                let item = Item::File {
                    executable: entry.mode() & 0o100 != 0,
                    size: entry.size(),
                    content: &mut entry,
                };
                visit(&path, item)?;
            }
            Kind::Symlink if links == Links::Skip => {}
            Kind::Symlink => {
                return Err(Error::Archive(format!(
                    "tar file entry {path} is a symlink, which is not allowed in this context"
                )));
            }
            other => {
                return Err(Error::Archive(format!(
                    "tar file entry {path} contained unsupported file type {other:?}"
                )));
            }
        }
    }
    Ok(())
}

/// What is said of an archive that is not read to its end.
fn broken(error: everflow_tar::Error) -> Error {
    let message = match &error {
        everflow_tar::Error::TooLarge {
            entry,
            exceeded: Exceeded::Count { limit, flag, .. },
        } => format!(
            "tar {entry:?} is bigger than max archive size of {limit} bytes: make it smaller, or raise {flag}"
        ),
        error => format!("tar error: {error}"),
    };
    Error::archive(message, error.exceeded())
}

/// The directories of an archive, those too that are named only by the paths of what is in them: they are made
/// all the same, and a path may lead through thousands.
struct Directories<'b> {
    seen: BTreeSet<String>,
    limit: Limit,
    budget: &'b Budget,
}

impl Directories<'_> {
    fn add(&mut self, mut path: &str) -> Result<(), Exceeded> {
        while !path.is_empty() && !self.seen.contains(path) {
            // It stays charged: whoever unpacks keeps the directories.
            self.budget.charge(2 * path.len() + DIRECTORY_WEIGHT)?;
            self.seen.insert(path.to_owned());
            let count = self.seen.len() as u64;
            at_most(
                count,
                self.limit.most,
                "directories in one archive",
                self.limit.flag,
            )?;
            path = parent(path);
        }
        Ok(())
    }
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// A name from an archive as a plain relative path; empty for the root itself.
pub fn plain_path(name: &[u8]) -> Result<String, Error> {
    let invalid = || {
        let name = shown(name);
        Error::Archive(format!("tar contained invalid name error {name:?}"))
    };
    let text = std::str::from_utf8(name).map_err(|_| invalid())?;
    if text.is_empty() || text.starts_with('/') || text.contains(['\\', '\0']) {
        return Err(invalid());
    }
    let mut parts = Vec::new();
    for part in text.split('/') {
        match part {
            "" | "." => {}
            ".." => return Err(invalid()),
            other => parts.push(other),
        }
    }
    let path = parts.join("/");
    if path.len() > LONGEST_PATH {
        return Err(Error::Archive(format!(
            "the path {:?} of {} bytes is longer than the {LONGEST_PATH} that file systems take",
            shown(path.as_bytes()),
            path.len()
        )));
    }
    Ok(path)
}

/// Unpacks a gzipped tar archive below a directory of the disk, which is made.
pub fn unpack_to_disk(
    packed: impl Read,
    disk: &dyn Disk,
    directory: &str,
    limits: Limits,
    links: Links,
    budget: &Budget,
) -> Result<(), Error> {
    let mut made = BTreeSet::new();
    disk.create_dir(directory)
        .map_err(|error| Error::disk("create", directory, error))?;
    let mut make = |path: &str| {
        if made.insert(path.to_owned()) {
            disk.create_dir(path)
                .map_err(|error| Error::disk("create", path, error))?;
        }
        Ok::<(), Error>(())
    };
    read_archive(packed, limits, links, budget, &mut |path, item| {
        let full = format!("{directory}/{path}");
        match item {
            Item::Directory => make(&full),
            Item::File { content, .. } => {
                make(parent(&full))?;
                let file = disk.create(&full);
                let mut file = file.map_err(|error| Error::disk("write", &full, error))?;
                copy_content(content, &mut file, &full).map(drop)
            }
        }
    })
}

/// Copies a file of an archive to one of the disk and tells how long it is. Too little of it is an error of the
/// archive, not of the disk.
pub fn copy_content(content: &mut dyn Read, out: &mut dyn Write, path: &str) -> Result<u64, Error> {
    let mut buffer = vec![0; 64 * 1024];
    let mut written = 0;
    loop {
        let read = content.read(&mut buffer);
        let count = read.map_err(|error| match exceeded_in(&error) {
            Some(exceeded) => Error::Limit(exceeded.clone()),
            None => Error::Archive(format!("error copying buffer: {error}")),
        })?;
        if count == 0 {
            return Ok(written);
        }
        out.write_all(&buffer[..count])
            .map_err(|error| Error::disk("write", path, error))?;
        written += count as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everflow_env::MemoryDisk;

    fn packed(build: impl FnOnce(&mut tar::Builder<Vec<u8>>)) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        build(&mut builder);
        gzip(&builder.into_inner().unwrap())
    }

    fn gzip(plain: &[u8]) -> Vec<u8> {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(plain).unwrap();
        gzip.finish().unwrap()
    }

    fn add(builder: &mut tar::Builder<Vec<u8>>, kind: tar::EntryType, name: &[u8], content: &[u8]) {
        let mut header = tar::Header::new_ustar();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name);
        header.set_entry_type(kind);
        header.set_mode(0o755);
        header.set_size(content.len() as u64);
        header.set_cksum();
        builder.append(&header, content).unwrap();
    }

    fn usual() -> Limits {
        artifact_limits(USUAL_SIZE, USUAL_ENTRIES)
    }

    fn outcome(bytes: &[u8], limits: Limits, links: Links) -> Result<Vec<String>, String> {
        let mut paths = Vec::new();
        let budget = Budget::unlimited();
        let result = read_archive(bytes, limits, links, &budget, &mut |path, _| {
            paths.push(path.to_owned());
            Ok(())
        });
        result.map(|()| paths).map_err(|error| error.to_string())
    }

    #[test]
    fn plain_archives_are_unpacked() {
        let bytes = packed(|builder| {
            add(builder, tar::EntryType::Directory, b"./", b"");
            add(builder, tar::EntryType::Directory, b"a", b"");
            add(builder, tar::EntryType::Regular, b"./a/one", b"1");
            add(builder, tar::EntryType::Regular, b"b/c/two", b"22");
            add(builder, tar::EntryType::Symlink, b"link", b"");
        });
        let disk = MemoryDisk::new();
        let limits = usual();
        let budget = Budget::unlimited();
        unpack_to_disk(&bytes[..], &disk, "tmp/x", limits, Links::Skip, &budget).unwrap();
        let read = |path: &str| everflow_env::disk::read_all(&disk, path, 10).unwrap();
        assert_eq!(read("tmp/x/a/one"), b"1");
        assert_eq!(read("tmp/x/b/c/two"), b"22");
        assert!(disk.open("tmp/x/link").is_err());
        let refused = outcome(&bytes, limits, Links::Refuse).unwrap_err();
        assert!(
            refused.contains("tar file entry link is a symlink"),
            "{refused}"
        );
    }

    #[test]
    fn paths_that_leave_are_refused() {
        for name in [
            &b"../x"[..],
            b"a/../../x",
            b"/etc/passwd",
            b"a\\..\\b",
            b"a/..",
        ] {
            let bytes = packed(|builder| add(builder, tar::EntryType::Regular, name, b"x"));
            let error = outcome(&bytes, usual(), Links::Skip).unwrap_err();
            assert!(
                error.contains("tar contained invalid name error"),
                "{error}"
            );
        }
    }

    #[test]
    fn hard_links_and_devices_are_refused() {
        for kind in [
            tar::EntryType::Link,
            tar::EntryType::Char,
            tar::EntryType::Fifo,
        ] {
            let bytes = packed(|builder| add(builder, kind, b"x", b""));
            let error = outcome(&bytes, usual(), Links::Skip).unwrap_err();
            assert!(error.contains("unsupported file type"), "{error}");
        }
    }

    #[test]
    fn bombs_and_broken_streams_end_in_errors() {
        let limits = artifact_limits(1000, 3).with_file(Limit::new(600, "--file"));
        let big = packed(|builder| add(builder, tar::EntryType::Regular, b"x", &[0; 700]));
        let error = outcome(&big, limits, Links::Skip).unwrap_err();
        assert_eq!(
            error,
            "tar \"x\" is bigger than max archive size of 600 bytes: make it smaller, or raise --file"
        );
        let many = packed(|builder| {
            for name in [b"a", b"b", b"c", b"d"] {
                add(builder, tar::EntryType::Regular, name, b"x");
            }
        });
        let error = outcome(&many, limits, Links::Skip).unwrap_err();
        assert_eq!(
            error,
            "tar error: \"d\": more than 3 entries in one archive: make it smaller, or raise \
             --artifact-max-entries"
        );
        assert!(outcome(&big[..big.len() / 2], usual(), Links::Skip).is_err());
        let error = outcome(b"<html>", limits, Links::Skip).unwrap_err();
        assert!(error.contains("requires gzip-compressed body"), "{error}");
    }

    /// A long name before an entry.
    fn long_name(builder: &mut tar::Builder<Vec<u8>>, name: &str) {
        add(
            builder,
            tar::EntryType::GNULongName,
            b"long",
            name.as_bytes(),
        );
    }

    #[test]
    fn directories_that_paths_lead_through_count_and_are_charged() {
        let deep = |start: usize| format!("{start}/") + &"d/".repeat(1_000) + "x";
        let bytes = packed(|builder| {
            for start in 0..300 {
                long_name(builder, &deep(start));
                add(builder, tar::EntryType::Regular, b"x", b"");
            }
        });
        let error = outcome(&bytes, usual(), Links::Skip).unwrap_err();
        assert_eq!(
            error,
            "more than 200000 directories in one archive: make it smaller, or raise --artifact-max-entries"
        );
        let budget = Budget::new(everflow_limits::Stop::new(), 8 << 20);
        let read = read_archive(
            &bytes[..],
            usual(),
            Links::Skip,
            &budget,
            &mut |_, _| Ok(()),
        );
        assert_eq!(
            read.unwrap_err().exceeded(),
            Some(&Exceeded::Memory { limit: 8 << 20 })
        );
    }

    #[test]
    fn paths_longer_than_file_systems_take_are_refused() {
        let bytes = packed(|builder| {
            long_name(builder, &"d/".repeat(3_000));
            add(builder, tar::EntryType::Regular, b"x", b"");
        });
        let error = outcome(&bytes, usual(), Links::Skip).unwrap_err();
        assert!(error.contains("longer than the 4096"), "{error}");
    }

    #[test]
    fn content_that_ends_early_is_an_error_of_the_archive() {
        let mut bytes = Vec::new();
        let mut header = tar::Header::new_ustar();
        header.set_path("x").unwrap();
        header.set_size(100_000);
        header.set_cksum();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(&[1; 5_000]);
        let disk = MemoryDisk::new();
        let budget = Budget::unlimited();
        let packed = gzip(&bytes);
        let unpacked = unpack_to_disk(&packed[..], &disk, "tmp", usual(), Links::Skip, &budget);
        let error = unpacked.unwrap_err();
        assert!(matches!(error, Error::Archive(_)), "{error:?}");
        assert_eq!(error.to_string(), "error copying buffer: unexpected EOF");
    }

    /// Raises the flag when so many bytes were read.
    struct StopAfter<R> {
        inner: R,
        left: usize,
        stop: everflow_limits::Stop,
        raised: Option<std::time::Instant>,
    }

    impl<R: Read> Read for StopAfter<R> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let count = self.inner.read(buffer)?;
            self.left = self.left.saturating_sub(count);
            if self.left == 0 && self.raised.is_none() {
                self.stop.raise();
                self.raised = Some(std::time::Instant::now());
            }
            Ok(count)
        }
    }

    #[test]
    fn raised_stop_flag_ends_unpacking_within_a_second() {
        let mut builder = tar::Builder::new(Vec::new());
        for _ in 0..1_024 {
            add(&mut builder, tar::EntryType::Regular, b"x", &[0; 1_024]);
        }
        // Without an end: members of one stream follow.
        let mebibyte = gzip(builder.get_ref());
        let stop = everflow_limits::Stop::new();
        let mut input = StopAfter {
            inner: std::io::Cursor::new(mebibyte.repeat(2_000)),
            left: 100_000,
            stop: stop.clone(),
            raised: None,
        };
        let budget = Budget::new(stop, u64::MAX);
        let limits = artifact_limits(u64::MAX, u64::MAX);
        let disk = MemoryDisk::new();
        let unpacked = unpack_to_disk(&mut input, &disk, "tmp", limits, Links::Skip, &budget);
        let error = unpacked.unwrap_err();
        assert_eq!(error.exceeded(), Some(&Exceeded::Stopped), "{error}");
        assert!(error.is_transient());
        let took = input.raised.unwrap().elapsed();
        assert!(took < std::time::Duration::from_secs(1), "{took:?}");
    }
}
