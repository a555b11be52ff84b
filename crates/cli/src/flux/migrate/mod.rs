//! `everflow migrate`: objects of Flux in their latest version, in a cluster or in files.

mod cluster;
mod files;

use super::connection::Connection;
use super::in_runtime;
use crate::exit::Failure;

/// `everflow migrate`
#[derive(clap::Args, Debug)]
pub struct Args {
    /// A directory or a file to migrate, instead of the cluster
    #[arg(short = 'f', long, value_name = "PATH")]
    path: Option<String>,
    /// Which files of the directory
    #[arg(
        short,
        long,
        value_name = "EXTENSION",
        value_delimiter = ',',
        default_value = ".yaml,.yml"
    )]
    extensions: Vec<String>,
    /// The minor version of Flux to migrate to
    #[arg(
        short = 'v',
        long,
        value_name = "VERSION",
        default_value = "",
        hide_default_value = true
    )]
    version: String,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// Change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    match &args.path {
        Some(path) => files::migrate(args, path),
        None => in_runtime(cluster::migrate(&args.connection)),
    }
}
