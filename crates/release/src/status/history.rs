//! The history of a HelmRelease: which revisions it remembers.

use everflow_api::condition::ConditionStatus;
use everflow_api::helm::{HelmRelease, ReleaseSnapshot, sort};
use everflow_api::names::condition::{RELEASED, TEST_SUCCESS};
use everflow_api::object::Object;

use crate::action::ActionKind;
use crate::record::{Status, Storage, Summary, snapshot, test_hooks};
use crate::state::made_for;

/// Takes records that an action has written into the history. The first is the one that the action is
/// about; further ones are those that it changed on the way.
pub fn observe(object: &mut Object<HelmRelease>, action: ActionKind, written: &[&Summary]) {
    let oci_digest = object.status.last_attempted_revision_digest.clone();
    for (place, record) in written.iter().enumerate() {
        let known = object
            .status
            .history
            .iter_mut()
            .find(|known| is_of(known, record));
        let is_new_revision = matches!(action, ActionKind::Install | ActionKind::Upgrade);
        let action = (!is_new_revision || place == 0).then(|| action.as_str());
        match known {
            Some(known) => {
                let oci_digest = known.oci_digest.clone();
                let tests = known.test_hooks.take();
                *known = snapshot(record, action, oci_digest.as_deref());
                known.test_hooks = tests;
            }
            None if place == 0
                && !matches!(action, Some("uninstall" | "uninstall-remediation")) =>
            {
                let oci_digest = oci_digest.as_deref().filter(|_| is_new_revision);
                object
                    .status
                    .history
                    .push(snapshot(record, action, oci_digest));
            }
            None => {}
        }
    }
    sort(&mut object.status.history);
}

fn is_of(snapshot: &ReleaseSnapshot, record: &Summary) -> bool {
    (&snapshot.name, &snapshot.namespace, snapshot.version)
        == (&record.name, &record.namespace, record.version)
}

/// Takes the tests of a record into the history.
pub(super) fn observe_tests(object: &mut Object<HelmRelease>, record: &Summary) {
    let test = object.spec.test.as_ref();
    let filters = test
        .and_then(|test| test.filters.clone())
        .unwrap_or_default();
    let Some(known) = object
        .status
        .history
        .iter_mut()
        .find(|known| is_of(known, record))
    else {
        return;
    };
    let (action, oci_digest) = (known.action.clone(), known.oci_digest.clone());
    *known = snapshot(record, action.as_deref(), oci_digest.as_deref());
    known.test_hooks = Some(test_hooks(record, &filters));
}

/// Makes the history anew from storage, for a release that is what is asked for and that the status does
/// not know. What was remembered of older revisions is kept where it is still true.
pub fn adopt_history(object: &mut Object<HelmRelease>, storage: &Storage) {
    let Ok(Some(last)) = storage.last() else {
        return;
    };
    let oci_digest = object.status.last_attempted_revision_digest.clone();
    let action = made_by(&last.summary);
    let mut current = snapshot(&last.summary, Some(action.as_str()), oci_digest.as_deref());
    let metadata = &object.metadata;
    let is_own = made_for(last) == Some((metadata.namespace(), metadata.name.as_str()));
    let tests = object.spec.test.clone().unwrap_or_default();
    let results = test_hooks(&last.summary, &tests.filters.unwrap_or_default());
    let is_over = results
        .values()
        .all(|test| matches!(test.phase.as_deref(), Some("Succeeded" | "Failed")));
    if tests.enable && is_own && is_over && !results.is_empty() {
        current.test_hooks = Some(results);
    }
    let history = &mut object.status.history;
    history.retain(|known| {
        known.version < current.version
            && storage
                .get(known.version)
                .is_some_and(|stored| is_of(known, &stored.summary))
    });
    for known in history.iter_mut() {
        let Some(stored) = storage.get(known.version) else {
            continue;
        };
        let tests = known.test_hooks.take();
        let oci_digest = known.oci_digest.clone();
        *known = snapshot(
            &stored.summary,
            known.action.as_deref(),
            oci_digest.as_deref(),
        );
        known.test_hooks = tests;
    }
    let (release, chart) = (current.full_name(), current.chart());
    history.push(current);
    sort(history);
    // What was told of another revision is told anew of this one.
    let own = format!("release {release} with chart {chart}");
    object.status.conditions.retain(|condition| {
        let is_told = matches!(condition.condition_type.as_str(), RELEASED | TEST_SUCCESS);
        !is_told || condition.status != ConditionStatus::True || condition.message.contains(&own)
    });
}

/// The action that made a revision, as its record tells.
pub(super) fn made_by(record: &Summary) -> ActionKind {
    // Helm 3 notes no revision that it went back to; both say so.
    let info = &record.info;
    if info.rollback_revision > 0 || info.description.starts_with("Rollback to ") {
        ActionKind::Rollback
    } else if record.version == 1
        || record.info.description == "Install complete"
        || record.status == Status::PendingInstall
    {
        ActionKind::Install
    } else {
        ActionKind::Upgrade
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::Defaults;
    use crate::status::settle;
    use everflow_api::condition::find;
    use everflow_api::names::condition::READY;
    use everflow_helm::release::{Info, Release, to_secret};
    use everflow_json::json;
    use everflow_time::Timestamp;

    #[test]
    fn event_of_a_release_unknown_to_the_status_has_its_revision_and_chart() {
        let said = |kind: &str| {
            json!({
                "type": kind, "status": "True", "reason": "InstallSucceeded",
                "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1,
                "message": "Helm install succeeded for release apps/web.v1 with chart app@1.0.0",
            })
        };
        // As helm 4 and helm 3 describe them.
        for (description, action) in [
            ("Upgrade complete", "upgrade"),
            ("Rollback to 1", "rollback"),
        ] {
            let mut object = Object::<HelmRelease>::read(&json!({
            "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
            "metadata": {"name": "web", "namespace": "apps", "generation": 1},
            "spec": {
                "interval": "5m",
                "chart": {"spec": {"chart": "app", "sourceRef": {"kind": "HelmRepository", "name": "charts"}}},
            },
            "status": {"conditions": [said("Ready"), said("Released")]},
        }))
        .unwrap();
            let secret = to_secret(&Release {
                name: "web".into(),
                namespace: "apps".into(),
                version: 2,
                info: Info {
                    status: "deployed".into(),
                    description: description.into(),
                    ..Info::default()
                },
                chart: json!({"metadata": {"name": "app", "version": "1.1.0"}}),
                ..Release::default()
            })
            .unwrap();
            adopt_history(&mut object, &Storage::of([&secret]));
            settle(&mut object, Defaults::default(), Timestamp::from_seconds(1));
            let ready = find(&object.status.conditions, READY).unwrap();
            let done =
                format!("Helm {action} succeeded for release apps/web.v2 with chart app@1.1.0");
            assert_eq!(ready.message, done);
        }
    }
}
