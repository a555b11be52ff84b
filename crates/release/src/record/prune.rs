//! Which records go when there are more than are wanted.

use super::Status;

/// The revisions to delete so that there is room for one more and at most `max_history` are left: the
/// oldest, except the last that is deployed. `max_history` 0 keeps all.
///
/// ```
/// use everflow_release::record::{Status, surplus};
/// let records = [(1, Status::Deployed), (2, Status::Failed), (3, Status::Failed), (4, Status::Failed)];
/// assert_eq!(surplus(&records, 3), [2, 3]);
/// assert!(surplus(&records, 0).is_empty());
/// ```
pub fn surplus(records: &[(i64, Status)], max_history: i64) -> Vec<i64> {
    let Ok(max) = usize::try_from(max_history) else {
        return Vec::new();
    };
    let Some(wanted) = max.checked_sub(1) else {
        return Vec::new();
    };
    let mut versions: Vec<i64> = records.iter().map(|(version, _)| *version).collect();
    versions.sort_unstable();
    let deployed = records
        .iter()
        .filter(|(_, status)| *status == Status::Deployed)
        .map(|(version, _)| *version)
        .max();
    let excess = versions.len().saturating_sub(wanted);
    versions
        .into_iter()
        .filter(|version| Some(*version) != deployed)
        .take(excess)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deployed_revision_stays_whatever_the_limit() {
        let records = [(1, Status::Deployed), (2, Status::Failed)];
        assert_eq!(surplus(&records, 1), [2]);
        assert!(surplus(&records[..1], 1).is_empty());
        assert_eq!(surplus(&records, 2), [2]);
        assert!(surplus(&records, 3).is_empty());
        assert!(surplus(&records, -1).is_empty());
    }

    #[test]
    fn the_oldest_go_first() {
        let records: Vec<(i64, Status)> = (1..=7)
            .rev()
            .map(|version| (version, Status::Superseded))
            .collect();
        assert_eq!(surplus(&records, 5), [1, 2, 3]);
    }
}
