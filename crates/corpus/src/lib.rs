//! For tests only: where recordings of the real tools are, how known differences are kept, the real
//! tools themselves, and random and changed input for readers of foreign bytes.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

mod archives;
pub mod hostile;
mod random;
pub mod real;

pub use random::Random;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Recordings whose inputs are the trees of other projects: they are not in the repository.
const ELSEWHERE: &[&str] = &["kustomize"];

/// A file or directory of the recordings.
///
/// Looked for in `$EVERFLOW_CORPUS`, then in a `shared/corpus` beside or above the checkout, then in the archives
/// of this crate. `None`, with a line that says so, only for what is not in the repository and where
/// `$EVERFLOW_SKIP_RECORDINGS` is set.
///
/// # Panics
/// When there is no such recording: a test that holds nothing to account must not pass.
pub fn find(name: &str) -> Option<PathBuf> {
    let found = root().join(name);
    if found.exists() {
        return Some(found);
    }
    let elsewhere = ELSEWHERE.contains(&name.split('/').next().unwrap_or(name));
    if elsewhere || std::env::var_os("EVERFLOW_SKIP_RECORDINGS").is_some() {
        println!(
            "skipped: there are no recordings of {name}; set EVERFLOW_CORPUS to their directory"
        );
        return None;
    }
    panic!(
        "there are no recordings of {name} in {}; set EVERFLOW_CORPUS to a directory that has them, or \
         EVERFLOW_SKIP_RECORDINGS=1 to skip such tests",
        root().display()
    );
}

/// The directory of all recordings.
fn root() -> PathBuf {
    let given = std::env::var_os("EVERFLOW_CORPUS").map(PathBuf::from);
    let beside = || {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .ancestors()
            .map(|directory| directory.join("shared/corpus"))
            .find(|directory| directory.is_dir())
    };
    given
        .or_else(beside)
        .unwrap_or_else(|| archives::unpacked().to_owned())
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
