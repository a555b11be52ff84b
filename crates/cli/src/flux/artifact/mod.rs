//! Artifacts in OCI registries: `build`, `push`, `pull`, `tag`, `list` and `diff artifact`.

mod build;
mod diff;
mod list;
mod local;
mod pull;
mod push;
mod remote;
mod tag;

use clap::Subcommand;

pub use build::{BuildArgs, build};
pub use diff::{DiffArgs, diff};

use super::connection::Connection;
use crate::exit::Failure;

fn work(text: impl Into<String>) -> Failure {
    Failure::Work(text.into())
}

/// `everflow push`
#[derive(clap::Args, Debug)]
pub struct PushVerb {
    #[command(subcommand)]
    what: Option<PushWhat>,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Subcommand, Debug)]
enum PushWhat {
    /// Push a directory or a file to a registry, as an artifact
    Artifact(push::Args),
}

/// Runs `everflow push`.
pub fn push(verb: &PushVerb) -> Result<(), Failure> {
    match &verb.what {
        None => Err(Failure::help("push")),
        Some(PushWhat::Artifact(args)) => push::run(args, &verb.connection),
    }
}

/// `everflow pull`
#[derive(clap::Args, Debug)]
pub struct PullVerb {
    #[command(subcommand)]
    what: Option<PullWhat>,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Subcommand, Debug)]
enum PullWhat {
    /// Pull an artifact and unpack it
    Artifact(pull::Args),
}

/// Runs `everflow pull`.
pub fn pull(verb: &PullVerb) -> Result<(), Failure> {
    match &verb.what {
        None => Err(Failure::help("pull")),
        Some(PullWhat::Artifact(args)) => pull::run(args, &verb.connection),
    }
}

/// `everflow tag`
#[derive(clap::Args, Debug)]
pub struct TagVerb {
    #[command(subcommand)]
    what: Option<TagWhat>,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Subcommand, Debug)]
enum TagWhat {
    /// Add tags to an artifact
    Artifact(tag::Args),
}

/// Runs `everflow tag`.
pub fn tag(verb: &TagVerb) -> Result<(), Failure> {
    match &verb.what {
        None => Err(Failure::help("tag")),
        Some(TagWhat::Artifact(args)) => tag::run(args, &verb.connection),
    }
}

/// `everflow list`
#[derive(clap::Args, Debug)]
pub struct ListVerb {
    #[command(subcommand)]
    what: Option<ListWhat>,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Subcommand, Debug)]
enum ListWhat {
    /// List the artifacts of a repository
    #[command(alias = "artifact")]
    Artifacts(list::Args),
}

/// Runs `everflow list`.
pub fn list(verb: &ListVerb) -> Result<(), Failure> {
    match &verb.what {
        None => Err(Failure::help("list")),
        Some(ListWhat::Artifacts(args)) => list::run(args, &verb.connection),
    }
}
