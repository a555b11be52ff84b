//! What archives may hold, and what they have taken of it.

use everflow_limits::{Budget, Exceeded};

use crate::Error;
use crate::error::shown;
use crate::header::BLOCK;

/// A limit with the option that sets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// The most that is allowed.
    pub most: u64,
    /// The option, such as `--artifact-max-size`; empty where none sets it.
    pub flag: &'static str,
}

impl Limit {
    /// So many, as an option says.
    pub const fn new(most: u64, flag: &'static str) -> Self {
        Limit { most, flag }
    }

    fn check(self, count: u64, what: &'static str) -> Result<(), Exceeded> {
        everflow_limits::at_most(count, self.most, what, self.flag)
    }
}

/// What an archive may hold, or several that share a [`Meter`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the content of all entries together.
    pub total: Limit,
    /// Bytes of the content of one entry.
    pub file: Limit,
    /// Entries: directories, links and global headers too.
    pub entries: Limit,
    /// Bytes of one extension record: a long name, a long link or PAX records.
    pub record: u64,
    /// Bytes that are read in all: headers, records, padding and what is skipped too.
    pub read: u64,
}

impl Limits {
    /// Go reads no extension record that is longer.
    const RECORD: u64 = 1 << 20;
    /// An entry may have a header, two records with theirs, and padding.
    const AROUND_ENTRY: u64 = 4 * BLOCK as u64;

    /// So many bytes and entries; one file may have all of the bytes.
    pub const fn new(total: Limit, entries: Limit) -> Self {
        let headers = entries.most.saturating_mul(Self::AROUND_ENTRY);
        Limits {
            total,
            file: total,
            entries,
            record: Self::RECORD,
            read: total.most.saturating_add(headers).saturating_add(1 << 20),
        }
    }

    /// The same with a lower limit for one file.
    #[must_use]
    pub const fn with_file(self, file: Limit) -> Self {
        Limits { file, ..self }
    }
}

/// What was taken so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    /// Bytes of content, read or skipped.
    pub unpacked: u64,
    /// Entries.
    pub entries: u64,
    /// Bytes in all.
    pub read: u64,
}

/// Counts what archives take: those that belong together share one.
#[derive(Debug)]
pub struct Meter<'b> {
    limits: Limits,
    used: Used,
    budget: &'b Budget,
}

impl<'b> Meter<'b> {
    /// Nothing is used yet.
    pub fn new(limits: Limits, budget: &'b Budget) -> Self {
        Meter::going_on(limits, Used::default(), budget)
    }

    /// Something is used already, by archives that were read before.
    pub fn going_on(limits: Limits, used: Used, budget: &'b Budget) -> Self {
        Meter {
            limits,
            used,
            budget,
        }
    }

    /// What may be used.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// What is used.
    pub fn used(&self) -> Used {
        self.used
    }

    /// What the work may use.
    pub fn budget(&self) -> &'b Budget {
        self.budget
    }

    /// Counts an entry, or a file that lies beside archives, before its content is read.
    pub fn count(&mut self, name: &[u8], size: u64) -> Result<(), Error> {
        let Limits {
            total,
            file,
            entries,
            ..
        } = self.limits;
        self.used.entries = self.used.entries.saturating_add(1);
        let many = entries.check(self.used.entries, "entries in one archive");
        many.map_err(|exceeded| Error::TooMany {
            entry: shown(name),
            exceeded,
        })?;
        self.used.unpacked = self.used.unpacked.saturating_add(size);
        file.check(size, "bytes in one file of an archive")
            .and_then(|()| total.check(self.used.unpacked, "bytes in one archive"))
            .map_err(|exceeded| Error::TooLarge {
                entry: shown(name),
                exceeded,
            })
    }

    /// How many of `wanted` bytes may be read now.
    pub(crate) fn readable(&self, wanted: usize) -> Result<usize, Exceeded> {
        self.budget.check()?;
        let left = self.limits.read.saturating_sub(self.used.read);
        match usize::try_from(left) {
            Ok(0) if wanted > 0 => Err(Exceeded::Count {
                what: "bytes in one archive with its headers",
                limit: self.limits.read,
                flag: self.limits.total.flag,
            }),
            Ok(left) => Ok(left.min(wanted)),
            Err(_) => Ok(wanted),
        }
    }

    pub(crate) fn note_read(&mut self, bytes: usize) {
        self.used.read = self.used.read.saturating_add(bytes as u64);
    }
}
