//! Errors of values that do not fit their schema.

use std::fmt;

use crate::fieldpath::PathElement;

/// One value that does not fit its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// Where, as in `.spec.containers[name="app"]`; empty for the object itself.
    pub path: String,
    /// What is wrong.
    pub message: String,
}

/// All values of a document that do not fit its schema.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FieldErrors(pub Vec<FieldError>);

impl FieldErrors {
    pub(crate) fn add(&mut self, message: impl Into<String>) {
        self.0.push(FieldError {
            path: String::new(),
            message: message.into(),
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes over the errors of what lies behind one step.
    pub(crate) fn add_below(&mut self, element: &PathElement, below: Self) {
        if below.0.is_empty() {
            return;
        }
        let prefix = element.to_string();
        self.0.extend(below.0.into_iter().map(|error| FieldError {
            path: format!("{prefix}{}", error.path),
            message: error.message,
        }));
    }

    pub(crate) fn into_result(self) -> Result<(), Self> {
        if self.is_empty() { Ok(()) } else { Err(self) }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.path, self.message)
        }
    }
}

/// One error alone, or several on lines below `errors:`.
impl fmt::Display for FieldErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return write!(f, "{only}");
        }
        f.write_str("errors:")?;
        self.0.iter().try_for_each(|error| write!(f, "\n  {error}"))
    }
}

impl std::error::Error for FieldErrors {}
