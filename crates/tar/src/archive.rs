//! Entries, one after another.

use std::io::{self, Read};

use everflow_limits::Budget;

use crate::error::shown;
use crate::header::{BLOCK, Before, Fields, Kind, Record};
use crate::pax::Pax;
use crate::{Error, Meter};

/// A tar archive that is read from its begin to its end.
pub struct Archive<'m, 'b, R> {
    input: R,
    meter: &'m mut Meter<'b>,
    /// Where the next byte of the input stands.
    at: u64,
    /// Bytes of the current entry's content that are not read yet.
    content: u64,
    /// Bytes behind the content that fill its last block.
    padding: u64,
    /// What was charged for the name of the current entry.
    charged: usize,
}

/// A file, directory or anything else in an archive. Reading gives its content.
#[derive(Debug)]
pub struct Entry<'a> {
    archive: &'a mut dyn Source,
    path: Vec<u8>,
    kind: Kind,
    mode: u32,
    size: u64,
}

/// What records said of the entry that follows them.
#[derive(Default)]
struct Records {
    long_name: Option<Vec<u8>>,
    has_long_link: bool,
    pax: Option<Pax>,
}

impl Records {
    /// The name of the entry, where its header gives another one.
    fn path(self, of_header: Vec<u8>) -> Vec<u8> {
        let long_name = self.long_name.filter(|name| !name.is_empty());
        let pax = self.pax.and_then(|pax| pax.path);
        long_name.or(pax).unwrap_or(of_header)
    }

    fn is_empty(&self) -> bool {
        self.long_name.is_none() && !self.has_long_link && self.pax.is_none()
    }
}

impl<'m, 'b, R: Read> Archive<'m, 'b, R> {
    /// An archive whose entries count to `meter`.
    pub fn new(input: R, meter: &'m mut Meter<'b>) -> Self {
        Archive {
            input,
            meter,
            at: 0,
            content: 0,
            padding: 0,
            charged: 0,
        }
    }

    /// The next entry, or nothing at the end. What is left of the content of the last one is skipped.
    pub fn next_entry(&mut self) -> Result<Option<Entry<'_>>, Error> {
        self.forget_name();
        let mut records = Records::default();
        loop {
            self.finish_content()?;
            let at = self.at;
            let wrong = |reason| Error::Header { at, reason };
            let fields = match self.block()? {
                Some(block) => Fields::read(&block).map_err(wrong)?,
                None => None,
            };
            match fields {
                Some(fields) => match fields.before {
                    Before::Entry(kind) => return self.entry(at, kind, fields, records).map(Some),
                    Before::Record(record) => {
                        self.take_record(at, record, fields.size, &mut records)?;
                    }
                },
                None if records.is_empty() => return Ok(None),
                None => {
                    return Err(wrong(
                        "the entry that the records before it are about is missing",
                    ));
                }
            }
        }
    }

    /// Reads what says something of the entry behind it.
    fn take_record(
        &mut self,
        at: u64,
        record: Record,
        size: u64,
        records: &mut Records,
    ) -> Result<(), Error> {
        let wrong = |reason| Error::Header { at, reason };
        let is_second = match record {
            Record::LongName => {
                let mut name = self.record(at, size)?;
                let end = name.iter().position(|byte| *byte == 0);
                name.truncate(end.unwrap_or(name.len()));
                records.long_name.replace(name).is_some()
            }
            Record::LongLink => {
                self.record(at, size)?;
                std::mem::replace(&mut records.has_long_link, true)
            }
            Record::Pax => {
                let pax = Pax::parse(&self.record(at, size)?).map_err(wrong)?;
                records.pax.replace(pax).is_some()
            }
            Record::GlobalPax => {
                self.check_record(at, size)?;
                self.start(size).ok_or_else(|| wrong(TOO_LARGE))?;
                self.meter.count(b"the global PAX header", 0)?;
                // As Go's reader, which takes it for an entry of its own.
                *records = Records::default();
                false
            }
        };
        match is_second {
            true => Err(wrong("a second record of one kind for one entry")),
            false => Ok(()),
        }
    }

    fn entry(
        &mut self,
        at: u64,
        kind: Kind,
        fields: Fields,
        records: Records,
    ) -> Result<Entry<'_>, Error> {
        let (pax_size, has_holes) = match &records.pax {
            Some(pax) => (pax.size, pax.sparse),
            None => (None, false),
        };
        let path = records.path(fields.path);
        if has_holes || kind == OLD_SPARSE {
            return Err(Error::Sparse(shown(&path)));
        }
        let kind = match fields.is_old_file && path.ends_with(b"/") {
            true => Kind::Directory,
            false => kind,
        };
        let size = match kind.is_header_only() {
            true => 0,
            false => pax_size.unwrap_or(fields.size),
        };
        self.meter.count(&path, size)?;
        self.start(size).ok_or(Error::Header {
            at,
            reason: TOO_LARGE,
        })?;
        Ok(Entry {
            archive: self,
            path,
            kind,
            mode: fields.mode,
            size,
        })
    }

    /// Reads a record into memory, once it is known to be short and is charged.
    fn record(&mut self, at: u64, size: u64) -> Result<Vec<u8>, Error> {
        let length = self.check_record(at, size)?;
        let charged = self.meter.budget().charge(length);
        charged.map_err(|exceeded| Error::at(at, io::Error::other(exceeded)))?;
        self.charged += length;
        let mut record = vec![0; length];
        self.read_exact(&mut record)
            .map_err(|error| Error::at(at, error))?;
        self.padding = padding(size);
        Ok(record)
    }

    fn check_record(&self, at: u64, size: u64) -> Result<usize, Error> {
        let limit = self.meter.limits().record;
        match usize::try_from(size) {
            Ok(length) if size <= limit => Ok(length),
            _ => Err(Error::Record { at, size, limit }),
        }
    }

    /// Notes how much content comes now.
    fn start(&mut self, size: u64) -> Option<()> {
        let padding = padding(size);
        self.at.checked_add(size)?.checked_add(padding)?;
        (self.content, self.padding) = (size, padding);
        Some(())
    }

    /// Skips what is left of the current entry. The input may end in the padding of the last one.
    fn finish_content(&mut self) -> Result<(), Error> {
        let at = self.at;
        let content = std::mem::take(&mut self.content);
        let padding = std::mem::take(&mut self.padding);
        let skipped = self.skip(content).and_then(|left| match left {
            0 => self.skip(padding),
            _ => Err(ended()),
        });
        skipped.map(drop).map_err(|error| Error::at(at, error))
    }

    /// Skips bytes and tells how many were not there.
    fn skip(&mut self, mut left: u64) -> io::Result<u64> {
        let mut buffer = [0; 16 * BLOCK];
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(usize::MAX);
            let most = most.min(buffer.len());
            match self.read_some(&mut buffer[..most])? {
                0 => break,
                count => left -= count as u64,
            }
        }
        Ok(left)
    }

    /// The next block; none when the input is over, which archives may end with.
    fn block(&mut self) -> Result<Option<[u8; BLOCK]>, Error> {
        let at = self.at;
        let failed = |error| Error::at(at, error);
        let mut block = [0; BLOCK];
        let count = self.read_some(&mut block).map_err(failed)?;
        if count == 0 {
            return Ok(None);
        }
        self.read_exact(&mut block[count..]).map_err(failed)?;
        Ok(Some(block))
    }

    fn read_exact(&mut self, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.read_some(buffer)? {
                0 => return Err(ended()),
                count => buffer = &mut buffer[count..],
            }
        }
        Ok(())
    }

    /// All reading of the input goes through here: it is counted, and may be told to end.
    fn read_some(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = self
            .meter
            .readable(buffer.len())
            .map_err(io::Error::other)?;
        let count = loop {
            match self.input.read(&mut buffer[..most]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        self.meter.note_read(count);
        self.at += count as u64;
        Ok(count)
    }

    fn forget_name(&mut self) {
        self.meter
            .budget()
            .release(std::mem::take(&mut self.charged));
    }
}

/// How GNU tar marks files with holes where it does not use PAX records.
const OLD_SPARSE: Kind = Kind::Other('S');

/// The input is over although more was announced, in Go's words.
fn ended() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "unexpected EOF")
}

const TOO_LARGE: &str = "its size is no number or too large";

fn padding(size: u64) -> u64 {
    size.wrapping_neg() % BLOCK as u64
}

/// The archive behind an entry, whatever it is read from.
trait Source: std::fmt::Debug {
    /// Reads some of the current entry's content.
    fn read_current(&mut self, buffer: &mut [u8]) -> io::Result<usize>;

    fn budget(&self) -> &Budget;
}

impl<R: Read> Source for Archive<'_, '_, R> {
    fn read_current(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.content).unwrap_or(usize::MAX);
        let most = left.min(buffer.len());
        if most == 0 {
            return Ok(0);
        }
        let count = self.read_some(&mut buffer[..most])?;
        if count == 0 {
            return Err(ended());
        }
        self.content -= count as u64;
        Ok(count)
    }

    fn budget(&self) -> &Budget {
        self.meter.budget()
    }
}

impl<R> std::fmt::Debug for Archive<'_, '_, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Archive");
        shown.field("meter", &self.meter).field("at", &self.at);
        shown.finish_non_exhaustive()
    }
}

impl Entry<'_> {
    /// Its name as the archive gives it: nothing says that it is text, relative or plain.
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    /// The name for messages, which is cut where it is too long.
    pub fn shown(&self) -> String {
        shown(&self.path)
    }

    /// What it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Its permissions.
    pub fn mode(&self) -> u32 {
        self.mode
    }

    /// How long its content is.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The whole content in memory. It is charged to the budget, and stays charged.
    pub fn read_content(&mut self) -> Result<Vec<u8>, Error> {
        let length = usize::try_from(self.size).unwrap_or(usize::MAX);
        let charged = self.archive.budget().charge(length);
        charged.map_err(|exceeded| Error::limit(&self.shown(), exceeded))?;
        // The size may be a lie: memory is taken as content comes.
        let mut content = Vec::with_capacity(length.min(64 << 10));
        match self.read_to_end(&mut content) {
            Ok(_) => Ok(content),
            Err(error) => {
                self.archive.budget().release(length);
                Err(Error::reading(&self.shown(), error))
            }
        }
    }
}

impl Read for Entry<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.archive.read_current(buffer)
    }
}

impl<R> Drop for Archive<'_, '_, R> {
    fn drop(&mut self) {
        self.meter.budget().release(self.charged);
    }
}
