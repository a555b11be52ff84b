//! `everflow man`: the manual pages of all commands, from the definitions that `--help` is made of.

use std::path::PathBuf;

use crate::exit::Failure;

/// `everflow man`
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The directory to write them to, which must exist
    #[arg(value_name = "DIR", default_value = ".")]
    directory: PathBuf,
}

/// Writes one page for each command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let shown = args.directory.display();
    clap_mangen::generate_to(crate::args::program(), &args.directory)
        .map_err(|error| Failure::Work(format!("cannot write manual pages to {shown}: {error}")))
}
