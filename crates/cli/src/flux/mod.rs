//! The verbs of flux, for any cluster: the same words, columns, symbols and exit codes.

pub mod adopt;
pub mod artifact;
pub mod bootstrap;
pub mod build;
pub mod check;
pub mod completion;
pub mod confirm;
pub mod connection;
pub mod context_namespace;
pub mod create;
pub mod debug;
pub mod delete;
pub mod diff;
pub mod disk_tree;
pub mod envsubst;
pub mod events;
pub mod export;
pub mod get;
pub mod go_flags;
pub mod kinds;
pub mod logs;
pub mod migrate;
pub mod plugin;
mod readiness;
pub mod reconcile;
pub mod release;
mod resources;
mod row;
pub mod say;
pub mod stats;
pub mod suspend;
mod table;
pub mod trace;
pub mod tree;
pub mod usage;

use std::time::Duration;

use crate::args::span;
use crate::exit::Failure;

/// Does something for each name. One failure does not keep the others from being done: where there are
/// several names it is told at once.
async fn each<'n, F>(names: &'n [String], mut work: impl FnMut(&'n str) -> F) -> Result<(), Failure>
where
    F: Future<Output = Result<(), Failure>>,
{
    let mut outcome = Ok(());
    for name in names {
        match work(name).await {
            Ok(()) => {}
            Err(failure) if names.len() == 1 => return Err(failure),
            Err(failure) => {
                say::failure(&failure.to_string());
                outcome = Err(Failure::Reported);
            }
        }
    }
    outcome
}

/// Runs what talks to a cluster.
pub fn in_runtime(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
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
