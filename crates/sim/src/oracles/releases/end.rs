//! How releases stand when everything is well again.

use everflow_api::condition::is_true;
use everflow_api::helm::HelmRelease;
use everflow_api::names::condition::READY;
use everflow_api::object::Object;
use everflow_cluster::store::Store;
use everflow_release::record::Status;

use super::record::{HELM_RELEASES, Record, Records, of_object};
use crate::oracles::Finding;
use crate::shared::Shared;

/// Looks at all releases: Ready says what storage says, and nothing is left in the middle.
pub(crate) fn at_the_end(shared: &Shared) -> Vec<Finding> {
    let Some(server) = shared.server() else {
        return Vec::new();
    };
    let at = shared.history.now();
    let store = server.store();
    let mut records = Records::default();
    let mut found = Vec::new();
    let mut note = |oracle: &'static str, text: String| found.push(Finding { oracle, at, text });
    for record in records.list(store, "", "") {
        if record.status.is_in_progress() {
            let text = format!("{} is left {}", record.secret, record.status);
            note("nothing is left pending", text);
        }
    }
    for stored in store.list(HELM_RELEASES, "", None, 0).items {
        let Ok(object) = Object::<HelmRelease>::read(&stored.value) else {
            continue;
        };
        if object.spec.suspend || object.metadata.is_deleted() {
            continue;
        }
        let all = of_object(&mut records, store, &object);
        let deployed = all
            .iter()
            .filter(|record| record.status == Status::Deployed);
        if deployed.count() > 1 {
            let text = format!(
                "{} has two revisions that are deployed",
                object.metadata.name
            );
            note("one revision is deployed", text);
        }
        let newest = all.last();
        let is_ready = is_true(&object.status.conditions, READY);
        let name = format!("{}/{}", object.metadata.namespace(), object.metadata.name);
        match (is_ready, newest) {
            (true, None) => note(
                "Ready is true",
                format!("{name} is Ready, and storage has no release"),
            ),
            (true, Some(newest)) => {
                if let Some(flaw) = flaw(store, &object, newest) {
                    note("Ready is true", format!("{name} is Ready, and {flaw}"));
                }
            }
            (false, Some(newest)) if should_be_ready(store, &object, newest) => note(
                "Ready is true",
                format!(
                    "{name} is not Ready, and {} is deployed and in sync",
                    newest.secret
                ),
            ),
            _ => {}
        }
    }
    found
}

/// What keeps a release from being what a HelmRelease asks for.
fn flaw(store: &Store, object: &Object<HelmRelease>, newest: &Record) -> Option<String> {
    if newest.status != Status::Deployed {
        return Some(format!("{} is {}", newest.secret, newest.status));
    }
    if newest.progress.is_some() {
        return Some(format!(
            "something is noted to be under way on {}",
            newest.secret
        ));
    }
    if let Some(version) = chart_version(store, object)
        && version != newest.chart_version
    {
        return Some(format!("{} has not the chart {version}", newest.secret));
    }
    let tables = store.tables();
    let missing = newest.objects.iter().find(|id| {
        let keys = [format!("{}/{}", id.namespace, id.name), id.name.clone()];
        let mut tables = tables.iter();
        !tables.any(|table| {
            let of_group = table.split('/').next() == Some(id.group.as_str());
            of_group
                && keys.iter().any(|key| {
                    let found = store.get(table, key);
                    found.is_some_and(|found| found.value["kind"] == id.kind.as_str())
                })
        })
    });
    missing.map(|id| format!("{} {} of {} is not there", id.kind, id.name, newest.secret))
}

/// The version of the chart that is asked for, where that is a HelmChart of its own that is ready.
fn chart_version(store: &Store, object: &Object<HelmRelease>) -> Option<String> {
    let chart = object.status.helm_chart.as_deref()?;
    let chart = store.get("source.toolkit.fluxcd.io/helmcharts", chart)?;
    let revision = chart.value.pointer("/status/artifact/revision")?.as_str()?;
    Some(revision.to_owned())
}

/// Whether nothing is left that could keep a HelmRelease from being Ready.
fn should_be_ready(store: &Store, object: &Object<HelmRelease>, newest: &Record) -> bool {
    let own = (
        object.metadata.namespace().to_owned(),
        object.metadata.name.clone(),
    );
    let status = &object.status;
    object.spec.test.is_none()
        && object.spec.depends_on.is_empty()
        && !newest.is_rollback
        && newest.made_for == Some(own)
        && status.last_attempted_config_digest.as_deref() == Some(newest.config.as_str())
        && chart_version(store, object).as_deref() == Some(newest.chart_version.as_str())
        && flaw(store, object, newest).is_none()
}
