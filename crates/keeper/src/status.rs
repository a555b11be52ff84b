//! The status of a FluxInstance.

use std::collections::BTreeMap;

use everflow_api::condition::{self, Condition, ConditionStatus};
use everflow_api::error::At;
use everflow_api::history::{self, Attempt, Snapshot};
use everflow_api::inventory::{ObjectId, ResourceInventory, ResourceRef};
use everflow_api::names::condition as types;
use everflow_api::wire::Wire;
use everflow_api::{to_value, view};
use everflow_install::{Options, VERSION};
use everflow_json::{Value, json};
use everflow_time::{Duration, Timestamp};
use sha2::{Digest as _, Sha256};

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All is as asked for; the message.
    Ready(String),
    /// It is applied, and not all of it runs yet.
    Progressing(String),
    /// It is tried again.
    Failed(&'static str, String),
    /// It waits for a change.
    Stalled(&'static str, String),
}

impl Outcome {
    pub(crate) fn told(&self) -> (&'static str, &str) {
        match self {
            Outcome::Ready(message) => ("ReconciliationSucceeded", message),
            Outcome::Progressing(message) => ("Progressing", message),
            Outcome::Failed(reason, message) | Outcome::Stalled(reason, message) => {
                (reason, message)
            }
        }
    }

    fn conditions(&self) -> (ConditionStatus, Option<&'static str>) {
        match self {
            Outcome::Ready(_) => (ConditionStatus::True, None),
            Outcome::Progressing(_) => (ConditionStatus::Unknown, Some(types::RECONCILING)),
            Outcome::Failed(..) => (ConditionStatus::False, Some(types::RECONCILING)),
            Outcome::Stalled(..) => (ConditionStatus::False, Some(types::STALLED)),
        }
    }
}

/// What an attempt has found out.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) revision: String,
    pub(crate) inventory: Option<Vec<ResourceRef>>,
    pub(crate) is_applied: bool,
    pub(crate) components: Value,
    pub(crate) now: Timestamp,
    pub(crate) took: Duration,
}

/// The revision of objects: the version of the program and a digest of all of them.
pub(crate) fn revision(objects: &[Value]) -> String {
    let digest = Sha256::digest(everflow_install::to_yaml(objects).as_bytes());
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{VERSION}@sha256:{digest}")
}

/// The controllers that there are, all with one image.
pub(crate) fn components(options: &Options) -> Value {
    let image = options.image();
    let (image, digest) = match image.split_once('@') {
        Some((image, digest)) => (image.to_owned(), digest.to_owned()),
        None => (image, String::new()),
    };
    let (repository, tag) = match image.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => (repository.to_owned(), tag.to_owned()),
        _ => (image, String::new()),
    };
    let one = |name: &str| {
        let mut component = json!({"name": name, "repository": repository});
        for (field, text) in [("tag", &tag), ("digest", &digest)] {
            if !text.is_empty() {
                component[field] = json!(text);
            }
        }
        component
    };
    options
        .components
        .iter()
        .map(|component| one(component.name()))
        .collect::<Vec<_>>()
        .into()
}

/// What the last attempts have applied.
pub(crate) fn inventory(object: &Value) -> Vec<ResourceRef> {
    let stored = &object["status"]["inventory"];
    let read = ResourceInventory::read(stored, &At::Root);
    read.map(|inventory| inventory.entries).unwrap_or_default()
}

fn entries(inventory: &[ResourceRef]) -> Value {
    let entries: Vec<Value> = inventory.iter().map(to_value).collect();
    json!({"entries": entries})
}

/// What was applied before and what is to be applied now: nothing that an attempt leaves behind is forgotten, wherever it
/// ends.
pub(crate) fn united(before: &[ResourceRef], objects: &[Value]) -> Vec<ResourceRef> {
    let mut all = before.to_vec();
    for object in objects {
        let entry = entry(object);
        if !all.iter().any(|other| other.id == entry.id) {
            all.push(entry);
        }
    }
    all
}

/// An object in the inventory.
pub(crate) fn entry(object: &Value) -> ResourceRef {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let version = version.rsplit('/').next().unwrap_or_default();
    ResourceRef::new(&ObjectId::of(object), version)
}

/// The status with another inventory, and as it was otherwise.
pub(crate) fn with_inventory(object: &Value, inventory: &[ResourceRef]) -> Value {
    let mut status = object["status"].clone();
    if !status.is_object() {
        status = json!({});
    }
    status["inventory"] = entries(inventory);
    status
}

/// The whole status after an attempt.
pub(crate) fn status(object: &Value, facts: &Facts, outcome: &Outcome) -> Value {
    let mut status = object["status"].clone();
    if !status.is_object() {
        status = json!({});
    }
    let (reason, message) = outcome.told();
    let (ready, beside) = outcome.conditions();
    let generation = view::generation(object);
    let mut conditions =
        Vec::<Condition>::read(&status["conditions"], &At::Root).unwrap_or_default();
    for own in [types::RECONCILING, types::STALLED] {
        if beside != Some(own) {
            condition::remove(&mut conditions, own);
        }
    }
    let mut set = |name: &str, status| {
        let condition = Condition::new(name, status, reason, message);
        condition::set(&mut conditions, condition, generation, facts.now);
    };
    set(types::READY, ready);
    if let Some(name) = beside {
        set(name, ConditionStatus::True);
    }
    status["conditions"] = conditions.iter().map(to_value).collect::<Vec<_>>().into();
    if !facts.revision.is_empty() {
        status["lastAttemptedRevision"] = json!(facts.revision);
    }
    if let Some(inventory) = &facts.inventory {
        status["inventory"] = entries(inventory);
    }
    if facts.is_applied {
        status["components"] = facts.components.clone();
        status["lastAppliedRevision"] = json!(facts.revision);
    }
    if let Some(asked) = view::requested_at(object) {
        status["lastHandledReconcileAt"] = json!(asked);
    }
    if !matches!(outcome, Outcome::Progressing(_)) && !facts.revision.is_empty() {
        status["history"] = with_attempt(&status["history"], facts, reason);
    }
    status
}

fn with_attempt(stored: &Value, facts: &Facts, reason: &str) -> Value {
    let mut snapshots = Vec::<Snapshot>::read(stored, &At::Root).unwrap_or_default();
    let digest = facts.revision.rsplit('@').next().unwrap_or_default();
    let attempt = Attempt {
        digest: digest.to_owned(),
        time: facts.now,
        duration: facts.took,
        status: reason.to_owned(),
        metadata: BTreeMap::from([("flux".to_owned(), VERSION.to_owned())]),
    };
    history::note(&mut snapshots, attempt);
    snapshots.iter().map(to_value).collect::<Vec<_>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object() -> Value {
        json!({"metadata": {"generation": 3}, "status": {"other": 1}})
    }

    fn facts() -> Facts {
        Facts {
            revision: "v1@sha256:ab".into(),
            inventory: Some(Vec::new()),
            is_applied: true,
            components: json!([]),
            now: Timestamp::from_seconds(1_000),
            took: Duration::from_seconds(2),
        }
    }

    #[test]
    fn success_is_ready_for_the_generation_and_enters_the_history() {
        let status = status(&object(), &facts(), &Outcome::Ready("done".into()));
        let [ready] = &status["conditions"].as_array().unwrap()[..] else {
            panic!("{status}");
        };
        assert_eq!(ready["type"], "Ready");
        assert_eq!(ready["observedGeneration"], 3);
        assert_eq!(status["lastAppliedRevision"], "v1@sha256:ab");
        assert_eq!(status["history"][0]["digest"], "sha256:ab");
        assert_eq!(status["other"], 1);
    }

    #[test]
    fn a_failure_keeps_what_was_applied_and_a_later_success_takes_its_conditions_away() {
        let mut object = object();
        object["status"] = status(&object, &facts(), &Outcome::Ready("done".into()));
        let failed = Facts {
            revision: "v2@sha256:cd".into(),
            inventory: None,
            is_applied: false,
            ..facts()
        };
        let outcome = Outcome::Stalled("BuildFailed", "no".into());
        object["status"] = status(&object, &failed, &outcome);
        assert_eq!(object["status"]["lastAppliedRevision"], "v1@sha256:ab");
        assert_eq!(object["status"]["conditions"][0]["type"], "Stalled");
        object["status"] = status(&object, &facts(), &Outcome::Ready("done".into()));
        assert_eq!(object["status"]["conditions"].as_array().unwrap().len(), 1);
        assert_eq!(object["status"]["history"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn inventory_has_old_and_new_objects_before_the_apply() {
        let object = |name: &str| json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}});
        let before = [entry(&object("old")), entry(&object("same"))];
        let all = united(&before, &[object("same"), object("new")]);
        let ids: Vec<&str> = all.iter().map(|one| one.id.as_str()).collect();
        assert_eq!(
            ids,
            [
                "_old_apps_Deployment",
                "_same_apps_Deployment",
                "_new_apps_Deployment"
            ]
        );
        assert_eq!(all[2].version, "v1");
    }

    #[test]
    fn images_are_taken_apart() {
        let options = |image: &str| Options {
            image: image.into(),
            ..Options::default()
        };
        let first = |image: &str| components(&options(image))[0].clone();
        let whole = first("registry:5000/a/everflow:v1@sha256:ab");
        assert_eq!(whole["repository"], "registry:5000/a/everflow");
        assert_eq!(
            (whole["tag"].as_str(), whole["digest"].as_str()),
            (Some("v1"), Some("sha256:ab"))
        );
        assert!(first("registry:5000/everflow").get("tag").is_none());
    }
}
