//! `everflow completion`, and what its scripts ask for.

mod candidates;

use clap::Subcommand;

pub use candidates::{WordsArgs, complete};

use crate::exit::Failure;
use crate::output::print_text;

/// `everflow completion`
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    shell: Option<Shell>,
}

#[derive(Subcommand, Debug)]
enum Shell {
    /// For bash: . <(everflow completion bash)
    Bash,
    /// For fish: everflow completion fish | source
    Fish,
    /// For PowerShell: everflow completion powershell | Out-String | Invoke-Expression
    Powershell,
    /// For zsh: . <(everflow completion zsh)
    Zsh,
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    let script = match &args.shell {
        None => return Err(Failure::help("completion")),
        Some(Shell::Bash) => include_str!("bash.sh"),
        Some(Shell::Fish) => include_str!("fish.fish"),
        Some(Shell::Powershell) => include_str!("powershell.ps1"),
        Some(Shell::Zsh) => include_str!("zsh.zsh"),
    };
    print_text(script)
}
