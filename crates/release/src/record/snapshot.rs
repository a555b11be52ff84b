//! What a HelmRelease remembers of a revision.

use std::collections::BTreeMap;

use everflow_api::helm::{ReleaseSnapshot, TestFilter, TestHookStatus};
use everflow_time::Timestamp;

use super::Summary;

/// The form of the digest in snapshots that Flux and we write.
const API_VERSION: &str = "v2";

/// The snapshot of a revision. `action` is what was done last to it; `oci_digest` is that of the
/// chart's artifact, where it comes from an OCIRepository.
pub fn snapshot(
    record: &Summary,
    action: Option<&str>,
    oci_digest: Option<&str>,
) -> ReleaseSnapshot {
    let oci_digest = oci_digest.filter(|digest| !digest.is_empty());
    let optional = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    ReleaseSnapshot {
        api_version: optional(API_VERSION),
        digest: record.digest(oci_digest),
        name: record.name.clone(),
        namespace: record.namespace.clone(),
        version: record.version,
        status: record.status.as_str().to_owned(),
        action: action.map(str::to_owned),
        chart_name: record.chart_name.clone(),
        chart_version: record.chart_version.clone(),
        app_version: optional(&record.app_version),
        config_digest: record.config_digest.clone(),
        first_deployed: time(&record.info.first_deployed).unwrap_or_default(),
        last_deployed: time(&record.info.last_deployed).unwrap_or_default(),
        deleted: time(&record.info.deleted),
        oci_digest: oci_digest.map(str::to_owned),
        ..ReleaseSnapshot::default()
    }
}

/// Whether a snapshot tells of this state of this record. A snapshot in an older form is taken at its
/// word, as Flux takes it.
pub fn is_observed(snapshot: &ReleaseSnapshot, record: &Summary) -> bool {
    snapshot.api_version.as_deref() != Some(API_VERSION)
        || snapshot.digest == record.digest(snapshot.oci_digest.as_deref())
}

/// How the tests of a record went, for those that the filters select.
pub fn test_hooks(record: &Summary, filters: &[TestFilter]) -> BTreeMap<String, TestHookStatus> {
    let tests = record.hooks.iter().filter(|hook| hook.is_test());
    tests
        .filter(|hook| selects(filters, &hook.name))
        .map(|hook| {
            let status = TestHookStatus {
                last_started: time(&hook.started_at),
                last_completed: time(&hook.completed_at),
                phase: Some(hook.phase.clone()).filter(|phase| !phase.is_empty()),
                ..TestHookStatus::default()
            };
            (hook.name.clone(), status)
        })
        .collect()
}

/// Whether filters select a hook: it is not excluded, and it is included or nothing is.
pub(crate) fn selects(filters: &[TestFilter], name: &str) -> bool {
    let named = |exclude: bool| {
        filters
            .iter()
            .any(|filter| filter.exclude == exclude && filter.name == name)
    };
    let includes = filters.iter().any(|filter| !filter.exclude);
    !named(true) && (!includes || named(false))
}

fn time(text: &str) -> Option<Timestamp> {
    Timestamp::parse(text).map(Timestamp::truncated)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(name: &str, exclude: bool) -> TestFilter {
        TestFilter {
            name: name.into(),
            exclude,
            ..TestFilter::default()
        }
    }

    #[test]
    fn filters_include_by_name_and_exclude_before_that() {
        assert!(selects(&[], "a"));
        assert!(selects(&[filter("b", true)], "a"));
        assert!(!selects(&[filter("a", true)], "a"));
        assert!(!selects(&[filter("b", false)], "a"));
        assert!(selects(&[filter("b", false), filter("a", false)], "a"));
        assert!(!selects(&[filter("a", false), filter("a", true)], "a"));
    }
}
