//! The `everflow` program: one binary, one module per group of verbs.
//!
//! Everything that touches the terminal, the environment or the exit code lives in this crate; the
//! crates below it take data and return data.
#![forbid(unsafe_code)]

mod args;
mod audit;
mod build_limits;
mod cluster;
mod disk_view;
mod exit;
mod flux;
mod helm;
mod install;
mod kustomize;
mod kustomize_helm;
mod man;
mod notify;
mod output;
mod progress;
mod rescue;
mod run;
mod sim;
mod up;
mod version;

use clap::FromArgMatches as _;

use crate::args::{Cli, Verb};
use crate::exit::Failure;

fn main() -> std::process::ExitCode {
    let words = flux::usage::reordered(std::env::args_os());
    let mut program = args::program();
    let matches = program.try_get_matches_from_mut(words.clone());
    let matches = matches.and_then(|matches| {
        match flux::context_namespace::followed(&matches, words.clone()) {
            Some(words) => program.try_get_matches_from_mut(words),
            None => Ok(matches),
        }
    });
    let cli = matches.and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches));
    let cli = match cli {
        Ok(cli) => cli,
        Err(error) => match flux::usage::complaint(&error, &program, &words) {
            Some(failure) => return exit::report(&failure),
            None => error.exit(),
        },
    };
    match run(cli.verb) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(failure) => exit::report(&failure),
    }
}

fn run(verb: Verb) -> Result<(), Failure> {
    match verb {
        Verb::Adopt(args) => flux::adopt::run(&args),
        Verb::Audit(args) => audit::run(&args),
        Verb::Bootstrap(args) => flux::bootstrap::run(&args),
        Verb::Build(args) => flux::build::run(&args),
        Verb::Check(args) => flux::check::run(&args),
        Verb::Completion(args) => flux::completion::run(&args),
        Verb::Complete(args) => flux::completion::complete(&args),
        Verb::Crds(args) => run::print_definitions(&args),
        Verb::Debug(args) => flux::debug::run(&args),
        Verb::Create(args) => flux::create::run(&args),
        Verb::Delete(args) => flux::delete::run(&args),
        Verb::Envsubst(args) => flux::envsubst::run(&args),
        Verb::Events(args) => flux::events::run(&args),
        Verb::Export(args) => flux::export::run(&args),
        Verb::Get(args) => flux::get::run(&args),
        Verb::Install(args) => install::run(&args),
        Verb::List(args) => flux::artifact::list(&args),
        Verb::Logs(args) => flux::logs::run(&args),
        Verb::Man(args) => man::run(&args),
        Verb::Migrate(args) => flux::migrate::run(&args),
        Verb::Plugin(args) => flux::plugin::run(&args),
        Verb::Pull(args) => flux::artifact::pull(&args),
        Verb::Push(args) => flux::artifact::push(&args),
        Verb::Notify(args) => notify::run(&args),
        Verb::Trigger(args) => notify::trigger::run(&args),
        Verb::Reconcile(args) => flux::reconcile::run(&args),
        Verb::Release(args) => flux::release::run(&args),
        Verb::Rescue(args) => rescue::run(&args),
        Verb::Resume(args) => flux::suspend::resume(&args),
        Verb::Run(args) => run::run(&args),
        Verb::Sim(args) => sim::run(&args),
        Verb::Stats(args) => flux::stats::run(&args),
        Verb::Suspend(args) => flux::suspend::suspend(&args),
        Verb::Tag(args) => flux::artifact::tag(&args),
        Verb::Trace(args) => flux::trace::run(&args),
        Verb::Tree(args) => flux::tree::run(&args),
        Verb::Uninstall(args) => install::uninstall(&args),
        Verb::Cluster(args) => cluster::run(&args),
        Verb::Kustomize(args) => kustomize::run(&args),
        Verb::Helm(args) => helm::run(args),
        Verb::Diff(args) => up::diff::run(&args),
        Verb::Test(args) => up::test::run(&args),
        Verb::Up(args) => up::run(&args),
        Verb::Version(args) => version::run(&args),
    }
}
