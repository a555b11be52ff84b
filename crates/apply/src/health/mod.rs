//! Whether an object is what its spec asks for.
//!
//! The rules are kstatus': first what all kinds share (deletion, generations, `Reconciling` and
//! `Stalled`), then those of the kind, then a `Ready` condition; what shows none of these counts
//! as done.

pub mod causes;
pub mod custom;
mod fields;
mod workloads;

use std::fmt;

use everflow_json::Value;
use everflow_time::Timestamp;

use crate::object::GroupKind;
use fields::Fields;

/// How far an object has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// On its way.
    InProgress,
    /// Will not come without a change.
    Failed,
    /// As its spec asks for.
    Current,
    /// Being deleted.
    Terminating,
    /// Not there.
    NotFound,
    /// Cannot be told.
    Unknown,
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// How far an object has come, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assessment {
    /// How far.
    pub health: Health,
    /// A stable word for the reason; empty for an object that is done.
    pub reason: String,
    /// Why, in words.
    pub message: String,
}

impl Assessment {
    fn current(message: impl Into<String>) -> Self {
        Assessment {
            health: Health::Current,
            reason: String::new(),
            message: message.into(),
        }
    }

    fn in_progress(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Assessment {
            health: Health::InProgress,
            reason: reason.into(),
            message: message.into(),
        }
    }

    fn failed(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Assessment {
            health: Health::Failed,
            reason: reason.into(),
            message: message.into(),
        }
    }
}

/// Assesses a live object. `now` tells how long a Pod has waited for a node.
pub fn assess(object: &Value, now: Timestamp) -> Assessment {
    let fields = Fields(object);
    let kind = fields.text("/kind").unwrap_or_default();
    let group = GroupKind::new(fields.text("/apiVersion").unwrap_or_default(), kind).group;
    // A Job counts as done only at its end, and its generations do not matter.
    if (group.as_str(), kind) == ("batch", "Job") {
        return workloads::job(fields);
    }
    if let Some(assessment) = common(fields) {
        return assessment;
    }
    match (group.as_str(), kind) {
        ("", "Service") => workloads::service(fields),
        ("", "Pod") => workloads::pod(fields, now),
        ("", "Secret" | "ConfigMap") | ("batch", "CronJob") => {
            Assessment::current("Resource is always ready")
        }
        ("", "PersistentVolumeClaim") => workloads::claim(fields),
        ("apps", "StatefulSet") => workloads::stateful_set(fields),
        ("apps" | "extensions", "DaemonSet") => workloads::daemon_set(fields),
        ("apps" | "extensions", "Deployment") => workloads::deployment(fields),
        ("apps" | "extensions", "ReplicaSet") => workloads::replica_set(fields),
        ("policy", "PodDisruptionBudget") => {
            Assessment::current("AllowedDisruptions has been computed.")
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => workloads::definition(fields),
        _ => ready(fields).unwrap_or_else(|| Assessment::current("Resource is current")),
    }
}

/// What all kinds share.
fn common(fields: Fields<'_>) -> Option<Assessment> {
    if fields
        .text("/metadata/deletionTimestamp")
        .is_some_and(|time| !time.is_empty())
    {
        return Some(Assessment {
            health: Health::Terminating,
            reason: String::new(),
            message: "Resource scheduled for deletion".to_owned(),
        });
    }
    let generation = fields.number("/metadata/generation");
    let observed = fields.number("/status/observedGeneration");
    if let (Some(generation), Some(observed)) = (generation, observed)
        && generation != observed
    {
        let kind = fields.text("/kind").unwrap_or_default();
        let message = format!(
            "{kind} generation is {generation}, but latest observed generation is {observed}"
        );
        return Some(Assessment::in_progress(
            "LatestGenerationNotObserved",
            message,
        ));
    }
    fields
        .conditions()
        .find_map(|condition| match (condition.kind, condition.status) {
            ("Reconciling", "True") => {
                Some(Assessment::in_progress(condition.reason, condition.message))
            }
            ("Stalled", "True") => Some(Assessment::failed(condition.reason, condition.message)),
            _ => None,
        })
}

/// What a `Ready` condition says.
fn ready(fields: Fields<'_>) -> Option<Assessment> {
    let mut conditions = fields
        .conditions()
        .filter(|condition| condition.kind == "Ready");
    conditions.find_map(|condition| match condition.status {
        "True" => Some(Assessment::current("Resource is Ready")),
        "False" | "Unknown" => Some(Assessment::in_progress(condition.reason, condition.message)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use everflow_json::json;

    fn assessed(object: Value) -> (Health, String) {
        let assessment = assess(&object, Timestamp::from_seconds(1_000));
        (assessment.health, assessment.message)
    }

    fn custom(status: Value) -> Value {
        let metadata = json!({"name": "one", "generation": 2});
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "status": status})
    }

    #[test]
    fn kind_without_health_rules_is_current_unless_its_status_says_otherwise() {
        assert_eq!(assessed(custom(json!({}))).0, Health::Current);
        let old = assessed(custom(json!({"observedGeneration": 1})));
        let message = "Widget generation is 2, but latest observed generation is 1";
        assert_eq!(old, (Health::InProgress, message.to_owned()));
        let with = |kind: &str, status: &str| {
            let condition =
                json!({"type": kind, "status": status, "reason": "Why", "message": "m"});
            assessed(custom(
                json!({"observedGeneration": 2, "conditions": [condition]}),
            ))
        };
        assert_eq!(with("Ready", "True").0, Health::Current);
        assert_eq!(with("Ready", "False"), (Health::InProgress, "m".to_owned()));
        assert_eq!(with("Ready", "Unknown").0, Health::InProgress);
        assert_eq!(with("Reconciling", "True").0, Health::InProgress);
        assert_eq!(with("Stalled", "True"), (Health::Failed, "m".to_owned()));
        assert_eq!(with("Other", "False").0, Health::Current);
    }

    #[test]
    fn object_with_deletion_timestamp_is_terminating() {
        let metadata = json!({"name": "one", "deletionTimestamp": "2026-01-01T00:00:00Z"});
        let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata});
        assert_eq!(assessed(object).0, Health::Terminating);
    }
}
