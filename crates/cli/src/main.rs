//! The `everflow` program: one binary, one module per group of verbs.
//!
//! Everything that touches the terminal, the environment or the exit code lives in this crate; the
//! crates below it take data and return data.
#![forbid(unsafe_code)]

mod args;
mod build_limits;
mod cluster;
mod disk_view;
mod exit;
mod flux;
mod helm;
mod kustomize;
mod kustomize_helm;
mod notify;
mod output;
mod run;
mod sim;
mod up;
mod version;

use clap::Parser;

use crate::args::{Cli, Verb};
use crate::exit::Failure;

fn main() -> std::process::ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let verb = std::env::args().nth(1);
            match flux::usage::complaint(&error, verb.as_deref()) {
                Some(text) => return exit::report(&Failure::Work(text)),
                None => error.exit(),
            }
        }
    };
    match run(cli.verb) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(failure) => exit::report(&failure),
    }
}

fn run(verb: Verb) -> Result<(), Failure> {
    match verb {
        Verb::Build(args) => flux::build::run(&args),
        Verb::Crds(args) => run::print_definitions(&args),
        Verb::Debug(args) => flux::debug::run(&args),
        Verb::Events(args) => flux::events::run(&args),
        Verb::Get(args) => flux::get::run(&args),
        Verb::Logs(args) => flux::logs::run(&args),
        Verb::Notify(args) => notify::run(&args),
        Verb::Trigger(args) => notify::trigger::run(&args),
        Verb::Reconcile(args) => flux::reconcile::run(&args),
        Verb::Resume(args) => flux::suspend::resume(&args),
        Verb::Run(args) => run::run(&args),
        Verb::Sim(args) => sim::run(&args),
        Verb::Suspend(args) => flux::suspend::suspend(&args),
        Verb::Tree(args) => flux::tree::run(&args),
        Verb::Cluster(args) => cluster::run(&args),
        Verb::Kustomize(args) => kustomize::run(&args),
        Verb::Helm(args) => helm::run(args),
        Verb::Diff(args) => up::diff::run(&args),
        Verb::Test(args) => up::test::run(&args),
        Verb::Up(args) => up::run(&args),
        Verb::Version(args) => version::run(&args),
    }
}
