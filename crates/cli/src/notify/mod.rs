//! The verbs for notifications and webhooks: `everflow notify` and `everflow trigger`.

mod test;
pub mod trigger;

use clap::Subcommand;

use crate::exit::Failure;

/// `everflow notify`
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Send one message to a Provider and print its response
    Test(test::Args),
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    match &args.verb {
        Verb::Test(args) => test::run(args),
    }
}
