//! The history of a release.

use std::collections::BTreeMap;

use everflow_time::Timestamp;

record! {
    /// How a test ended.
    pub struct TestHookStatus {
        /// When it began.
        last_started "lastStarted": Option<Timestamp>,
        /// When it ended.
        last_completed "lastCompleted": Option<Timestamp>,
        /// How it ended.
        phase "phase": Option<String>,
    }
}

record! {
    /// A release that was made.
    pub struct ReleaseSnapshot {
        /// The form of the digest.
        api_version "apiVersion": Option<String>,
        /// The digest of the record of the release.
        digest "digest": String,
        /// The name of the release.
        name "name": String,
        /// The namespace of the release.
        namespace "namespace": String,
        /// The revision of the release.
        version "version": i64 [Required],
        /// How the release stands.
        status "status": String,
        /// What was done.
        action "action": Option<String>,
        /// The name of the chart.
        chart_name "chartName": String,
        /// The version of the chart.
        chart_version "chartVersion": String,
        /// The version of what the chart installs.
        app_version "appVersion": Option<String>,
        /// The digest of the values.
        config_digest "configDigest": String,
        /// When the release was first made.
        first_deployed "firstDeployed": Timestamp,
        /// When this revision was made.
        last_deployed "lastDeployed": Timestamp,
        /// When the release was deleted.
        deleted "deleted": Option<Timestamp>,
        /// How the tests ended; empty when there were none to run.
        test_hooks "testHooks": Option<BTreeMap<String, TestHookStatus>>,
        /// The digest of the chart in the registry.
        oci_digest "ociDigest": Option<String>,
    }
}

/// How many snapshots are kept when none of them is one to go back to.
const LONGEST_HISTORY: usize = 5;

impl ReleaseSnapshot {
    /// `NAMESPACE/NAME.vVERSION`.
    pub fn full_name(&self) -> String {
        format!("{}/{}.v{}", self.namespace, self.name, self.version)
    }

    /// `NAME@VERSION` of the chart.
    pub fn chart(&self) -> String {
        format!("{}@{}", self.chart_name, self.chart_version)
    }

    /// Whether its tests ran to an end.
    pub fn has_been_tested(&self) -> bool {
        let Some(hooks) = &self.test_hooks else {
            return false;
        };
        let all_succeeded = hooks
            .values()
            .all(|hook| hook.phase.as_deref() == Some("Succeeded"));
        all_succeeded || self.has_failed_test()
    }

    /// Whether one of its tests failed.
    pub fn has_failed_test(&self) -> bool {
        let mut hooks = self.test_hooks.iter().flat_map(BTreeMap::values);
        hooks.any(|hook| hook.phase.as_deref() == Some("Failed"))
    }

    fn is_target(&self, ignore_tests: bool) -> bool {
        matches!(self.status.as_str(), "deployed" | "superseded")
            && (ignore_tests || !self.has_failed_test())
    }
}

/// Sorts snapshots, the newest first.
pub fn sort(history: &mut [ReleaseSnapshot]) {
    history.sort_by_key(|snapshot| std::cmp::Reverse(snapshot.version));
}

/// The newest snapshot.
pub fn latest(history: &[ReleaseSnapshot]) -> Option<&ReleaseSnapshot> {
    history.iter().max_by_key(|snapshot| snapshot.version)
}

/// The snapshot to go back to: the newest before the last that was deployed and whose tests did
/// not fail.
pub fn previous(history: &[ReleaseSnapshot], ignore_tests: bool) -> Option<&ReleaseSnapshot> {
    let newest = latest(history)?.version;
    history
        .iter()
        .filter(|snapshot| snapshot.version < newest && snapshot.is_target(ignore_tests))
        .max_by_key(|snapshot| snapshot.version)
}

/// Drops what is older than the snapshot to go back to, or beyond the five newest when there is
/// none.
pub fn truncate(history: &mut Vec<ReleaseSnapshot>, ignore_tests: bool) {
    sort(history);
    let target = previous(history, ignore_tests).map(|snapshot| snapshot.version);
    let place = history
        .iter()
        .position(|snapshot| Some(snapshot.version) == target);
    history.truncate(place.map_or(LONGEST_HISTORY, |place| place + 1));
}

/// Drops what is beyond the five newest.
pub fn truncate_to_newest(history: &mut Vec<ReleaseSnapshot>) {
    sort(history);
    history.truncate(LONGEST_HISTORY);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(version: i64, status: &str, phase: Option<&str>) -> ReleaseSnapshot {
        let hook = |phase: &str| TestHookStatus {
            phase: Some(phase.into()),
            ..TestHookStatus::default()
        };
        ReleaseSnapshot {
            version,
            status: status.into(),
            test_hooks: phase.map(|phase| BTreeMap::from([("t".to_owned(), hook(phase))])),
            ..ReleaseSnapshot::default()
        }
    }

    fn versions(history: &[ReleaseSnapshot]) -> Vec<i64> {
        history.iter().map(|snapshot| snapshot.version).collect()
    }

    #[test]
    fn tests_ran_when_all_succeeded_or_one_failed() {
        assert!(!snapshot(1, "deployed", None).has_been_tested());
        assert!(!snapshot(1, "deployed", Some("Running")).has_been_tested());
        assert!(snapshot(1, "deployed", Some("Succeeded")).has_been_tested());
        assert!(snapshot(1, "deployed", Some("Failed")).has_been_tested());
        let mut none = snapshot(1, "deployed", None);
        none.test_hooks = Some(BTreeMap::new());
        assert!(none.has_been_tested());
    }

    #[test]
    fn rollback_target_is_kept_and_older_snapshots_are_dropped() {
        let history = vec![
            snapshot(1, "superseded", None),
            snapshot(4, "failed", None),
            snapshot(3, "superseded", Some("Failed")),
            snapshot(2, "superseded", None),
        ];
        assert_eq!(latest(&history).map(|found| found.version), Some(4));
        assert_eq!(
            previous(&history, false).map(|found| found.version),
            Some(2)
        );
        assert_eq!(previous(&history, true).map(|found| found.version), Some(3));
        let mut kept = history.clone();
        truncate(&mut kept, false);
        assert_eq!(versions(&kept), [4, 3, 2]);
        let mut failed: Vec<_> = (1..8)
            .map(|version| snapshot(version, "failed", None))
            .collect();
        truncate(&mut failed, false);
        assert_eq!(versions(&failed), [7, 6, 5, 4, 3]);
        assert_eq!(previous(&failed, true), None);
        assert_eq!(previous(&history[..1], true), None);
    }
}
