//! Readers and writers that end when the work should end.

use std::io::{self, BufRead, Read, Seek, SeekFrom, Write};

use everflow_limits::{Budget, Exceeded};
use flate2::bufread::MultiGzDecoder;

/// A reader or writer that asks the budget at each step. The error that it ends with holds an
/// [`Exceeded`], which [`exceeded_in`] finds.
#[derive(Debug)]
pub struct Budgeted<'b, T> {
    inner: T,
    budget: &'b Budget,
}

impl<'b, T> Budgeted<'b, T> {
    /// Goes on as long as the budget allows.
    pub fn new(inner: T, budget: &'b Budget) -> Self {
        Budgeted { inner, budget }
    }

    /// What was wrapped.
    pub fn into_inner(self) -> T {
        self.inner
    }

    fn check(&self) -> io::Result<()> {
        self.budget.check().map_err(io::Error::other)
    }
}

impl<T: Read> Read for Budgeted<'_, T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.check()?;
        self.inner.read(buffer)
    }
}

impl<T: BufRead> BufRead for Budgeted<'_, T> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.check()?;
        self.inner.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.inner.consume(count);
    }
}

impl<T: Write> Write for Budgeted<'_, T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.check()?;
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<T: Seek> Seek for Budgeted<'_, T> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}

/// The limit that a reader or writer ended at, if that was why.
pub fn exceeded_in(error: &io::Error) -> Option<&Exceeded> {
    error.get_ref()?.downcast_ref()
}

/// The plain bytes of a gzip stream with all its members, as Go reads it. Members without content keep the
/// decoder busy while nothing comes out: so the budget is asked for the packed bytes too.
pub fn gunzip<R: BufRead>(packed: R, budget: &Budget) -> MultiGzDecoder<Budgeted<'_, R>> {
    MultiGzDecoder::new(Budgeted::new(packed, budget))
}
