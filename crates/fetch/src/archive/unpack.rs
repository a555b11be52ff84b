//! Reading archives that others made, with every bound explicit.

use std::collections::BTreeSet;
use std::io::{self, BufReader, Read};

use everflow_env::Disk;

use crate::Error;

/// What an archive may hold at most.
#[derive(Debug, Clone, Copy)]
pub struct UnpackLimits {
    /// Bytes of all files together.
    pub total: u64,
    /// Bytes of one file.
    pub file: u64,
    /// Number of entries, directories and skipped ones too.
    pub entries: u64,
}

impl Default for UnpackLimits {
    /// A gibibyte of files, each up to 512 MiB, 200,000 entries.
    fn default() -> Self {
        UnpackLimits {
            total: 1 << 30,
            file: 512 << 20,
            entries: 200_000,
        }
    }
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
    limits: UnpackLimits,
    links: Links,
    visit: &mut dyn FnMut(&str, Item<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut packed = BufReader::new(packed);
    if !starts_as_gzip(&mut packed)? {
        return Err(Error::Archive(
            "requires gzip-compressed body: gzip: invalid header".to_owned(),
        ));
    }
    read_tar(
        flate2::bufread::MultiGzDecoder::new(packed),
        limits,
        links,
        visit,
    )
}

fn starts_as_gzip(packed: &mut impl io::BufRead) -> Result<bool, Error> {
    let start = packed.fill_buf().map_err(Error::archive_io)?;
    Ok(start.starts_with(&[0x1f, 0x8b]))
}

/// The same for an archive that is not compressed.
pub fn read_tar(
    plain: impl Read,
    limits: UnpackLimits,
    links: Links,
    visit: &mut dyn FnMut(&str, Item<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    // Headers and padding count too: a bomb of empty entries ends here.
    let ceiling = limits
        .total
        .saturating_add(limits.entries.saturating_mul(4 * 512))
        .saturating_add(1 << 20);
    let mut archive = tar::Archive::new(plain.take(ceiling));
    let mut total = 0_u64;
    let broken = |error: io::Error| Error::Archive(format!("tar error: {error}"));
    for (count, entry) in archive.entries().map_err(broken)?.enumerate() {
        let mut entry = entry.map_err(broken)?;
        let path = plain_path(&entry.path_bytes())?;
        if count as u64 >= limits.entries {
            return Err(Error::TooLarge {
                what: "the number of entries of the archive".to_owned(),
                limit: limits.entries,
            });
        }
        let size = entry.size();
        total = total.saturating_add(size);
        if total > limits.total || size > limits.file {
            return Err(Error::Archive(format!(
                "tar {path:?} is bigger than max archive size of {} bytes",
                limits.total.min(limits.file)
            )));
        }
        match entry.header().entry_type() {
            tar::EntryType::Directory if path.is_empty() => {}
            tar::EntryType::Directory => visit(&path, Item::Directory)?,
            tar::EntryType::Regular | tar::EntryType::Continuous if path.is_empty() => {
                let message = "tar contained invalid name error \".\"";
                return Err(Error::Archive(message.to_owned()));
            }
            tar::EntryType::Regular | tar::EntryType::Continuous => {
                let mode = entry.header().mode().unwrap_or(0o600);
                let item = Item::File {
                    executable: mode & 0o100 != 0,
                    size,
                    content: &mut entry,
                };
                visit(&path, item)?;
            }
            tar::EntryType::XGlobalHeader => {}
            tar::EntryType::Symlink if links == Links::Skip => {}
            tar::EntryType::Symlink => {
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

/// A name from an archive as a plain relative path; empty for the root itself.
pub fn plain_path(name: &[u8]) -> Result<String, Error> {
    let invalid = || {
        let name = String::from_utf8_lossy(name);
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
    Ok(parts.join("/"))
}

/// Unpacks a gzipped tar archive below a directory of the disk, which is made.
pub fn unpack_to_disk(
    packed: impl Read,
    disk: &dyn Disk,
    directory: &str,
    limits: UnpackLimits,
    links: Links,
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
    read_archive(packed, limits, links, &mut |path, item| {
        let full = format!("{directory}/{path}");
        match item {
            Item::Directory => make(&full),
            Item::File { size, content, .. } => {
                make(
                    full.rsplit_once('/')
                        .map_or(directory, |(parent, _)| parent),
                )?;
                let failed = |error| Error::disk("write", &full, error);
                let mut file = disk.create(&full).map_err(failed)?;
                let written = io::copy(content, &mut file).map_err(failed)?;
                if written != size {
                    return Err(Error::Archive(format!(
                        "only wrote {written} bytes to {path}; expected {size}"
                    )));
                }
                Ok(())
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use everflow_env::MemoryDisk;
    use std::io::Write;

    fn packed(build: impl FnOnce(&mut tar::Builder<Vec<u8>>)) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        build(&mut builder);
        let plain = builder.into_inner().unwrap();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&plain).unwrap();
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

    fn outcome(bytes: &[u8], limits: UnpackLimits, links: Links) -> Result<Vec<String>, String> {
        let mut paths = Vec::new();
        let result = read_archive(bytes, limits, links, &mut |path, _| {
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
        let limits = UnpackLimits::default();
        unpack_to_disk(&bytes[..], &disk, "tmp/x", limits, Links::Skip).unwrap();
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
            let error = outcome(&bytes, UnpackLimits::default(), Links::Skip).unwrap_err();
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
            let error = outcome(&bytes, UnpackLimits::default(), Links::Skip).unwrap_err();
            assert!(error.contains("unsupported file type"), "{error}");
        }
    }

    #[test]
    fn bombs_and_broken_streams_end_in_errors() {
        let limits = UnpackLimits {
            total: 1000,
            file: 600,
            entries: 3,
        };
        let big = packed(|builder| add(builder, tar::EntryType::Regular, b"x", &[0; 700]));
        let error = outcome(&big, limits, Links::Skip).unwrap_err();
        assert!(error.contains("bigger than max archive size"), "{error}");
        let many = packed(|builder| {
            for name in [b"a", b"b", b"c", b"d"] {
                add(builder, tar::EntryType::Regular, name, b"x");
            }
        });
        let error = outcome(&many, limits, Links::Skip).unwrap_err();
        assert!(error.contains("the number of entries"), "{error}");
        assert!(outcome(&big[..big.len() / 2], UnpackLimits::default(), Links::Skip).is_err());
        let error = outcome(b"<html>", limits, Links::Skip).unwrap_err();
        assert!(error.contains("requires gzip-compressed body"), "{error}");
    }
}
