//! The roles and bindings that every cluster has, as the real server makes them at its start.

use std::sync::OnceLock;

use everflow_json::{Map, Value, json};

use super::rbac::GROUP;
use crate::env::new_uid;
use crate::server_core::ApiServer;
use crate::store::Text;

/// One line per object: its kind, name, rules, role and subjects.
const FACTS: &str = include_str!("../../data/rbac-policy.jsonl");
const API_VERSION: &str = "rbac.authorization.k8s.io/v1";

/// What differs from cluster to cluster stands in the texts as this mark with a letter behind it.
const MARK: char = '\u{e000}';
const UID: char = 'u';
const NOW: char = 'n';
const REVISION: char = 'r';

/// An object's text, to be filled in for a cluster.
struct Entry {
    table: String,
    key: String,
    text: Text,
}

fn entries() -> &'static [Entry] {
    static ENTRIES: OnceLock<Vec<Entry>> = OnceLock::new();
    ENTRIES.get_or_init(|| {
        FACTS
            .lines()
            .filter_map(|line| everflow_json::from_str::<Map>(line).ok())
            .filter_map(entry)
            .collect()
    })
}

/// An object as it is stored, but for its id, its revision and its times.
fn entry(mut facts: Map) -> Option<Entry> {
    let kind = facts.remove("kind")?.as_str()?.to_owned();
    let name = facts.remove("name")?.as_str()?.to_owned();
    let namespace = facts
        .remove("namespace")
        .and_then(|value| value.as_str().map(str::to_owned));
    let mut labels = match facts.remove("labels") {
        Some(Value::Object(labels)) => labels,
        _ => Map::new(),
    };
    labels.insert("kubernetes.io/bootstrapping".into(), "rbac-defaults".into());
    let mut owned_labels = Map::from_iter([(".".to_owned(), json!({}))]);
    owned_labels.extend(labels.keys().map(|key| (format!("f:{key}"), json!({}))));
    let mut owned = json!({"f:metadata": {
        "f:annotations": {".": {}, "f:rbac.authorization.kubernetes.io/autoupdate": {}},
        "f:labels": owned_labels
    }});
    for key in facts.keys() {
        owned[format!("f:{key}")] = match key.as_str() {
            "aggregationRule" => json!({".": {}, "f:clusterRoleSelectors": {}}),
            _ => json!({}),
        };
    }
    let marked = |letter: char| format!("{MARK}{letter}");
    let mut metadata = json!({
        "name": name,
        "uid": marked(UID),
        "creationTimestamp": marked(NOW),
        "resourceVersion": marked(REVISION),
        "labels": labels,
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
        "managedFields": [{"manager": "kube-apiserver", "operation": "Update", "apiVersion": API_VERSION, "time": marked(NOW), "fieldsType": "FieldsV1", "fieldsV1": owned}]
    });
    let key = match namespace {
        Some(namespace) => {
            metadata["namespace"] = namespace.as_str().into();
            format!("{namespace}/{name}")
        }
        None => name,
    };
    if kind.ends_with("Role") && !facts.contains_key("rules") {
        facts.insert("rules".into(), Value::Null);
    }
    facts.insert("kind".into(), kind.as_str().into());
    facts.insert("apiVersion".into(), API_VERSION.into());
    facts.insert("metadata".into(), metadata);
    Some(Entry {
        table: format!("{GROUP}/{}s", kind.to_lowercase()),
        key,
        text: Text::of(&Value::Object(facts)),
    })
}

/// Creates what is missing.
pub fn create(server: &ApiServer) {
    let now = server.env().now().rfc3339();
    for entry in entries() {
        if server.store().get(&entry.table, &entry.key).is_some() {
            continue;
        }
        let uid = new_uid(server.env());
        let fill = |revision: u64| {
            entry.text.filled(MARK, |letter| match letter {
                UID => uid.clone(),
                REVISION => revision.to_string(),
                _ => now.clone(),
            })
        };
        // Nobody else writes yet; what fails here fails again, and aloud, at the first request.
        let _ = server
            .store()
            .create_written(&entry.table, &entry.key, fill);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Stored;

    #[test]
    fn every_line_is_an_object() {
        assert_eq!(entries().len(), FACTS.lines().count());
        let admin = entries()
            .iter()
            .find(|entry| entry.table.ends_with("/clusterroles") && entry.key == "cluster-admin")
            .unwrap();
        let text = admin.text.filled(MARK, |letter| letter.to_string());
        let stored = Stored::first_written(1, text);
        let verbs = &stored.value["rules"][0]["verbs"];
        assert_eq!(verbs, &json!(["*"]));
        assert_eq!(stored.value["metadata"]["uid"], "u");
        assert!(FACTS.lines().all(|line| !line.contains(MARK)));
    }
}
