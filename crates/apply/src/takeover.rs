//! Taking over what others have applied: their entries in `managedFields` and the annotations of
//! client-side apply.

use everflow_json::{Map, Value, json};
use everflow_merge::fieldpath::FieldSet;

use crate::policy::ObjectPolicy;

/// Annotations that client-side tools leave behind.
const ANNOTATIONS: [&str; 3] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "kustomize.toolkit.fluxcd.io/checksum",
    "fluxcd.io/sync-checksum",
];

/// A label that client-side tools leave behind.
const LABEL: &str = "fluxcd.io/sync-gc-mark";

/// Whose fields become ours.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Takeover {
    /// Our field manager.
    pub manager: String,
    /// Others by name, beside those of kubectl and what was there before the first apply.
    pub also: Vec<String>,
}

impl Takeover {
    /// The JSON patch that makes a live object ours, or `None` when nothing is to be done.
    pub fn patch(&self, desired: &Value, live: &Value) -> Option<Value> {
        if ObjectPolicy::Merge.of(desired) || ObjectPolicy::Merge.of(live) {
            return None;
        }
        let mut operations = Vec::new();
        let leftovers = ANNOTATIONS
            .iter()
            .map(|key| ("annotations", *key))
            .chain([("labels", LABEL)]);
        for (place, key) in leftovers {
            if live["metadata"][place].get(key).is_some() {
                let path = format!("/metadata/{place}/{}", key.replace('/', "~1"));
                operations.push(json!({"op": "remove", "path": path}));
            }
        }
        if let Some(entries) = self.entries(live) {
            let path = "/metadata/managedFields";
            operations.push(json!({"op": "replace", "path": path, "value": entries}));
        }
        (!operations.is_empty()).then(|| operations.into())
    }

    /// The entries of `managedFields` after the takeover.
    fn entries(&self, live: &Value) -> Option<Vec<Value>> {
        let all = live.pointer("/metadata/managedFields")?.as_array()?;
        let ours =
            |entry: &&Value| entry["manager"] == *self.manager && entry["operation"] == "Apply";
        let mut own = all.iter().rfind(ours).cloned();
        let mut others = Vec::with_capacity(all.len());
        let mut edited = false;
        for entry in all {
            if ours(&entry) {
                continue;
            }
            if !self.takes(entry) {
                others.push(entry.clone());
                continue;
            }
            edited = true;
            own = Some(match own {
                None => {
                    let mut entry = entry.clone();
                    entry["manager"] = self.manager.as_str().into();
                    entry["operation"] = "Apply".into();
                    entry
                }
                Some(mut own) => {
                    own["fieldsV1"] = united(&own["fieldsV1"], &entry["fieldsV1"]);
                    own
                }
            });
        }
        others.extend(own);
        edited.then_some(others)
    }

    fn takes(&self, entry: &Value) -> bool {
        let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default();
        if !text("subresource").is_empty() {
            return false;
        }
        let manager = text("manager");
        match text("operation") {
            "Update" => {
                manager.starts_with("kubectl")
                    || manager.starts_with("before-first-apply")
                    || manager == self.manager
                    || self.also.iter().any(|name| name == manager)
            }
            "Apply" => {
                manager.starts_with("kubectl") || self.also.iter().any(|name| name == manager)
            }
            _ => false,
        }
    }
}

/// The JSON patch that hands over to server-side apply what a manager wrote by updates, or `None` when there is
/// nothing of the kind.
pub fn own_updates(manager: &str, live: &Value) -> Option<Value> {
    let is_given_up = |entry: &Value| entry["manager"] == manager && entry["operation"] == "Update";
    given_up(manager, &is_given_up, live)
}

/// The same of what other managers wrote or applied.
pub fn handed_over(manager: &str, others: &[String], live: &Value) -> Option<Value> {
    let is_given_up = |entry: &Value| {
        let name = entry["manager"].as_str().unwrap_or_default();
        name != manager && others.iter().any(|other| other == name)
    };
    given_up(manager, &is_given_up, live)
}

fn given_up(manager: &str, is_given_up: &dyn Fn(&Value) -> bool, live: &Value) -> Option<Value> {
    let entries = live.pointer("/metadata/managedFields")?.as_array()?;
    let is_whole = |entry: &Value| {
        let subresource = entry.get("subresource").and_then(Value::as_str);
        subresource.unwrap_or_default().is_empty()
    };
    let is_own = |entry: &Value| {
        is_whole(entry) && entry["manager"] == manager && entry["operation"] == "Apply"
    };
    let is_theirs = |entry: &Value| is_whole(entry) && is_given_up(entry);
    let updates: Vec<&Value> = entries.iter().filter(|one| is_theirs(one)).collect();
    if updates.is_empty() {
        return None;
    }
    let mut own = entries.iter().find(|one| is_own(one)).cloned();
    for update in updates {
        own = Some(match own {
            None => {
                let mut own = update.clone();
                own["manager"] = manager.into();
                own["operation"] = "Apply".into();
                own
            }
            Some(mut own) => {
                own["fieldsV1"] = united(&own["fieldsV1"], &update["fieldsV1"]);
                own
            }
        });
    }
    let is_other = |one: &&Value| !is_theirs(one) && !is_own(one);
    let mut all: Vec<Value> = entries.iter().filter(is_other).cloned().collect();
    all.extend(own);
    let version = &live["metadata"]["resourceVersion"];
    Some(json!([
        {"op": "test", "path": "/metadata/resourceVersion", "value": version},
        {"op": "replace", "path": "/metadata/managedFields", "value": all},
    ]))
}

fn united(one: &Value, two: &Value) -> Value {
    let empty = Value::Object(Map::new());
    let read = |fields: &Value| {
        let fields = if fields.is_null() { &empty } else { fields };
        FieldSet::from_fields_v1(fields)
    };
    match (read(one), read(two)) {
        (Ok(one), Ok(two)) => one.union(&two).to_fields_v1(),
        // What cannot be read is the server's to repair.
        _ => one.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(manager: &str, operation: &str, field: &str) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "v1",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {(format!("f:{field}")): {}}}})
    }

    fn patched(fields: Vec<Value>) -> Option<Value> {
        let takeover = Takeover {
            manager: "kustomize-controller".into(),
            also: vec!["old-tool".into()],
        };
        let live = json!({"metadata": {"managedFields": fields}});
        takeover.patch(&json!({}), &live)
    }

    #[test]
    fn fields_owned_by_kubectl_are_taken_over() {
        assert_eq!(
            patched(vec![entry("kustomize-controller", "Apply", "a")]),
            None
        );
        assert_eq!(patched(vec![entry("someone", "Update", "a")]), None);
        let patch = patched(vec![
            entry("kubectl-client-side-apply", "Update", "a"),
            entry("someone", "Update", "b"),
            entry("kustomize-controller", "Apply", "c"),
            entry("old-tool", "Apply", "d"),
        ]);
        let mut own = entry("kustomize-controller", "Apply", "c");
        own["fieldsV1"] = json!({"f:data": {"f:a": {}, "f:c": {}, "f:d": {}}});
        let expected = json!([{"op": "replace", "path": "/metadata/managedFields",
            "value": [entry("someone", "Update", "b"), own]}]);
        assert_eq!(patch, Some(expected));
        let renamed = patched(vec![entry("before-first-apply", "Update", "a")]);
        let expected = entry("kustomize-controller", "Apply", "a");
        assert_eq!(renamed.unwrap()[0]["value"], json!([expected]));
    }

    #[test]
    fn client_side_apply_annotation_is_removed() {
        let live = json!({"metadata": {"annotations":
            {"kubectl.kubernetes.io/last-applied-configuration": "{}"}}});
        let takeover = Takeover {
            manager: "m".into(),
            also: Vec::new(),
        };
        let patch = takeover.patch(&json!({}), &live).unwrap();
        let path = "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration";
        assert_eq!(patch, json!([{"op": "remove", "path": path}]));
        let merge =
            json!({"metadata": {"annotations": {"kustomize.toolkit.fluxcd.io/ssa": "merge"}}});
        assert_eq!(takeover.patch(&merge, &live), None);
    }
}
