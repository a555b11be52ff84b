//! `everflow plugin`: there are none.

use clap::Subcommand;

use crate::exit::Failure;
use crate::output::print_text;

/// `everflow plugin`
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Subcommand, Debug)]
enum What {
    /// List the plugins that are installed: none can be
    #[command(visible_alias = "ls")]
    List,
    /// Not there
    Install(Words),
    /// Not there
    Search(Words),
    /// Not there
    #[command(visible_alias = "upgrade")]
    Update(Words),
    /// Not there
    #[command(visible_alias = "delete")]
    Uninstall(Words),
}

#[derive(clap::Args, Debug)]
struct Words {
    #[arg(value_name = "NAME", hide = true)]
    _words: Vec<String>,
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    match &args.what {
        None => Err(Failure::help("plugin")),
        Some(What::List) => print_text("No plugins found\n"),
        Some(_) => Err(Failure::Work(
            "this program has no plugins: programs that other people publish are run under their own \
             names"
                .to_owned(),
        )),
    }
}
