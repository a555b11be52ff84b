//! `everflow helm …`: charts without a cluster.

mod chart_source;
mod lint;
mod source;
mod stack;
mod template;
mod values;
mod work;

pub use chart_source::go_reason;

use clap::Subcommand;

pub use chart_source::{load as load_chart, print_warnings};
pub use source::SystemSource;
pub use stack::{STACK_BYTES, render_limits};
pub use work::default_budget;

use crate::exit::Failure;

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
    /// Check charts for possible problems, as `helm lint` does
    #[command(args_override_self = true)]
    Lint(Box<lint::Args>),
    /// Print the contents of a chart
    #[command(subcommand)]
    Show(chart_source::Show),
}

/// Runs the verb.
pub fn run(args: Args) -> Result<(), Failure> {
    match args.verb {
        Verb::Template(args) => template::run(&args),
        Verb::Lint(args) => lint::run(&args),
        Verb::Show(what) => chart_source::show(&what),
    }
}
