//! The command line as clap sees it.

use clap::{Parser, Subcommand};

use crate::{cluster, helm, kustomize, up, version};

/// The GitOps engine that does not get stuck.
///
/// Everflow does the work of Flux's controllers with the same Kubernetes APIs, and runs a whole
/// GitOps repository on a laptop or in CI with no cluster.
#[derive(Parser, Debug)]
#[command(
    name = "everflow",
    version,
    propagate_version = false,
    arg_required_else_help = true
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The verbs, one module each.
#[derive(Subcommand, Debug)]
pub enum Verb {
    /// Run a Kubernetes API server on this machine
    Cluster(cluster::Args),
    /// Show what a change of a repository changes in the cluster, with no cluster
    Diff(up::diff::Args),
    /// Render Helm charts without a cluster
    Helm(helm::Args),
    /// Build kustomizations as the real kustomize does
    Kustomize(kustomize::Args),
    /// Check on this machine that a whole repository can be deployed, for CI
    Test(up::test::Args),
    /// Bring up a whole repository on this machine, with no cluster
    Up(up::Args),
    /// Print the version of this program
    Version(version::Args),
}
