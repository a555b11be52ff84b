//! `everflow man`: the manual pages of all commands, from the definitions that `--help` is made of.

mod markdown;

use std::path::PathBuf;

use crate::exit::Failure;

/// `everflow man`
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The directory to write them to, which must exist
    #[arg(value_name = "DIR", default_value = ".")]
    directory: PathBuf,

    /// Write Markdown instead: a page for each verb, and README.md, which lists them
    #[arg(long)]
    markdown: bool,
}

/// Writes one page for each command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let shown = args.directory.display();
    if args.markdown {
        return markdown::pages(crate::args::program())
            .into_iter()
            .try_for_each(|(name, text)| std::fs::write(args.directory.join(name), text))
            .map_err(|error| Failure::Work(format!("cannot write pages to {shown}: {error}")));
    }
    clap_mangen::generate_to(crate::args::program(), &args.directory)
        .map_err(|error| Failure::Work(format!("cannot write manual pages to {shown}: {error}")))
}
