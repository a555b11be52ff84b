//! The history of a Kustomization: what was applied lately, and how that ended.

use std::collections::BTreeMap;

use everflow_time::{Duration, Timestamp};

use crate::common::{Elapsed, INT64};

/// How many snapshots are kept.
pub const LONGEST_HISTORY: usize = 5;

record! {
    /// What was applied, when and with which outcome.
    pub struct Snapshot {
        /// The digest of what was applied.
        digest "digest": String,
        /// When it was applied first.
        first_reconciled "firstReconciled": Timestamp,
        /// When it was applied last.
        last_reconciled "lastReconciled": Timestamp,
        /// How long that took.
        last_reconciled_duration "lastReconciledDuration": Elapsed,
        /// How it ended.
        last_reconciled_status "lastReconciledStatus": String,
        /// How often it was applied.
        total_reconciliations "totalReconciliations": i64 [INT64, Required],
        /// The revisions it came from.
        metadata "metadata": BTreeMap<String, String>,
    }
}

/// How an attempt ended.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// The digest of what was applied.
    pub digest: String,
    /// When it ended.
    pub time: Timestamp,
    /// How long it took.
    pub duration: Duration,
    /// How it ended.
    pub status: String,
    /// The revisions it came from.
    pub metadata: BTreeMap<String, String>,
}

/// Notes an attempt: the snapshot with the same digest and outcome counts up and moves to the front,
/// or a new one is put there; the oldest beyond [`LONGEST_HISTORY`] go.
pub fn note(history: &mut Vec<Snapshot>, attempt: Attempt) {
    let same = |snapshot: &Snapshot| {
        snapshot.digest == attempt.digest && snapshot.last_reconciled_status == attempt.status
    };
    let mut snapshot = match history.iter().position(same) {
        Some(place) => history.remove(place),
        None => Snapshot {
            digest: attempt.digest.clone(),
            first_reconciled: attempt.time,
            last_reconciled_status: attempt.status.clone(),
            ..Snapshot::default()
        },
    };
    snapshot.last_reconciled = attempt.time;
    snapshot.last_reconciled_duration = Elapsed(attempt.duration);
    snapshot.total_reconciliations += 1;
    snapshot.metadata = attempt.metadata;
    history.insert(0, snapshot);
    history.truncate(LONGEST_HISTORY);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(digest: &str, status: &str, seconds: i64) -> Attempt {
        Attempt {
            digest: digest.into(),
            time: Timestamp::from_seconds(seconds),
            duration: Duration::from_seconds(1),
            status: status.into(),
            metadata: BTreeMap::new(),
        }
    }

    #[test]
    fn repeated_outcome_increments_its_entry_and_moves_it_first() {
        let mut history = Vec::new();
        note(&mut history, attempt("a", "Succeeded", 1));
        note(&mut history, attempt("b", "Succeeded", 2));
        note(&mut history, attempt("a", "Failed", 3));
        note(&mut history, attempt("a", "Succeeded", 4));
        let shown: Vec<(&str, &str, i64, i64)> = history
            .iter()
            .map(|snapshot| {
                let status = snapshot.last_reconciled_status.as_str();
                let first = snapshot.first_reconciled.seconds;
                (
                    snapshot.digest.as_str(),
                    status,
                    first,
                    snapshot.total_reconciliations,
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("a", "Succeeded", 1, 2),
                ("a", "Failed", 3, 1),
                ("b", "Succeeded", 2, 1)
            ]
        );
        for digest in ["c", "d", "e", "f"] {
            note(&mut history, attempt(digest, "Succeeded", 5));
        }
        assert_eq!(history.len(), LONGEST_HISTORY);
        assert_eq!(history[0].digest, "f");
    }
}
