//! The verbs of flux, for any cluster: the same words, columns, symbols and exit codes.

pub mod build;
pub(crate) mod connection;
pub mod debug;
pub mod disk_tree;
pub mod events;
pub mod get;
mod kinds;
pub mod logs;
mod readiness;
pub mod reconcile;
mod row;
pub(crate) mod say;
pub mod suspend;
mod table;
pub mod tree;
pub mod usage;

use std::time::Duration;

use crate::args::span;
use crate::exit::Failure;

/// Runs what talks to a cluster.
pub(crate) fn in_runtime(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(work)
}

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    // flux says the same whatever is wrong with the text.
    everflow_time::Duration::parse(text).map_err(|_| format!("time: invalid duration {text:?}"))?;
    span(text)
}
