//! Chains in which recovery needs what failed.

use everflow_json::{Value, json};

use super::finding;
use crate::finding::{Change, Finding, Rule, Severity};
use crate::model::{Critical, Model, ObjectId};
use crate::roles::Delivery;
use crate::selector::{labels_of, selects};

pub(super) fn find(model: &Model, critical: &[Critical<'_>]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = model
        .strict_webhooks()
        .filter_map(|(configuration, webhook)| deadlock(model, critical, configuration, webhook))
        .collect();
    findings.extend(critical.iter().filter_map(delivered_by_itself));
    findings
}

/// A webhook that must be asked before the pods that answer it, or those of delivery, may start.
fn deadlock(
    model: &Model,
    critical: &[Critical<'_>],
    configuration: &Value,
    webhook: &Value,
) -> Option<Finding> {
    if !concerns_pods(webhook) {
        return None;
    }
    let servers = model.servers_of(webhook);
    let server = ObjectId::of(servers.first()?);
    let mut held: Vec<ObjectId> = servers.iter().map(|server| ObjectId::of(server)).collect();
    let delivery = critical
        .iter()
        .filter(|workload| workload.role.delivers == Delivery::Is);
    held.extend(delivery.map(|workload| workload.id.clone()));
    held.retain(|id| {
        let template = model
            .find(id)
            .and_then(|object| object.pointer("/spec/template"));
        let template = template.unwrap_or(&Value::Null);
        chooses(
            webhook,
            "namespaceSelector",
            &model.namespace_labels(&id.namespace),
        ) && chooses(webhook, "objectSelector", &labels_of(template))
    });
    held.sort();
    held.dedup();
    let first = held.iter().find(|id| **id == server).or(held.first())?;
    let name = webhook["name"].as_str().unwrap_or_default();
    let message = match *first == server {
        true => format!(
            "pods of {server} are admitted by themselves (webhook {name}, failurePolicy Fail): once they are gone, \
             they cannot come back"
        ),
        false => format!(
            "pods of {first} are admitted by {server} (webhook {name}, failurePolicy Fail): while that is away, \
             delivery cannot start anew, and the fix cannot be delivered"
        ),
    };
    let id = ObjectId::of(configuration);
    let subjects = vec![id.to_string(), name.to_owned()];
    let remedy = "exclude these namespaces from the webhook";
    let mut found = finding(
        Rule::AdmissionDeadlock,
        Severity::Error,
        subjects,
        message,
        remedy,
    );
    let mut namespaces: Vec<&str> = held.iter().map(|id| id.namespace.as_str()).collect();
    namespaces.sort_unstable();
    namespaces.dedup();
    let before = webhook.pointer("/namespaceSelector/matchExpressions");
    let mut expressions = before
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    expressions.push(json!({
        "key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": namespaces,
    }));
    let patch = json!({"webhooks": [{
        "name": name, "namespaceSelector": {"matchExpressions": expressions},
    }]});
    found.changes = vec![Change::Patch(id, patch)];
    Some(found)
}

/// A selector of a webhook; one that is not there chooses everything.
fn chooses(webhook: &Value, field: &str, labels: &everflow_json::Map) -> bool {
    match webhook.get(field) {
        None | Some(Value::Null) => true,
        selector => selects(selector, labels),
    }
}

fn concerns_pods(webhook: &Value) -> bool {
    let has = |rule: &Value, field: &str, wanted: &[&str]| {
        let listed = rule[field].as_array().into_iter().flatten();
        listed
            .into_iter()
            .any(|item| wanted.iter().any(|wanted| item == wanted))
    };
    let mut rules = webhook["rules"].as_array().into_iter().flatten();
    rules.any(|rule| {
        has(rule, "operations", &["CREATE", "*"])
            && has(rule, "resources", &["pods", "*", "*/*"])
            && has(rule, "apiGroups", &["", "*"])
    })
}

/// Who delivers an object, by the labels that Flux's controllers give.
pub(crate) fn deliverer(object: &Value) -> Option<ObjectId> {
    let labels = labels_of(object);
    [
        ("HelmRelease", "helm.toolkit.fluxcd.io"),
        ("Kustomization", "kustomize.toolkit.fluxcd.io"),
    ]
    .into_iter()
    .find_map(|(kind, group)| {
        let text = |key: &str| labels.get(format!("{group}/{key}").as_str())?.as_str();
        Some(ObjectId {
            kind: kind.to_owned(),
            namespace: text("namespace")?.to_owned(),
            name: text("name")?.to_owned(),
        })
    })
}

/// Something that delivery needs and that delivery delivers.
fn delivered_by_itself(workload: &Critical<'_>) -> Option<Finding> {
    let by = deliverer(workload.object).filter(|_| workload.role.delivers == Delivery::Needs)?;
    let message = format!(
        "delivery needs {} ({}), and {by} delivers it: if it fails, its fix cannot be delivered",
        workload.role.carries,
        workload.shown()
    );
    let remedy = match workload.role.name.as_str() {
        "network" => {
            "let delivery reach the API servers without it: host network, --api-endpoint or the servers' own addresses"
        }
        "git" => {
            "let delivery read a second remote, or keep a checkout from which the fix can be applied by hand"
        }
        _ => "keep a way to apply its fix by hand, and give it replicas on different nodes",
    };
    let subjects = vec![workload.id.to_string(), by.to_string()];
    Some(finding(
        Rule::RecoveryChain,
        Severity::Note,
        subjects,
        message,
        remedy,
    ))
}
