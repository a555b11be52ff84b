//! Objects of versions that are not served any more, as those of today.

use everflow_json::{Map, Value, json};

/// Makes an object of a version that is not served any more one of today.
pub(super) fn as_served(object: &mut Value) {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind").to_owned());
    let Some(served) = everflow_apply::served_instead(api_version, &kind) else {
        return;
    };
    object["apiVersion"] = served.into();
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    match kind.as_str() {
        "Kustomization" => kustomization(spec),
        "GitRepository" => {
            spec.remove("gitImplementation");
            spec.remove("accessFrom");
        }
        "HelmRelease" => release(spec),
        "Ingress" => ingress(spec),
        "CustomResourceDefinition" => definition(spec),
        _ => {}
    }
}

fn kustomization(spec: &mut Map) {
    spec.remove("validation");
    let mut patches: Vec<Value> = Vec::new();
    // JSON is YAML too.
    if let Some(Value::Array(merges)) = spec.remove("patchesStrategicMerge") {
        patches.extend(
            merges
                .iter()
                .map(|patch| json!({"patch": patch.to_string()})),
        );
    }
    if let Some(Value::Array(operations)) = spec.remove("patchesJson6902") {
        let one =
            |entry: &Value| json!({"patch": entry["patch"].to_string(), "target": entry["target"]});
        patches.extend(operations.iter().map(one));
    }
    if patches.is_empty() {
        return;
    }
    match spec.entry("patches").or_insert_with(|| json!([])) {
        Value::Array(all) => all.extend(patches),
        _ => spec["patches"] = patches.into(),
    }
}

fn release(spec: &mut Map) {
    let chart = spec
        .get_mut("chart")
        .and_then(|chart| chart.get_mut("spec"));
    if let Some(chart) = chart.and_then(Value::as_object_mut)
        && let Some(file) = chart.remove("valuesFile")
    {
        let files = chart.entry("valuesFiles").or_insert_with(|| json!([]));
        if let Value::Array(files) = files {
            files.push(file);
        }
    }
}

/// A definition of the first version, with a schema that accepts whatever is written: those of that
/// version need not be structural.
fn definition(spec: &mut Map) {
    let version = spec.remove("version");
    let subresources = spec.remove("subresources").unwrap_or_else(|| json!({}));
    for field in [
        "validation",
        "additionalPrinterColumns",
        "preserveUnknownFields",
    ] {
        spec.remove(field);
    }
    let versions = match spec.remove("versions") {
        Some(Value::Array(versions)) if !versions.is_empty() => versions,
        _ => vec![json!({"name": version, "served": true, "storage": true})],
    };
    let accepting = |version: &Value| {
        json!({
            "name": version["name"],
            "served": version["served"],
            "storage": version["storage"],
            "subresources": match &version["subresources"] {
                Value::Null => &subresources,
                own => own,
            },
            "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }},
        })
    };
    let versions: Vec<Value> = versions.iter().map(accepting).collect();
    spec.insert("versions".into(), versions.into());
    if spec.get("scope").is_none_or(Value::is_null) {
        spec.insert("scope".into(), json!("Namespaced"));
    }
}

fn ingress(spec: &mut Map) {
    if let Some(backend) = spec.remove("backend") {
        spec.insert("defaultBackend".into(), self::backend(backend));
    }
    let rules = spec.get_mut("rules").and_then(Value::as_array_mut);
    for rule in rules.into_iter().flatten() {
        let paths = rule
            .pointer_mut("/http/paths")
            .and_then(Value::as_array_mut);
        for path in paths.into_iter().flatten() {
            if path["pathType"].is_null() {
                path["pathType"] = json!("ImplementationSpecific");
            }
            path["backend"] = backend(path["backend"].take());
        }
    }
}

fn backend(mut backend: Value) -> Value {
    let Some(fields) = backend.as_object_mut() else {
        return backend;
    };
    let Some(name) = fields.remove("serviceName") else {
        return backend;
    };
    let port = match fields.remove("servicePort") {
        Some(Value::String(name)) => json!({"name": name}),
        Some(number) => json!({"number": number}),
        None => Value::Null,
    };
    fields.insert("service".into(), json!({"name": name, "port": port}));
    backend
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(mut object: Value) -> Value {
        as_served(&mut object);
        object
    }

    #[test]
    fn removed_fields_are_moved_or_dropped() {
        let kustomization = converted(json!({
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1beta1", "kind": "Kustomization",
            "spec": {
                "validation": "client", "path": "./a",
                "patchesStrategicMerge": [{"kind": "X"}],
                "patchesJson6902": [{"patch": [{"op": "remove"}], "target": {"kind": "Y"}}],
            },
        }));
        assert_eq!(
            kustomization,
            json!({
                "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
                "spec": {"path": "./a", "patches": [
                    {"patch": r#"{"kind":"X"}"#},
                    {"patch": r#"[{"op":"remove"}]"#, "target": {"kind": "Y"}},
                ]},
            })
        );
        let ingress = converted(json!({
            "apiVersion": "networking.k8s.io/v1beta1", "kind": "Ingress",
            "spec": {"rules": [{"http": {"paths": [
                {"path": "/", "backend": {"serviceName": "s", "servicePort": 80}},
            ]}}]},
        }));
        assert_eq!(
            ingress["spec"]["rules"][0]["http"]["paths"][0],
            json!({"path": "/", "pathType": "ImplementationSpecific",
                "backend": {"service": {"name": "s", "port": {"number": 80}}}})
        );
    }

    #[test]
    fn definitions_accept_whatever_is_written() {
        let definition = converted(json!({
            "apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "CustomResourceDefinition",
            "spec": {"group": "a.b", "names": {"kind": "K", "plural": "ks"}, "version": "v1",
                "validation": {"openAPIV3Schema": {}}, "subresources": {"status": {}}},
        }));
        assert_eq!(definition["apiVersion"], "apiextensions.k8s.io/v1");
        assert_eq!(definition["spec"]["scope"], "Namespaced");
        let version = &definition["spec"]["versions"][0];
        assert_eq!(version["name"], "v1");
        assert_eq!(version["subresources"], json!({"status": {}}));
        assert!(definition["spec"].get("validation").is_none());
    }

    #[test]
    fn current_flux_versions_are_not_converted() {
        let object = json!({
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "spec": {"validation": "client"},
        });
        assert_eq!(converted(object.clone()), object);
    }
}
