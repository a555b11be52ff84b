//! `everflow helm …`: charts without a cluster.

mod chart_source;
mod source;
mod template;
mod values;

use clap::Subcommand;
use everflow_helm::Limits;

pub use chart_source::load as load_chart;
pub use source::SystemSource;

use crate::exit::Failure;

/// Enough for templates that include themselves as often as helm lets them.
pub const STACK_BYTES: usize = 256 << 20;

/// What templates may use up on such a stack; a quarter of it is left to the functions they call.
pub fn render_limits() -> Limits {
    Limits {
        stack_bytes: STACK_BYTES / 4 * 3,
        ..Limits::default()
    }
}

/// Arguments of `everflow helm`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Render a chart, as `helm template` does
    // Flags given twice are fine for helm: the last one counts.
    #[command(args_override_self = true)]
    Template(Box<template::Args>),
    /// Print what a chart holds
    #[command(subcommand)]
    Show(chart_source::Show),
}

/// Runs the verb.
pub fn run(args: Args) -> Result<(), Failure> {
    match args.verb {
        Verb::Template(args) => template::run(&args),
        Verb::Show(what) => chart_source::show(&what),
    }
}
