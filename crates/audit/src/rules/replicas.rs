//! One replica, replicas that nothing keeps apart, no budget, no requests.

use everflow_json::{Value, json};

use super::finding;
use crate::finding::{Change, Finding, Rule, Severity};
use crate::model::{Critical, Model};
use crate::placement::HOST;
use crate::selector::selects;

pub(super) fn find(model: &Model, critical: &[Critical<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for workload in critical {
        findings.extend(best_effort(workload));
        if workload.is_daemon_set() {
            continue;
        }
        match workload.replicas() {
            1 => findings.push(single(workload)),
            _ => {
                findings.extend(no_spread(workload));
                findings.extend(no_budget(model, workload));
            }
        }
    }
    findings
}

fn subjects(workload: &Critical<'_>) -> Vec<String> {
    vec![workload.id.to_string()]
}

/// A soft constraint that spreads a workload's pods over the nodes.
pub(super) fn spread(workload: &Critical<'_>) -> Change {
    let constraint = json!({
        "maxSkew": 1,
        "topologyKey": HOST,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": workload.selector().clone(),
    });
    let patch =
        json!({"spec": {"template": {"spec": {"topologySpreadConstraints": [constraint]}}}});
    Change::Patch(workload.id.clone(), patch)
}

fn budget(workload: &Critical<'_>) -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": workload.id.name, "namespace": workload.id.namespace},
        "spec": {"maxUnavailable": 1, "selector": workload.selector().clone()},
    })
}

fn single(workload: &Critical<'_>) -> Finding {
    let message = format!(
        "{} ({}) has one replica: it is away whenever its node is",
        workload.shown(),
        workload.role.carries
    );
    let remedy = "look in its documentation whether it may have two replicas: what keeps its state on a volume, \
                  or is never ready as a standby (Flux's source-controller), may not";
    let mut found = finding(
        Rule::SingleReplica,
        Severity::Warning,
        subjects(workload),
        message,
        remedy,
    );
    if may_have_two(workload) {
        let Change::Patch(id, mut patch) = spread(workload) else {
            return found;
        };
        patch["spec"]["replicas"] = 2.into();
        // A second replica without a budget would be a finding of its own.
        found.changes = vec![Change::Patch(id, patch), Change::Add(budget(workload))];
    }
    found
}

/// Whether a second replica is known to do no harm. A standby that is never ready kept everything
/// from being delivered where source-controller was given two.
fn may_have_two(workload: &Critical<'_>) -> bool {
    let volumes = workload.pod_spec()["volumes"]
        .as_array()
        .into_iter()
        .flatten();
    let mut claims = volumes.filter(|volume| volume["persistentVolumeClaim"].is_object());
    workload.id.kind == "Deployment"
        && claims.next().is_none()
        && workload.id.name != "source-controller"
        && workload.role.name != "git"
        && workload
            .object
            .pointer("/spec/strategy/type")
            .is_none_or(|kind| kind != "Recreate")
}

fn no_spread(workload: &Critical<'_>) -> Option<Finding> {
    let spec = workload.pod_spec();
    let constraints = spec["topologySpreadConstraints"].as_array();
    let away = spec
        .pointer("/affinity/podAntiAffinity")
        .is_some_and(|away| {
            let terms = ["preferred", "required"]
                .map(|how| format!("/{how}DuringSchedulingIgnoredDuringExecution"));
            terms.iter().any(|terms| {
                let terms = away.pointer(terms).and_then(Value::as_array);
                terms.into_iter().flatten().any(|term| {
                    let term = term.get("podAffinityTerm").unwrap_or(term);
                    selects(term.get("labelSelector"), &workload.pod_labels())
                })
            })
        });
    if constraints.is_some_and(|constraints| !constraints.is_empty()) || away {
        return None;
    }
    let message = format!(
        "nothing keeps the {} replicas of {} on different nodes",
        workload.replicas(),
        workload.shown()
    );
    let remedy = "give it a soft topology spread constraint";
    let mut found = finding(
        Rule::NoSpread,
        Severity::Warning,
        subjects(workload),
        message,
        remedy,
    );
    found.changes = vec![spread(workload)];
    Some(found)
}

fn no_budget(model: &Model, workload: &Critical<'_>) -> Option<Finding> {
    let mut budgets = model.of_kind("PodDisruptionBudget").filter(|budget| {
        budget
            .pointer("/metadata/namespace")
            .is_some_and(|own| *own == workload.id.namespace.as_str())
            && selects(budget.pointer("/spec/selector"), &workload.pod_labels())
    });
    if budgets.next().is_some() {
        return None;
    }
    let message = format!(
        "no budget keeps a drain from stopping all {} replicas of {} at once",
        workload.replicas(),
        workload.shown()
    );
    let remedy = "give it a PodDisruptionBudget with maxUnavailable 1";
    let mut found = finding(
        Rule::NoBudget,
        Severity::Note,
        subjects(workload),
        message,
        remedy,
    );
    found.changes = vec![Change::Add(budget(workload))];
    Some(found)
}

fn best_effort(workload: &Critical<'_>) -> Option<Finding> {
    let spec = workload.pod_spec();
    let containers = |field: &str| spec[field].as_array().map(Vec::as_slice).unwrap_or(&[]);
    let asks = |container: &Value| {
        ["requests", "limits"].iter().any(|kind| {
            let amounts = container["resources"].get(*kind).and_then(Value::as_object);
            amounts.is_some_and(|amounts| {
                amounts.contains_key("cpu") || amounts.contains_key("memory")
            })
        })
    };
    let all = containers("containers");
    if all.is_empty() || all.iter().chain(containers("initContainers")).any(asks) {
        return None;
    }
    let message = format!(
        "{} ({}) asks for no memory and no CPU: its pods are the first to be killed when a node is short",
        workload.shown(),
        workload.role.carries
    );
    let remedy = "give its containers requests";
    let mut found = finding(
        Rule::BestEffort,
        Severity::Warning,
        subjects(workload),
        message,
        remedy,
    );
    let requests = json!({"requests": {"cpu": "10m", "memory": "64Mi"}});
    let names = all
        .iter()
        .filter_map(|container| container["name"].as_str());
    let patched: Vec<Value> = names
        .map(|name| json!({"name": name, "resources": requests.clone()}))
        .collect();
    let patch = json!({"spec": {"template": {"spec": {"containers": patched}}}});
    found.changes = vec![Change::Patch(workload.id.clone(), patch)];
    Some(found)
}
