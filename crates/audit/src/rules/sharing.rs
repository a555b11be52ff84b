//! What stops together: critical workloads that have all their pods in one place.

use std::collections::{BTreeMap, BTreeSet};

use everflow_json::{Value, json};

use super::{finding, listed};
use crate::finding::{Change, Finding, Rule, Severity};
use crate::model::{Critical, Model};
use crate::placement::{HOST, ZONE, name_of, node_of};
use crate::roles::Delivery;
use crate::selector::labels_of;

/// The workloads that a place carries alone, by the place.
type Carried<'c, 'm> = BTreeMap<String, Vec<&'c Critical<'m>>>;

pub(super) fn find(model: &Model, critical: &[Critical<'_>]) -> Vec<Finding> {
    let singles: Vec<&Critical<'_>> = critical.iter().filter(|it| !it.is_daemon_set()).collect();
    let mut findings = Vec::new();
    let nodes = carried(&singles, |node| Some(node.to_owned()));
    for (node, together) in &nodes {
        findings.extend(shared(Rule::SharedNode, node, HOST, together));
        findings.extend(replicas_together(node, together));
    }
    let zones: BTreeMap<&str, String> = model
        .of_kind("Node")
        .filter_map(|node| {
            let zone = labels_of(node).get(ZONE)?.as_str()?.to_owned();
            Some((name_of(node), zone))
        })
        .collect();
    let different: BTreeSet<&String> = zones.values().collect();
    if different.len() > 1 {
        for (zone, together) in carried(&singles, |node| zones.get(node).cloned()) {
            // What is on one node has been said already.
            let on_one_node = nodes
                .values()
                .any(|there| there.len() == together.len() && same(there, &together));
            if !on_one_node {
                findings.extend(shared(Rule::SharedZone, &zone, ZONE, &together));
            }
        }
    }
    findings
}

fn same(one: &[&Critical<'_>], other: &[&Critical<'_>]) -> bool {
    one.iter().zip(other).all(|(one, other)| one.id == other.id)
}

fn carried<'c, 'm>(
    critical: &[&'c Critical<'m>],
    place_of: impl Fn(&str) -> Option<String>,
) -> Carried<'c, 'm> {
    let mut carried = Carried::new();
    for workload in critical {
        let places: BTreeSet<Option<String>> = workload
            .pods
            .iter()
            .map(|pod| node_of(pod).and_then(&place_of))
            .collect();
        if let [Some(place)] = places.into_iter().collect::<Vec<_>>().as_slice() {
            carried.entry(place.clone()).or_default().push(workload);
        }
    }
    carried
}

/// Several roles in one place.
fn shared(rule: Rule, place: &str, key: &str, together: &[&Critical<'_>]) -> Option<Finding> {
    let mut roles: Vec<&crate::roles::Role> = Vec::new();
    for workload in together {
        if roles.iter().all(|role| role.name != workload.role.name) {
            roles.push(&workload.role);
        }
    }
    if roles.len() < 2 {
        return None;
    }
    roles.sort_by_key(|role| (role.delivers != Delivery::Is, role.name.clone()));
    let stops_delivery = roles.iter().any(|role| role.delivers != Delivery::GoesOn);
    let words: Vec<String> = roles.iter().map(|role| role.carries.clone()).collect();
    let consequence = match stops_delivery {
        true => "the fix cannot be delivered",
        false => "they stop together",
    };
    let message = format!(
        "{place} carries {}: if it fails, {consequence}",
        listed(&words)
    );
    let severity = match stops_delivery {
        true => Severity::Error,
        false => Severity::Warning,
    };
    let mut subjects = vec![place.to_owned()];
    subjects.extend(together.iter().map(|workload| workload.id.to_string()));
    let remedy = "no soft preference mends this here: add a node (or zone) that they may run on, or replicas";
    let mut found = finding(rule, severity, subjects, message, remedy);
    found.changes = apart(key, together);
    Some(found)
}

/// Each but the first stays away from those of other roles, where it can. Soft, so that nothing waits
/// for a node that is not there.
fn apart(key: &str, together: &[&Critical<'_>]) -> Vec<Change> {
    let mut changes = Vec::new();
    for (number, workload) in together.iter().enumerate() {
        let others = together.iter().take(number);
        let others = others.filter(|other| other.role.name != workload.role.name);
        let terms: Vec<Value> = others
            .map(|other| {
                json!({"weight": 100, "podAffinityTerm": {
                    "topologyKey": key,
                    "labelSelector": other.selector().clone(),
                    "namespaces": [other.id.namespace.as_str()],
                }})
            })
            .collect();
        if terms.is_empty() {
            continue;
        }
        let patch = json!({"spec": {"template": {"spec": {"affinity": {"podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": terms,
        }}}}}});
        changes.push(Change::Patch(workload.id.clone(), patch));
    }
    changes
}

/// Several pods of one workload in one place.
fn replicas_together<'c>(
    node: &'c str,
    together: &'c [&Critical<'_>],
) -> impl Iterator<Item = Finding> + 'c {
    let several = together.iter().filter(|workload| workload.pods.len() > 1);
    several.map(move |workload| {
        let message = format!(
            "all {} replicas of {} run on {node}: if it fails, none is left",
            workload.pods.len(),
            workload.shown()
        );
        let subjects = vec![workload.id.to_string()];
        let remedy =
            "start the pods anew once the workload prefers to be spread and another node is there";
        let mut found = finding(
            Rule::ReplicasTogether,
            Severity::Warning,
            subjects,
            message,
            remedy,
        );
        found.changes = vec![super::replicas::spread(workload)];
        found
    })
}
