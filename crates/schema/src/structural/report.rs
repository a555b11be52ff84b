//! What checking a value has found so far.

use super::field_error::FieldError;

/// Errors in the order found, and how many checks matched: of several alternatives that all
/// fail, the one with most matches tells its errors.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) errors: Vec<Finding>,
    pub(super) matches: u32,
}

/// An error and the text by which it is the same as another.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) text: String,
    pub(super) error: FieldError,
}

impl Report {
    /// Adds an error unless its text was reported before.
    pub(super) fn add(&mut self, text: impl Into<String>, error: FieldError) {
        let text = text.into();
        if self.errors.iter().all(|known| known.text != text) {
            self.errors.push(Finding { text, error });
        }
    }

    /// Adds what another check has found.
    pub(super) fn merge(&mut self, other: Report) {
        self.matches += other.matches;
        for finding in other.errors {
            self.add(finding.text, finding.error);
        }
    }

    pub(super) fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }
}
