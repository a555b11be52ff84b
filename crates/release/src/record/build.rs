//! Records of new revisions, as Helm and Flux make them.

use std::collections::BTreeMap;

use everflow_helm::release::{HookRecord, Info, Release, chart_record};
use everflow_helm::template::Rendered;
use everflow_json::Map;
use everflow_time::Timestamp;

use super::Status;

/// A revision that is to be made of a rendered chart.
#[derive(Debug, Clone)]
pub struct NewRecord<'a> {
    /// The release's name.
    pub name: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// The revision.
    pub version: i64,
    /// What the chart came to.
    pub rendered: &'a Rendered,
    /// The user's values.
    pub config: Map,
    /// Whether the server merges.
    pub server_side: bool,
    /// The user's labels of the revision before.
    pub labels: BTreeMap<String, String>,
    /// When the action begins.
    pub now: Timestamp,
}

/// The text that a record has for how its objects are applied.
pub(crate) fn apply_method(server_side: bool) -> String {
    match server_side {
        true => "ssa".to_owned(),
        false => "csa".to_owned(),
    }
}

/// The record of an install that begins.
pub fn first_record(new: NewRecord<'_>) -> Release {
    let now = new.now.to_string();
    new.record(Info {
        first_deployed: now.clone(),
        last_deployed: now,
        description: "Initial install underway".to_owned(),
        status: Status::PendingInstall.as_str().to_owned(),
        ..Info::default()
    })
}

/// The record of an upgrade that begins. `first_deployed` is the time in the record of the base.
pub fn next_record(new: NewRecord<'_>, first_deployed: &str) -> Release {
    let now = new.now.to_string();
    new.record(Info {
        first_deployed: first_deployed.to_owned(),
        last_deployed: now,
        description: "Preparing upgrade".to_owned(),
        status: Status::PendingUpgrade.as_str().to_owned(),
        ..Info::default()
    })
}

impl NewRecord<'_> {
    fn record(self, info: Info) -> Release {
        let rendered = self.rendered;
        Release {
            name: self.name.to_owned(),
            namespace: self.namespace.to_owned(),
            version: self.version,
            info: Info {
                notes: rendered.notes.clone(),
                ..info
            },
            chart: chart_record(&rendered.chart),
            config: self.config,
            manifest: rendered.manifest.clone(),
            hooks: rendered
                .hooks
                .iter()
                .cloned()
                .map(HookRecord::from)
                .collect(),
            apply_method: apply_method(self.server_side),
            labels: self.labels,
            ..Release::default()
        }
    }
}

/// The record of a rollback that begins: `target` once more, as the revision after `current`.
pub fn record_for_rollback(
    target: &Release,
    version: i64,
    first_deployed: &str,
    server_side: bool,
    now: Timestamp,
) -> Release {
    Release {
        version,
        info: Info {
            first_deployed: first_deployed.to_owned(),
            last_deployed: now.to_string(),
            description: format!("Rollback to {}", target.version),
            status: Status::PendingRollback.as_str().to_owned(),
            rollback_revision: target.version,
            notes: target.info.notes.clone(),
            ..Info::default()
        },
        apply_method: apply_method(server_side),
        ..target.clone()
    }
}

/// What an install with `replace` makes of the record that it replaces.
pub fn retire_replaced(release: &mut Release) {
    release.info.status = Status::Superseded.as_str().to_owned();
    release.info.description = "superseded by new release".to_owned();
}
