//! Reading a pack from some place on.

use std::io::{BufRead, BufReader};

use everflow_env::Disk;
use everflow_env::disk::FileReader;
use everflow_limits::Budget;
use flate2::{Decompress, FlushDecompress, Status};
use sha1::{Digest as _, Sha1};

use super::super::object::{Kind, ObjectId};
use super::{broken, cut_short};
use crate::Error;

/// What stands in front of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stored {
    Whole(Kind),
    /// A change to the object at this place.
    OffsetDelta(u64),
    /// A change to the object of this name.
    NameDelta(ObjectId),
}

/// Reads the pack from some place on, knowing where it is.
pub(super) struct Source {
    file: BufReader<Box<dyn FileReader>>,
    pub(super) position: u64,
    /// Hashes all that goes by, in the first pass.
    pub(super) hasher: Option<Sha1>,
    inflate: Decompress,
}

impl Source {
    pub(super) fn open(disk: &dyn Disk, path: &str) -> Result<Self, Error> {
        let file = disk
            .open(path)
            .map_err(|error| Error::disk("open", path, error))?;
        Ok(Source {
            file: BufReader::with_capacity(64 * 1024, file),
            position: 0,
            hasher: None,
            inflate: Decompress::new(true),
        })
    }

    pub(super) fn seek(&mut self, to: u64) -> Result<(), Error> {
        let distance = to as i64 - self.position as i64;
        self.file.seek_relative(distance).map_err(cut_short)?;
        self.position = to;
        Ok(())
    }

    fn consume(&mut self, count: usize) {
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&self.file.buffer()[..count]);
        }
        self.file.consume(count);
        self.position += count as u64;
    }

    fn byte(&mut self) -> Result<u8, Error> {
        let byte = *self
            .file
            .fill_buf()
            .map_err(cut_short)?
            .first()
            .ok_or_else(|| broken("it ends in the middle of an object"))?;
        self.consume(1);
        Ok(byte)
    }

    pub(super) fn array<const COUNT: usize>(&mut self) -> Result<[u8; COUNT], Error> {
        let mut bytes = [0; COUNT];
        for byte in &mut bytes {
            *byte = self.byte()?;
        }
        Ok(bytes)
    }

    /// The head of the object here: how it is stored, and its size (a delta's own size).
    pub(super) fn head(&mut self) -> Result<(Stored, u64), Error> {
        let start = self.position;
        let mut byte = self.byte()?;
        let kind = byte >> 4 & 7;
        let mut size = u64::from(byte & 15);
        let mut shift = 4;
        while byte & 0x80 != 0 {
            byte = self.byte()?;
            if shift > 57 {
                return Err(broken("an object claims an impossible size"));
            }
            size |= u64::from(byte & 0x7f) << shift;
            shift += 7;
        }
        let stored = match kind {
            1 => Stored::Whole(Kind::Commit),
            2 => Stored::Whole(Kind::Tree),
            3 => Stored::Whole(Kind::Blob),
            4 => Stored::Whole(Kind::Tag),
            6 => Stored::OffsetDelta(self.offset_base(start)?),
            7 => Stored::NameDelta(ObjectId(self.array()?)),
            other => return Err(broken(format_args!("unknown object type {other}"))),
        };
        Ok((stored, size))
    }

    fn offset_base(&mut self, start: u64) -> Result<u64, Error> {
        let mut byte = self.byte()?;
        let mut back = u64::from(byte & 0x7f);
        while byte & 0x80 != 0 {
            byte = self.byte()?;
            if back > 1 << 50 {
                return Err(broken("a delta's base lies outside"));
            }
            back = (back + 1) << 7 | u64::from(byte & 0x7f);
        }
        start
            .checked_sub(back)
            .filter(|_| back > 0)
            .ok_or_else(|| broken("a delta's base lies outside"))
    }

    /// Inflates the object here, `size` bytes and not one more or less.
    pub(super) fn inflate(
        &mut self,
        size: u64,
        budget: &Budget,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Error> {
        self.inflate.reset(true);
        let mut out = [0; 16 * 1024];
        let mut given = 0_u64;
        loop {
            budget.check()?;
            let (status, consumed, made) = self.inflate_piece(&mut out)?;
            given += made as u64;
            if given > size {
                return Err(broken("an object is larger than it claims"));
            }
            take(&out[..made]);
            match status {
                Status::StreamEnd if given == size => return Ok(()),
                Status::StreamEnd => {
                    return Err(broken("an object is smaller than it claims"));
                }
                _ if consumed == 0 && made == 0 => {
                    return Err(broken("an object does not end"));
                }
                _ => {}
            }
        }
    }

    fn inflate_piece(&mut self, out: &mut [u8]) -> Result<(Status, usize, usize), Error> {
        let before = (self.inflate.total_in(), self.inflate.total_out());
        let input = self.file.fill_buf().map_err(cut_short)?;
        if input.is_empty() {
            return Err(broken("it ends in the middle of an object"));
        }
        let status = self
            .inflate
            .decompress(input, out, FlushDecompress::None)
            .map_err(|_| broken("an object is not compressed as it should be"))?;
        let consumed = (self.inflate.total_in() - before.0) as usize;
        let made = (self.inflate.total_out() - before.1) as usize;
        self.consume(consumed);
        Ok((status, consumed, made))
    }

    pub(super) fn inflate_whole(
        &mut self,
        size: u64,
        limit: u64,
        budget: &Budget,
    ) -> Result<Vec<u8>, Error> {
        if size > limit {
            return Err(Error::TooLarge {
                what: "an object of the pack".to_owned(),
                limit,
            });
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0).min(1 << 20));
        self.inflate(size, budget, &mut |piece| bytes.extend_from_slice(piece))?;
        Ok(bytes)
    }
}
