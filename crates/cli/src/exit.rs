//! How a run ends: 0 done, 1 the work failed, 2 wrong usage, 130 interrupted.

use std::io::Write;
use std::process::ExitCode;

/// Why a verb did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The work was understood and could not be done.
    #[error("{0}")]
    Work(String),
    /// The command line or an option's value makes no sense.
    #[allow(dead_code)]
    #[error("{0}")]
    Usage(String),
    /// A command was given nothing that it knows to work on: its help is what it has to say.
    #[error("see everflow {0} --help")]
    Help(String),
    /// Somebody pressed ^C; and what was stopped.
    #[error("interrupted: {0}")]
    Interrupted(String),
    /// What was compared differs, and that has been told.
    #[error("there are differences")]
    Differences,
    /// Something failed, and what it was has been told.
    #[error("something failed")]
    Reported,
}

impl Failure {
    /// Only the help of a command can be given, or of the program when the path is empty.
    pub fn help(path: impl Into<String>) -> Self {
        Failure::Help(path.into())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Failure::Work(error.to_string())
    }
}

/// Prints the failure to standard error and gives the exit code that belongs to it.
pub fn report(failure: &Failure) -> ExitCode {
    if let Failure::Differences | Failure::Reported = failure {
        return ExitCode::from(1);
    }
    if let Failure::Help(path) = failure {
        return help(path);
    }
    // A closed standard error leaves nobody to tell; the exit code still says it.
    let _ = writeln!(std::io::stderr(), "✗ {failure}");
    match failure {
        Failure::Work(_) | Failure::Differences | Failure::Reported | Failure::Help(_) => {
            ExitCode::from(1)
        }
        Failure::Usage(_) => ExitCode::from(2),
        // As shells have it: 128 and the number of the signal.
        Failure::Interrupted(_) => ExitCode::from(130),
    }
}

/// Prints the help of a command, which is not a failure to flux.
fn help(path: &str) -> ExitCode {
    let mut program = crate::args::program();
    program.build();
    let mut command = &mut program;
    for word in path.split_whitespace() {
        command = match command.find_subcommand_mut(word) {
            Some(next) => next,
            None => return ExitCode::SUCCESS,
        };
    }
    let _ = command.print_long_help();
    ExitCode::SUCCESS
}
