//! Tar archives with the headers that Flux writes: no owner, no times, few modes.

use std::io::{self, Read, Write};

use everflow_limits::Exceeded;
use everflow_tar::Limit;

use super::deflate::GzipWriter;
use super::digest::{Algorithm, Digest, DigestWriter};
use crate::Error;

const BLOCK: usize = 512;
const NAME: usize = 100;
const PREFIX: usize = 155;
/// Larger sizes do not fit into the header's octal digits.
const LARGEST: u64 = 0o77_777_777_777;
/// The size of the pieces in which content goes to the compressor. Flux copies in these pieces,
/// and in rare cases the compressor's choices depend on them.
const PIECE: usize = 32 * 1024;

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The digest of the compressed archive.
    pub digest: Digest,
    /// The size of the compressed archive.
    pub size: u64,
    /// How many files are in it.
    pub files: u64,
}

/// Writes a `.tar.gz`. Entries must come in order: a directory before what is in it, names of one
/// directory sorted by their bytes.
pub struct ArchiveWriter<W: Write> {
    out: GzipWriter<DigestWriter<W>>,
    padding: usize,
    files: u64,
    unpacked: u64,
    limit: Limit,
    buffer: Vec<u8>,
}

/// What helm up to 4.2, and so Flux, writes into the header of every chart it packs.
const CHART_EXTRA: &[u8] = b"+aHR0cHM6Ly95b3V0dS5iZS96OVV6MWljandyTQo=";
const CHART_COMMENT: &str = "Helm";

impl<W: Write> ArchiveWriter<W> {
    /// Starts an archive whose content may not be larger than `limit` bytes, with the directory
    /// `.` as its first entry.
    pub fn new(out: W, algorithm: Algorithm, limit: Limit) -> Result<Self, Error> {
        let out = GzipWriter::new(DigestWriter::new(out, algorithm)).map_err(Error::archive_io)?;
        let mut writer = ArchiveWriter {
            out,
            padding: 0,
            files: 0,
            unpacked: 0,
            limit,
            buffer: vec![0; PIECE],
        };
        writer.directory(b".")?;
        Ok(writer)
    }

    /// Starts the archive of a Helm chart: with helm's header, and without an entry for the root.
    pub fn of_chart(out: W, algorithm: Algorithm, limit: Limit) -> Result<Self, Error> {
        let out = DigestWriter::new(out, algorithm);
        let out = GzipWriter::with_header(out, CHART_EXTRA, CHART_COMMENT);
        Ok(ArchiveWriter {
            out: out.map_err(Error::archive_io)?,
            padding: 0,
            files: 0,
            unpacked: 0,
            limit,
            buffer: Vec::new(),
        })
    }

    /// Adds a file of a Helm chart: readable by all, in one piece.
    pub fn chart_file(&mut self, path: &str, content: &[u8]) -> Result<(), Error> {
        let size = content.len() as u64;
        self.count(path.as_bytes(), size)?;
        self.header(path.as_bytes(), 0o644, b'0', size)?;
        self.out.write_all(content).map_err(Error::archive_io)?;
        self.padding = (BLOCK - content.len() % BLOCK) % BLOCK;
        self.files += 1;
        Ok(())
    }

    /// Adds a directory.
    pub fn directory(&mut self, path: &[u8]) -> Result<(), Error> {
        self.header(path, 0o750, b'5', 0)
    }

    /// Adds a file of exactly `size` bytes.
    pub fn file(
        &mut self,
        path: &[u8],
        executable: bool,
        size: u64,
        content: &mut dyn Read,
    ) -> Result<(), Error> {
        self.count(path, size)?;
        self.header(path, if executable { 0o700 } else { 0o600 }, b'0', size)?;
        let mut left = size;
        while left > 0 {
            let piece = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
            content
                .read_exact(&mut self.buffer[..piece])
                .map_err(Error::archive_io)?;
            self.out
                .write_all(&self.buffer[..piece])
                .map_err(Error::archive_io)?;
            left -= piece as u64;
        }
        self.padding = (BLOCK - (size % BLOCK as u64) as usize) % BLOCK;
        self.files += 1;
        Ok(())
    }

    fn count(&mut self, path: &[u8], size: u64) -> Result<(), Error> {
        self.unpacked = self.unpacked.saturating_add(size);
        let Limit { most, flag } = self.limit;
        if self.unpacked <= most && size <= LARGEST {
            return Ok(());
        }
        let path = String::from_utf8_lossy(path);
        let limit = most.min(LARGEST);
        let or_raise = match flag {
            "" => String::new(),
            flag => format!(", or raise {flag}"),
        };
        Err(Error::LimitIn {
            reason: "ArchiveOperationFailed",
            message: format!(
                "the content at {path} is larger than the limit of {limit} bytes for all files together: \
                 leave something out{or_raise}"
            ),
            exceeded: Exceeded::Count {
                what: "bytes in one archive",
                limit,
                flag,
            },
        })
    }

    /// Ends the archive and gives the writer back.
    pub fn finish(mut self) -> Result<(W, Summary), Error> {
        self.pad().map_err(Error::archive_io)?;
        // Go writes the two empty blocks one by one.
        for _ in 0..2 {
            self.out.write_all(&[0; BLOCK]).map_err(Error::archive_io)?;
        }
        let (out, digest, size) = self.out.finish().map_err(Error::archive_io)?.finish();
        let summary = Summary {
            digest,
            size,
            files: self.files,
        };
        Ok((out, summary))
    }

    fn pad(&mut self) -> io::Result<()> {
        if self.padding > 0 {
            self.out.write_all(&[0; BLOCK][..self.padding])?;
            self.padding = 0;
        }
        Ok(())
    }

    fn header(&mut self, path: &[u8], mode: u32, kind: u8, size: u64) -> Result<(), Error> {
        self.pad().map_err(Error::archive_io)?;
        if path.contains(&0) {
            let path = String::from_utf8_lossy(path);
            return Err(Error::Archive(format!(
                "a file name has a zero byte: {path:?}"
            )));
        }
        let long = path.len() > NAME || !path.is_ascii();
        let split = split_name(path);
        if long && split.is_none() {
            self.extended_header(path)?;
        }
        let mut block = [0; BLOCK];
        let ascii: Vec<u8> = path.iter().copied().filter(u8::is_ascii).collect();
        match split {
            Some((prefix, name)) => {
                put(&mut block[0..NAME], name);
                put(&mut block[345..345 + PREFIX], prefix);
            }
            None => put(&mut block[0..NAME], &ascii),
        }
        octal(&mut block[329..337], 0);
        octal(&mut block[337..345], 0);
        self.header_block(block, mode, kind, size)
    }

    /// The record that holds a name which the plain header cannot.
    fn extended_header(&mut self, path: &[u8]) -> Result<(), Error> {
        let mut record = b" path=".to_vec();
        record.extend_from_slice(path);
        record.push(b'\n');
        let mut length = record.len();
        length = record.len() + (length + length.to_string().len()).to_string().len();
        let mut data = length.to_string().into_bytes();
        data.extend_from_slice(&record);

        let (directory, file) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(at) => path.split_at(at + 1),
            None => (&b""[..], path),
        };
        let name: Vec<u8> = [directory, b"PaxHeaders.0/", file]
            .concat()
            .into_iter()
            .filter(u8::is_ascii)
            .take(NAME)
            .collect();
        let end = name
            .iter()
            .rposition(|byte| *byte != b'/')
            .map_or(0, |at| at + 1);
        let mut block = [0; BLOCK];
        put(&mut block[0..NAME], &name[..end]);
        self.header_block(block, 0, b'x', data.len() as u64)?;
        self.out.write_all(&data).map_err(Error::archive_io)?;
        self.padding = (BLOCK - data.len() % BLOCK) % BLOCK;
        self.pad().map_err(Error::archive_io)
    }

    fn header_block(
        &mut self,
        mut block: [u8; BLOCK],
        mode: u32,
        kind: u8,
        size: u64,
    ) -> Result<(), Error> {
        octal(&mut block[100..108], u64::from(mode));
        octal(&mut block[108..116], 0);
        octal(&mut block[116..124], 0);
        octal(&mut block[124..136], size);
        octal(&mut block[136..148], 0);
        block[156] = kind;
        block[257..265].copy_from_slice(b"ustar\x0000");
        block[148..156].fill(b' ');
        let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
        octal(&mut block[148..155], sum);
        block[155] = b' ';
        self.out.write_all(&block).map_err(Error::archive_io)
    }
}

fn put(field: &mut [u8], text: &[u8]) {
    let count = text.len().min(field.len());
    field[..count].copy_from_slice(&text[..count]);
}

/// Octal digits with leading zeros, and a zero byte.
fn octal(field: &mut [u8], value: u64) {
    let digits = format!("{value:0width$o}", width = field.len() - 1);
    put(field, digits.as_bytes());
    if let Some(last) = field.last_mut() {
        *last = 0;
    }
}

/// Cuts a long plain name at a slash so that both halves fit into the header.
fn split_name(path: &[u8]) -> Option<(&[u8], &[u8])> {
    if path.len() <= NAME || !path.is_ascii() {
        return None;
    }
    let mut length = path.len();
    if length > PREFIX + 1 {
        length = PREFIX + 1;
    } else if path[length - 1] == b'/' {
        length -= 1;
    }
    let cut = path[..length].iter().rposition(|byte| *byte == b'/')?;
    let name = path.len() - cut - 1;
    (cut > 0 && name > 0 && name <= NAME && cut <= PREFIX).then(|| (&path[..cut], &path[cut + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(packed: &[u8]) -> Vec<(String, u32, u64)> {
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(packed));
        let entries = archive.entries().unwrap();
        let shown = entries.map(|entry| {
            let entry = entry.unwrap();
            let path = entry.path().unwrap().to_str().unwrap().to_owned();
            let header = entry.header();
            assert_eq!(header.mtime().unwrap(), 0);
            (path, header.mode().unwrap(), entry.size())
        });
        shown.collect()
    }

    #[test]
    fn archives_hold_what_was_put_in() {
        let mut writer =
            ArchiveWriter::new(Vec::new(), Algorithm::Sha256, Limit::new(1000, "--max")).unwrap();
        let long = format!("{}/{}", "d".repeat(80), "f".repeat(60));
        let longer = "x".repeat(180);
        for name in ["a b/ü.yaml", &long, &longer] {
            writer
                .file(name.as_bytes(), false, 3, &mut &b"x\n3"[..])
                .unwrap();
        }
        writer.file(b"run.sh", true, 2, &mut &b"hi"[..]).unwrap();
        let (packed, summary) = writer.finish().unwrap();
        assert_eq!(summary.files, 4);
        assert_eq!(summary.size, packed.len() as u64);
        let expected = [
            (".".to_owned(), 0o750, 0),
            ("a b/ü.yaml".to_owned(), 0o600, 3),
            (long, 0o600, 3),
            (longer, 0o600, 3),
            ("run.sh".to_owned(), 0o700, 2),
        ];
        assert_eq!(names(&packed), expected);
    }

    #[test]
    fn more_than_the_limit_is_refused() {
        let mut writer =
            ArchiveWriter::new(Vec::new(), Algorithm::Sha256, Limit::new(4, "--max")).unwrap();
        writer.file(b"a", false, 3, &mut &b"abc"[..]).unwrap();
        let error = writer.file(b"b", false, 3, &mut &b"abc"[..]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the content at b is larger than the limit of 4 bytes for all files together: leave something out, \
             or raise --max"
        );
        assert!(matches!(
            error.exceeded(),
            Some(Exceeded::Count { limit: 4, .. })
        ));
    }

    #[test]
    fn content_that_ends_early_is_an_error() {
        let mut writer =
            ArchiveWriter::new(Vec::new(), Algorithm::Sha256, Limit::new(100, "--max")).unwrap();
        assert!(writer.file(b"a", false, 3, &mut &b"ab"[..]).is_err());
    }
}
