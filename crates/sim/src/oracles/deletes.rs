//! Nothing is deleted that some source still names.
//!
//! What may be deleted, and after which action of a user, is known from the run without faults.

use std::collections::BTreeMap;

use super::{Commit, Finding};

/// What replicas deleted, and what they may.
#[derive(Debug, Default)]
pub struct Deletions {
    /// Table and key of what was deleted, and how many actions users had taken by then.
    pub seen: BTreeMap<(String, String), usize>,
    allowed: Option<BTreeMap<(String, String), usize>>,
}

impl Deletions {
    /// With what may be deleted; everything when nothing is said.
    pub fn new(allowed: Option<BTreeMap<(String, String), usize>>) -> Self {
        Deletions {
            seen: BTreeMap::new(),
            allowed,
        }
    }

    pub(super) fn commit(&mut self, commit: &Commit<'_>, deeds: usize) -> Option<Finding> {
        let old = commit.old?;
        let going = |object: &serde_json::Value| !object["metadata"]["deletionTimestamp"].is_null();
        if going(old) || commit.new.is_some_and(|new| !going(new)) {
            return None;
        }
        let place = (commit.table.to_owned(), commit.key.to_owned());
        self.seen.entry(place.clone()).or_insert(deeds);
        let allowed = self.allowed.as_ref()?;
        let why = match allowed.get(&place) {
            None => "which no run without faults ever does".to_owned(),
            Some(needed) if deeds < *needed => {
                format!("before what the users did to allow it (action {needed})")
            }
            Some(_) => return None,
        };
        let text = format!("{} deletes {}, {why}", commit.who, commit.name());
        Some(commit.finding("no wrong delete", text))
    }
}
