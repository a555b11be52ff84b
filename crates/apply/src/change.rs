//! What was done to objects.

use std::fmt;

use crate::inventory::Entry;

/// What was done to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// It was not there.
    Created,
    /// It was changed.
    Configured,
    /// It was as asked for.
    Unchanged,
    /// It, or a label or an annotation on it, asks to be left alone.
    Skipped,
    /// It was deleted, or was gone.
    Deleted,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Action::Created => "created",
            Action::Configured => "configured",
            Action::Unchanged => "unchanged",
            Action::Skipped => "skipped",
            Action::Deleted => "deleted",
        })
    }
}

/// What was done to one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Which object, as the server knows it.
    pub entry: Entry,
    /// What was done.
    pub action: Action,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.entry.id.subject(), self.action)
    }
}

/// Changes, one on each line; those that are not worth a word are left out.
pub fn log<'c>(
    changes: impl IntoIterator<Item = &'c Change>,
    worth: impl Fn(Action) -> bool,
) -> String {
    let lines: Vec<String> = changes
        .into_iter()
        .filter(|change| worth(change.action))
        .map(Change::to_string)
        .collect();
    lines.join("\n")
}
