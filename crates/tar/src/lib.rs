//! One bounded reader of tar archives, for charts, layers and artifacts.
//!
//! An [`Archive`] reads plain tar from any [`Read`](std::io::Read); [`gunzip`] goes before it. What
//! archives hold and take is counted by a [`Meter`], which several archives may share, against explicit
//! [`Limits`] and a [`Budget`](everflow_limits::Budget): the budget is asked at each header and each block
//! of content, and what is read into memory (names and extension records) is bounded and charged first.
//!
//! What is read is what Go's `archive/tar` reads: sizes in base 256, GNU long names, PAX records with `path`
//! and `size`, which count more than the header, and no content behind kinds of entries that have none. Global
//! PAX headers are passed over. Sparse files are refused, and so are two records of one kind for one entry.
//!
//! It is written here because the iterators of the `tar` crate cannot be bounded: the usual one reads extension
//! records into memory whole before anybody has seen how long they are, and the raw one finds the next header by
//! the size in the last one, although a PAX record may say another. What is left then are a name, a letter and
//! three numbers in each header, which that crate does not read quite as Go does.

#![forbid(unsafe_code)]

mod archive;
mod budgeted;
mod error;
mod header;
mod limits;
mod pax;

pub use archive::{Archive, Entry};
pub use budgeted::{Budgeted, exceeded_in, gunzip};
pub use error::{Error, shown};
pub use header::Kind;
pub use limits::{Limit, Limits, Meter, Used};
