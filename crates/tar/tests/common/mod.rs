//! Archives for tests.
#![allow(dead_code, clippy::unwrap_used)]

use std::io::{Read as _, Write as _};

use everflow_limits::Budget;
use everflow_tar::{Archive, Error, Kind, Limit, Limits, Meter};
use tar::EntryType;

/// The limits of most tests.
pub fn limits(total: u64, entries: u64) -> Limits {
    Limits::new(
        Limit::new(total, "--max-size"),
        Limit::new(entries, "--max-entries"),
    )
}

/// An entry as a reader gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub path: Vec<u8>,
    pub kind: Kind,
    pub content: Vec<u8>,
}

/// All entries of an archive.
pub fn entries(plain: &[u8], limits: Limits, budget: &Budget) -> Result<Vec<Found>, Error> {
    let mut meter = Meter::new(limits, budget);
    let mut archive = Archive::new(plain, &mut meter);
    let mut found = Vec::new();
    while let Some(mut entry) = archive.next_entry()? {
        let content = entry.read_content()?;
        assert_eq!(content.len() as u64, entry.size());
        found.push(Found {
            path: entry.path().to_vec(),
            kind: entry.kind(),
            content,
        });
    }
    Ok(found)
}

/// All entries as the tar crate reads them.
pub fn entries_of_tar_crate(plain: &[u8]) -> std::io::Result<Vec<Found>> {
    let mut archive = tar::Archive::new(plain);
    let mut found = Vec::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let mut content = Vec::new();
        entry.read_to_end(&mut content)?;
        let kind = match entry.header().entry_type() {
            EntryType::XGlobalHeader => continue,
            EntryType::Regular | EntryType::Continuous => Kind::File,
            EntryType::Directory => Kind::Directory,
            EntryType::Symlink => Kind::Symlink,
            other => panic!("no test writes {other:?}"),
        };
        let path = entry.path_bytes().into_owned();
        found.push(Found {
            path,
            kind,
            content,
        });
    }
    Ok(found)
}

/// A header with a name of at most 100 bytes.
pub fn header(name: &[u8], kind: EntryType, size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.as_old_mut().name[..name.len()].copy_from_slice(name);
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_size(size);
    header.set_cksum();
    header
}

/// An entry with its padding.
pub fn entry(name: &[u8], kind: EntryType, content: &[u8]) -> Vec<u8> {
    let mut bytes = header(name, kind, content.len() as u64).as_bytes().to_vec();
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

pub fn file(name: &str, content: &[u8]) -> Vec<u8> {
    entry(name.as_bytes(), EntryType::Regular, content)
}

/// PAX records for the entry behind them.
pub fn pax(records: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    builder
        .append_pax_extensions(records.iter().copied())
        .unwrap();
    let mut bytes = builder.into_inner().unwrap();
    bytes.truncate(bytes.len() - 1_024);
    bytes
}

/// A GNU record with the name of the entry behind it.
pub fn long_name(name: &[u8]) -> Vec<u8> {
    entry(
        b"././@LongLink",
        EntryType::GNULongName,
        &[name, b"\0"].concat(),
    )
}

/// The end of an archive behind its entries.
pub fn archive(entries: &[Vec<u8>]) -> Vec<u8> {
    [entries.concat(), vec![0; 1_024]].concat()
}

/// One member of a gzip stream.
pub fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(plain).unwrap();
    gzip.finish().unwrap()
}
