//! For tests only: where recordings of the real tools are, how known differences are kept, and the
//! real tools themselves.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

pub mod real;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A file or directory of the recordings.
///
/// Looked for in `$EVERFLOW_CORPUS`, then in a `shared/corpus` beside or above the checkout. When it
/// is not there one line says what is skipped, and the test passes.
pub fn find(name: &str) -> Option<PathBuf> {
    let found = std::env::var_os("EVERFLOW_CORPUS")
        .map(PathBuf::from)
        .or_else(|| {
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .ancestors()
                .map(|directory| directory.join("shared/corpus"))
                .find(|directory| directory.is_dir())
        })
        .map(|directory| directory.join(name))
        .filter(|path| path.exists());
    if found.is_none() {
        println!(
            "skipped: there are no recordings of {name}; set EVERFLOW_CORPUS to their directory"
        );
    }
    found
}

/// The outcome of a conformance run: how many cases there were and which of them differ, by id.
#[derive(Debug, Default)]
pub struct Outcome {
    total: usize,
    differences: BTreeMap<String, String>,
}

impl Outcome {
    /// Notes one case; `Err` holds what differs.
    pub fn record(&mut self, id: impl Into<String>, result: Result<(), String>) {
        self.total += 1;
        if let Err(difference) = result {
            self.differences.insert(id.into(), difference);
        }
    }

    /// How many cases ran.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Gives what is wrong with the run: cases that differ without being listed, and listed ones
    /// that do not differ any more. `known` has lines of the form `ID: why it differs`; empty lines
    /// and lines that begin with `#` do not count.
    ///
    /// # Errors
    /// Lists at most forty of them.
    pub fn check(&self, known: &str) -> Result<String, String> {
        let known: BTreeMap<&str, &str> = known
            .lines()
            .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
            .map(|line| line.split_once(": ").unwrap_or((line, "")))
            .collect();
        let mut wrong: Vec<String> = self
            .differences
            .iter()
            .filter(|(id, _)| !known.contains_key(id.as_str()))
            .map(|(id, difference)| format!("{id}: {difference}"))
            .collect();
        wrong.extend(
            known
                .keys()
                .filter(|id| !self.differences.contains_key(**id))
                .map(|id| format!("{id} is listed as a known difference but agrees")),
        );
        if wrong.is_empty() {
            let agree = self.total - self.differences.len();
            return Ok(format!("{agree} of {} cases agree", self.total));
        }
        let count = wrong.len();
        wrong.truncate(40);
        Err(format!(
            "{count} of {} cases are wrong:\n{}",
            self.total,
            wrong.join("\n")
        ))
    }

    /// As [`Outcome::check`], for a test: prints the count or fails.
    ///
    /// # Panics
    /// When something is wrong.
    pub fn assert(&self, known: &str) {
        match self.check(known) {
            Ok(summary) => println!("{summary}"),
            Err(report) => panic!("{report}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unlisted_differences_and_stale_entries_are_wrong() {
        let mut outcome = Outcome::default();
        outcome.record("a", Ok(()));
        outcome.record("b", Err("x".to_owned()));
        assert_eq!(
            outcome.check("# why\nb: reason\n").unwrap(),
            "1 of 2 cases agree"
        );
        assert!(outcome.check("").unwrap_err().contains("b: x"));
        assert!(
            outcome
                .check("a: r\nb: r\n")
                .unwrap_err()
                .contains("a is listed")
        );
    }
}
