//! Questions before something is done that cannot be taken back.

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use crate::exit::Failure;

/// Asks on standard error, and goes on only after a yes on standard input.
pub fn ask(question: &str) -> Result<(), Failure> {
    let mut out = std::io::stderr();
    // Nobody to ask says no below.
    let _ = write!(out, "? {question}? [y/N] ");
    let _ = out.flush();
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    if !std::io::stdin().is_terminal() {
        let _ = writeln!(out);
    }
    match (read, answer.trim()) {
        (Ok(_), "y" | "Y" | "yes") => Ok(()),
        _ => Err(Failure::Work("aborting".to_owned())),
    }
}
