//! Nothing is deleted that some source still names.
//!
//! What may be deleted, and after which action of a user, is known from the run without faults.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Commit, Finding, lately_restored};
use crate::shared::Shared;

/// What replicas deleted, and what they may.
#[derive(Debug, Default)]
pub struct Deletions {
    /// Table and key of what was deleted, and how many actions users had taken by then.
    pub seen: BTreeMap<(String, String), usize>,
    allowed: Option<BTreeMap<(String, String), usize>>,
    /// When replicas made what there is.
    made: BTreeMap<(String, String), Duration>,
}

impl Deletions {
    /// With what may be deleted; everything when nothing is said.
    pub fn new(allowed: Option<BTreeMap<(String, String), usize>>) -> Self {
        Deletions {
            seen: BTreeMap::new(),
            allowed,
            made: BTreeMap::new(),
        }
    }

    fn is_made_since(&self, shared: &Shared, place: &(String, String)) -> bool {
        let restored = shared.state().restored;
        self.made.get(place).copied() >= restored
    }

    pub(super) fn commit(&mut self, shared: &Shared, commit: &Commit<'_>) -> Option<Finding> {
        let deeds = shared.state().deeds;
        let place = (commit.table.to_owned(), commit.key.to_owned());
        let Some(old) = commit.old else {
            self.made.insert(place, commit.at);
            return None;
        };
        let going =
            |object: &everflow_json::Value| !object["metadata"]["deletionTimestamp"].is_null();
        if going(old) || commit.new.is_some_and(|new| !going(new)) {
            return None;
        }
        self.seen.entry(place.clone()).or_insert(deeds);
        let allowed = self.allowed.as_ref()?;
        if lately_restored(shared, commit.at) && self.is_made_since(shared, &place) {
            // It was made from what a restored cluster has forgotten, and holds nothing older.
            return None;
        }
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
