//! The command line as clap sees it.

use std::time::Duration;

use clap::{Command, CommandFactory as _, Parser, Subcommand};

use crate::{
    audit, cluster, flux, helm, install, kustomize, man, notify, rescue, run, sim, up, version,
};

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

/// The whole command line, with flux's verbs as flux reads them.
pub fn program() -> Command {
    flux::usage::as_flux_reads(Cli::command())
}

/// The verbs, one module each.
#[derive(Subcommand, Debug)]
pub enum Verb {
    /// Take over a cluster from Flux without restarting or pruning anything
    Adopt(flux::adopt::Args),
    /// Find what would fail together and could not be repaired then, and the smallest patches that prevent it
    Audit(audit::Args),
    /// Install, commit the installation to a repository, and have the cluster manage itself from there
    Bootstrap(Box<flux::bootstrap::Args>),
    /// Build the objects of a Flux object, without applying them
    Build(flux::build::Args),
    /// Check whether the cluster can run the controllers, and whether they run
    Check(flux::check::Args),
    /// Print a script that completes commands, flags and names of objects in a shell
    Completion(flux::completion::Args),
    #[command(name = "__complete", hide = true)]
    Complete(flux::completion::WordsArgs),
    /// Run a Kubernetes API server on this machine
    Cluster(cluster::Args),
    /// Create or update Flux objects, and the Secrets they need
    Create(Box<flux::create::Args>),
    /// Print the CRDs of Flux's kinds, ready to be applied to a cluster
    Crds(run::CrdsArgs),
    /// Print what the controllers work with: final values and variables, statuses, histories
    Debug(flux::debug::Args),
    /// Delete Flux objects
    Delete(flux::delete::Args),
    /// Show what a change in a repository would change in the cluster, without a cluster
    Diff(up::diff::Args),
    /// Substitute environment variables in standard input
    Envsubst(flux::envsubst::Args),
    /// Print the events of Flux objects
    Events(flux::events::Args),
    /// Print Flux objects as manifests
    Export(flux::export::Args),
    /// Print Flux objects and their state
    Get(flux::get::Args),
    /// Render Helm charts without a cluster
    Helm(helm::Args),
    /// Install the controllers in a cluster, or print the manifests for it
    Install(Box<install::Args>),
    /// Build kustomizations as the real kustomize does
    Kustomize(kustomize::Args),
    /// List artifacts in a registry
    List(flux::artifact::ListVerb),
    /// Print the logs of the controllers
    Logs(flux::logs::Args),
    /// Write the manual pages of all commands
    Man(man::Args),
    /// Migrate Flux objects to their latest API version, in a cluster or in files
    Migrate(flux::migrate::Args),
    /// Try out notifications
    Notify(notify::Args),
    /// There are no plugins
    Plugin(flux::plugin::Args),
    /// Pull an artifact from a registry
    Pull(flux::artifact::PullVerb),
    /// Push an artifact to a registry
    Push(flux::artifact::PushVerb),
    /// Reconcile a Flux object now, and wait for it
    Reconcile(flux::reconcile::Args),
    /// Hand an adopted cluster back to Flux
    Release(flux::release::Args),
    /// Deliver from this machine what the engine in the cluster cannot: a way out of a deadlock
    Rescue(Box<rescue::Args>),
    /// Resume Flux objects that are suspended
    Resume(flux::suspend::ResumeArgs),
    /// Run the controllers against a cluster
    Run(Box<run::Args>),
    /// Run the controllers in a simulated world and find out what breaks under faults
    Sim(sim::Args),
    /// Print the number of Flux objects and their state
    Stats(flux::stats::Args),
    /// Suspend Flux objects
    Suspend(flux::suspend::Args),
    /// Tag an artifact in a registry
    Tag(flux::artifact::TagVerb),
    /// Check, in CI or locally, that a whole repository can be deployed
    Test(up::test::Args),
    /// Print where an object in the cluster comes from
    Trace(flux::trace::Args),
    /// Print what a Flux object manages
    Tree(flux::tree::Args),
    /// Call a webhook
    Trigger(notify::trigger::Args),
    /// Remove the controllers and their CRDs from a cluster; what they deployed stays
    Uninstall(install::UninstallArgs),
    /// Bring up a whole repository on this machine, without a cluster
    Up(up::Args),
    /// Print the version of this program
    Version(version::Args),
}

/// Reads a span of time as Go writes it.
pub fn span(text: &str) -> Result<Duration, String> {
    let parsed = everflow_time::Duration::parse(text).map_err(|error| error.to_string())?;
    u64::try_from(parsed.0)
        .map(Duration::from_nanos)
        .map_err(|_| "a span must not be negative".to_owned())
}
