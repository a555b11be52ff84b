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
    /// Take over a cluster from Flux, with nothing rolled out and nothing pruned
    Adopt(flux::adopt::Args),
    /// Find what would stop together, what could not be mended then, and the smallest patches against it
    Audit(audit::Args),
    /// Keep a cluster by a repository: install, commit, and wait until it runs
    Bootstrap(Box<flux::bootstrap::Args>),
    /// Build what a Flux object stands for, without applying it
    Build(flux::build::Args),
    /// Check whether the cluster can run the controllers, and whether they run
    Check(flux::check::Args),
    /// Print a script that completes commands, flags and names of objects in a shell
    Completion(flux::completion::Args),
    #[command(name = "__complete", hide = true)]
    Complete(flux::completion::WordsArgs),
    /// Run a Kubernetes API server on this machine
    Cluster(cluster::Args),
    /// Create or update objects of Flux, and the Secrets they need
    Create(Box<flux::create::Args>),
    /// Print the definitions of Flux's kinds, to be applied to a cluster
    Crds(run::CrdsArgs),
    /// Print what the controllers work with: final values and variables, statuses, histories
    Debug(flux::debug::Args),
    /// Delete objects of Flux
    Delete(flux::delete::Args),
    /// Show what a change of a repository changes in the cluster, with no cluster
    Diff(up::diff::Args),
    /// Put the values of environment variables into standard input
    Envsubst(flux::envsubst::Args),
    /// Print events of Flux objects
    Events(flux::events::Args),
    /// Print objects of Flux as one would write them
    Export(flux::export::Args),
    /// Print Flux objects and how they stand
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
    /// Bring objects of Flux to their latest version, in a cluster or in files
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
    /// Give a cluster that was adopted back to Flux
    Release(flux::release::Args),
    /// Deliver from this machine what the engine in the cluster cannot: the way out of a deadlock
    Rescue(Box<rescue::Args>),
    /// Resume Flux objects that are suspended
    Resume(flux::suspend::ResumeArgs),
    /// Run the controllers against a cluster
    Run(Box<run::Args>),
    /// Find out what goes wrong when things fail: the controllers in a simulated world
    Sim(sim::Args),
    /// Print how many objects of Flux there are and how they stand
    Stats(flux::stats::Args),
    /// Suspend Flux objects
    Suspend(flux::suspend::Args),
    /// Give tags to an artifact in a registry
    Tag(flux::artifact::TagVerb),
    /// Check on this machine that a whole repository can be deployed, for CI
    Test(up::test::Args),
    /// Print where an object in the cluster comes from
    Trace(flux::trace::Args),
    /// Print what a Flux object manages
    Tree(flux::tree::Args),
    /// Call a webhook
    Trigger(notify::trigger::Args),
    /// Remove the controllers and their definitions from a cluster; what they deployed stays
    Uninstall(install::UninstallArgs),
    /// Bring up a whole repository on this machine, with no cluster
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
