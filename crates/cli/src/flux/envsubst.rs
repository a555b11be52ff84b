//! `everflow envsubst`

use std::borrow::Cow;
use std::io::BufRead as _;

use everflow_limits::Budget;

use crate::exit::Failure;
use crate::output::print_text;

/// `everflow envsubst`
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Fail if a variable has neither a value nor a default
    #[arg(long)]
    strict: bool,
}

/// Runs the verb: each line of standard input with the values of the environment.
pub fn run(args: &Args) -> Result<(), Failure> {
    let values = |name: &str| match std::env::var(name) {
        Ok(value) => Some(Cow::Owned(value)),
        Err(_) if args.strict => None,
        Err(_) => Some(Cow::Borrowed("")),
    };
    let budget = Budget::unlimited();
    for line in std::io::stdin().lock().lines() {
        let line = everflow_envsubst::substitute(&line?, &values, &budget)
            .map_err(|error| Failure::Work(error.to_string()))?;
        print_text(&format!("{line}\n"))?;
    }
    Ok(())
}
