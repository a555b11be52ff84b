//! `everflow build artifact`

use super::local::{self, ContentFlags, LinkFlags};
use super::work;
use crate::exit::Failure;
use crate::flux::say;

/// `everflow build artifact`
#[derive(clap::Args, Debug)]
pub struct BuildArgs {
    /// The directory or file; - for standard input
    #[arg(
        short,
        long,
        value_name = "PATH",
        default_value = "",
        hide_default_value = true
    )]
    path: String,
    /// The file to write
    #[arg(short, long, value_name = "FILE", default_value = "artifact.tgz")]
    output: String,
    #[command(flatten)]
    content: ContentFlags,
    #[command(flatten)]
    links: LinkFlags,
}

/// Runs the verb.
pub fn build(args: &BuildArgs) -> Result<(), Failure> {
    local::existing(&args.path)?;
    say::action(&format!("building artifact from {}", args.path));
    let failed = |why: String| work(format!("building artifact failed, error: {why}"));
    let packed = local::pack(&args.path, &args.content, args.links.resolve_symlinks)
        .map_err(|error| failed(error.to_string()))?;
    std::fs::write(&args.output, packed)
        .map_err(|error| failed(format!("{}: {error}", args.output)))?;
    say::success(&format!("artifact created at {}", args.output));
    Ok(())
}
