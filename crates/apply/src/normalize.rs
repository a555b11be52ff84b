//! What is done to built objects before they are applied.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everflow_api::names::label;
use everflow_json::{Map, Value, json};
use everflow_schema::go_json::Json;
use everflow_schema::gotypes;

/// Whose objects they are: the labels that say so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The name of the Kustomization.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
}

impl Owner {
    /// The labels.
    pub fn labels(&self) -> [(&'static str, &str); 2] {
        [
            (label::KUSTOMIZATION_NAME, &self.name),
            (label::KUSTOMIZATION_NAMESPACE, &self.namespace),
        ]
    }

    /// Labels an object.
    pub fn mark(&self, object: &mut Value) {
        for (key, value) in self.labels() {
            set_metadata(object, "labels", key, value);
        }
    }

    /// Whether a live object has the labels.
    pub fn owns(&self, live: &Value) -> bool {
        let labels = &live["metadata"]["labels"];
        self.labels()
            .iter()
            .all(|(key, value)| labels.get(*key).and_then(Value::as_str) == Some(*value))
    }

    /// Whose labels a live object has, where they are another's.
    pub fn other(&self, live: &Value) -> Option<Owner> {
        let labels = live.get("metadata")?.get("labels")?;
        let text = |key: &str| labels.get(key)?.as_str().map(str::to_owned);
        let owner = Owner {
            name: text(label::KUSTOMIZATION_NAME)?,
            namespace: text(label::KUSTOMIZATION_NAMESPACE)?,
        };
        (owner != *self).then_some(owner)
    }

    /// The labels as a selector.
    pub fn selector(&self) -> String {
        let [(one, name), (two, namespace)] = self.labels();
        format!("{one}={name},{two}={namespace}")
    }
}

/// Sets a label or an annotation.
pub fn set_metadata(object: &mut Value, place: &str, key: &str, value: &str) {
    let Some(metadata) = part(object, "metadata") else {
        return;
    };
    let entries = metadata
        .entry(place)
        .or_insert_with(|| Value::Object(Map::new()));
    if entries.is_null() {
        *entries = Value::Object(Map::new());
    }
    if let Value::Object(entries) = entries {
        entries.insert(key.into(), value.into());
    }
}

fn part<'o>(object: &'o mut Value, key: &str) -> Option<&'o mut Map> {
    let part = object.as_object_mut()?.entry(key).or_insert(Value::Null);
    if part.is_null() {
        *part = Value::Object(Map::new());
    }
    part.as_object_mut()
}

/// Brings an object into the form that the server gives back: built-in kinds as Go's types read
/// and write them, protocols of ports, data of Secrets, no status.
pub fn normalize(object: &mut Value) {
    let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    // Reading and writing would turn an empty list of rules into none.
    if api_version == "rbac.authorization.k8s.io/v1"
        && matches!(kind.as_str(), "Role" | "ClusterRole")
    {
        return;
    }
    let types = gotypes::types();
    if let Some(ty) = types.kind(&api_version, &kind) {
        let (read, findings) = types.decode(&ty, &Json::from_value(object));
        if findings.error.is_none() {
            *object = read;
            object["apiVersion"] = api_version.as_str().into();
            object["kind"] = kind.as_str().into();
            known_kinds(object, &api_version, &kind);
        }
    }
    let definition = is_definition(object);
    if let Value::Object(map) = object {
        if !definition {
            map.remove("status");
        }
        if let Some(Value::Object(metadata)) = map.get_mut("metadata") {
            metadata.remove("creationTimestamp");
        }
    }
}

fn is_definition(object: &Value) -> bool {
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let kind = object["kind"].as_str().unwrap_or_default();
    kind.eq_ignore_ascii_case("CustomResourceDefinition")
        && api_version.starts_with("apiextensions.k8s.io/")
}

fn known_kinds(object: &mut Value, api_version: &str, kind: &str) {
    let template = match (api_version, kind) {
        ("v1", "Pod") => Some("/spec"),
        ("apps/v1", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet")
        | ("batch/v1", "Job") => Some("/spec/template/spec"),
        ("batch/v1", "CronJob") => Some("/spec/jobTemplate/spec/template/spec"),
        _ => None,
    };
    if let Some(containers) = template
        .and_then(|at| object.pointer_mut(at))
        .and_then(|spec| spec.get_mut("containers"))
        .and_then(Value::as_array_mut)
    {
        for container in containers {
            default_protocol(container.get_mut("ports"));
        }
    }
    match (api_version, kind) {
        ("v1", "Service") => default_protocol(object.pointer_mut("/spec/ports")),
        ("v1", "Secret") => secret_data(object),
        _ => {}
    }
}

fn default_protocol(ports: Option<&mut Value>) {
    let ports = ports.and_then(Value::as_array_mut).into_iter().flatten();
    for port in ports.filter_map(Value::as_object_mut) {
        let protocol = port.entry("protocol").or_insert(Value::Null);
        if protocol.is_null() || protocol == "" {
            *protocol = json!("TCP");
        }
    }
}

/// What stands in `stringData` goes to `data`.
fn secret_data(object: &mut Value) {
    let Some(Value::Object(plain)) = object
        .as_object_mut()
        .and_then(|object| object.remove("stringData"))
    else {
        return;
    };
    if plain.is_empty() {
        return;
    }
    let Some(data) = part(object, "data") else {
        return;
    };
    for (key, value) in plain {
        let bytes = value.as_str().unwrap_or_default().as_bytes();
        data.insert(key, STANDARD.encode(bytes).into());
    }
}

/// Takes lists apart, and leaves out what is no object of the API: kustomizations of kustomize.
pub fn expand(objects: Vec<Value>) -> Vec<Value> {
    let mut expanded = Vec::with_capacity(objects.len());
    for mut object in objects {
        let kind = object["kind"].as_str().unwrap_or_default();
        let items = object["items"].is_array() && kind.ends_with("List");
        if items {
            if let Some(Value::Array(items)) = object.get_mut("items").map(Value::take) {
                expanded.extend(items);
            }
            continue;
        }
        let api_version = object["apiVersion"].as_str().unwrap_or_default();
        let config = kind.eq_ignore_ascii_case("kustomization")
            && api_version.starts_with("kustomize.config.k8s.io/");
        if !config {
            expanded.push(object);
        }
    }
    expanded
}

/// Whether it is a Secret that is still encrypted.
pub fn is_encrypted_secret(object: &Value) -> bool {
    object["kind"] == "Secret"
        && object["apiVersion"] == "v1"
        && object.pointer("/sops/mac").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_kinds_take_the_form_that_go_gives_them() {
        let mut deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "app", "creationTimestamp": null},
            "spec": {"replicaz": 1, "replicas": 0, "selector": {"matchLabels": {"app": "app"}},
                "template": {"metadata": {"labels": {"app": "app"}},
                    "spec": {"containers": [{"name": "main", "ports": [{"containerPort": 80}]}]}}},
            "status": {"replicas": 1},
        });
        normalize(&mut deployment);
        let expected = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "app"},
            "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "app"}}, "strategy": {},
                "template": {"metadata": {"labels": {"app": "app"}},
                    "spec": {"containers": [{"name": "main", "resources": {},
                        "ports": [{"containerPort": 80, "protocol": "TCP"}]}]}}},
        });
        assert_eq!(deployment, expected);
    }

    #[test]
    fn secrets_have_only_data_and_roles_keep_their_rules() {
        let mut secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"},
            "stringData": {"k": "v"}, "data": {"a": "Yg=="},
        });
        normalize(&mut secret);
        assert_eq!(secret["data"], json!({"a": "Yg==", "k": "dg=="}));
        assert!(secret.get("stringData").is_none());
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": "r"}, "rules": [],
        });
        let mut same = role.clone();
        normalize(&mut same);
        assert_eq!(role, same);
    }

    #[test]
    fn list_objects_are_expanded() {
        let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        let list = json!({"apiVersion": "v1", "kind": "List", "items": [map("a"), map("b")]});
        let config =
            json!({"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"});
        assert_eq!(
            expand(vec![list, config, map("c")]),
            [map("a"), map("b"), map("c")]
        );
    }
}
