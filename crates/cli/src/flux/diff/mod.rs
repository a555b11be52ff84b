//! `everflow diff kustomization` and `everflow diff artifact`: against what is there now.

mod kustomization;
pub mod report;

use clap::Subcommand;

pub use kustomization::comparable;

use super::artifact;
use super::connection::Connection;
use crate::exit::Failure;
use crate::install;

/// What is compared with something that is there already.
#[derive(Subcommand, Debug)]
pub enum What {
    /// Show what a local directory would change in the cluster; exits with 1 if there are changes
    #[command(visible_alias = "ks")]
    Kustomization(Box<kustomization::Args>),
    /// Compare a local directory with an artifact in a registry; exits with 1 if they differ
    Artifact(Box<ArtifactArgs>),
    /// Show what a FluxInstance would change in the cluster; exits with 1 if there are changes
    Instance(Box<install::DiffArgs>),
}

/// `everflow diff artifact`
#[derive(clap::Args, Debug)]
pub struct ArtifactArgs {
    #[command(flatten)]
    diff: artifact::DiffArgs,
    #[command(flatten)]
    connection: Connection,
}

/// Runs the verb.
pub fn run(what: &What) -> Result<(), Failure> {
    match what {
        What::Kustomization(args) => kustomization::run(args),
        What::Instance(args) => install::diff_instance(args),
        What::Artifact(args) => artifact::diff(&args.diff, &args.connection),
    }
}
