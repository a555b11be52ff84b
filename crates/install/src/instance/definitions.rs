//! The definitions of FluxInstance and FluxReport, for clusters in which the installation is kept by one.

use everflow_json::{Map, Text, Value, json};

const GROUP: &str = "fluxcd.controlplane.io";

/// Both definitions.
pub(crate) fn definitions() -> Vec<Value> {
    vec![
        definition(
            "FluxInstance",
            &["fluxcd", "fluxcd-appliers"],
            instance(),
            instance_status(),
        ),
        definition("FluxReport", &["fluxcd"], report(), report_status()),
    ]
}

fn definition(kind: &str, categories: &[&str], spec: Value, status: Value) -> Value {
    let singular = kind.to_lowercase();
    let plural = format!("{singular}s");
    let column = |name: &str, path: &str| json!({"name": name, "type": "string", "jsonPath": path});
    let mut columns = vec![
        json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}),
        column("Ready", r#".status.conditions[?(@.type=="Ready")].status"#),
        column(
            "Status",
            r#".status.conditions[?(@.type=="Ready")].message"#,
        ),
    ];
    if kind == "FluxInstance" {
        columns.push(column("Revision", ".status.lastAttemptedRevision"));
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{GROUP}")},
        "spec": {
            "group": GROUP,
            "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural,
                "singular": singular, "categories": categories},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": columns,
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "apiVersion": {"type": "string"},
                        "kind": {"type": "string"},
                        "metadata": {"type": "object"},
                        "spec": spec,
                        "status": status,
                    },
                    "x-kubernetes-validations": [{
                        "rule": "self.metadata.name == 'flux'",
                        "message": "the only name is flux",
                    }],
                }},
            }],
        },
    })
}

fn text() -> Value {
    json!({"type": "string"})
}

fn one_of(words: &[&str]) -> Value {
    json!({"type": "string", "enum": words})
}

fn flag(default: bool) -> Value {
    json!({"type": "boolean", "default": default})
}

fn texts() -> Value {
    json!({"type": "object", "additionalProperties": {"type": "string"}})
}

fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

fn object(required: &[&str], properties: Value) -> Value {
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn texts_named(names: &[&str]) -> Map {
    names
        .iter()
        .map(|name| (Text::from(*name), text()))
        .collect()
}

fn instance() -> Value {
    let mut distribution = texts_named(&[
        "version",
        "registry",
        "imagePullSecret",
        "artifactPullSecret",
    ]);
    distribution.insert(
        "variant".into(),
        one_of(&[
            "upstream-alpine",
            "enterprise-alpine",
            "enterprise-distroless",
            "enterprise-distroless-fips",
        ]),
    );
    distribution.insert(
        "artifact".into(),
        json!({"type": "string", "pattern": "^oci://.*$"}),
    );
    let components = [
        "source-controller",
        "kustomize-controller",
        "helm-controller",
        "notification-controller",
        "image-reflector-controller",
        "image-automation-controller",
        "source-watcher",
    ];
    let target = Value::Object(texts_named(&[
        "annotationSelector",
        "group",
        "kind",
        "labelSelector",
        "name",
        "namespace",
        "version",
    ]));
    let patch = object(
        &["patch"],
        json!({"patch": text(), "target": object(&[], target)}),
    );
    object(
        &["distribution"],
        json!({
            "distribution": object(&["registry", "version"], Value::Object(distribution)),
            "components": list(one_of(&components)),
            "cluster": cluster(),
            "commonMetadata": object(&[], json!({"labels": texts(), "annotations": texts()})),
            "kustomize": object(&[], json!({"patches": list(patch)})),
            "migrateResources": flag(true),
            "wait": flag(true),
            "storage": object(&["class", "size"], json!({"class": text(), "size": text()})),
            "sharding": object(&["shards"], json!({
                "key": {"type": "string", "default": "sharding.fluxcd.io/key"},
                "shards": {"type": "array", "items": text(), "minItems": 1},
                "storage": one_of(&["ephemeral", "persistent"]),
            })),
            "sync": sync(),
        }),
    )
}

fn cluster() -> Value {
    object(
        &[],
        json!({
            "domain": {"type": "string", "default": "cluster.local"},
            "multitenant": flag(false),
            "multitenantWorkloadIdentity": flag(false),
            "networkPolicy": flag(true),
            "objectLevelWorkloadIdentity": {"type": "boolean"},
            "size": one_of(&["small", "medium", "large"]),
            "type": {"type": "string", "default": "kubernetes",
                "enum": ["kubernetes", "openshift", "aws", "azure", "gcp"]},
            "tenantDefaultServiceAccount": text(),
            "tenantDefaultDecryptionServiceAccount": text(),
            "tenantDefaultKubeConfigServiceAccount": text(),
        }),
    )
}

fn sync() -> Value {
    object(
        &["kind", "path", "ref", "url"],
        json!({
            "kind": one_of(&["OCIRepository", "GitRepository", "Bucket"]),
            "name": {"type": "string", "maxLength": 63, "x-kubernetes-validations": [
                {"rule": "self == oldSelf", "message": "the name of a sync cannot be changed"},
            ]},
            "interval": {"type": "string", "default": "1m", "pattern": "^([0-9]+(\\.[0-9]+)?(ms|s|m|h))+$"},
            "url": text(),
            "ref": text(),
            "path": text(),
            "pullSecret": text(),
            "provider": one_of(&["generic", "aws", "azure", "gcp", "github"]),
        }),
    )
}

/// Conditions as all kinds have them.
fn conditions() -> Value {
    list(object(
        &["type", "status", "reason", "message", "lastTransitionTime"],
        json!({
            "type": text(),
            "status": one_of(&["True", "False", "Unknown"]),
            "reason": text(),
            "message": text(),
            "lastTransitionTime": {"type": "string", "format": "date-time"},
            "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
        }),
    ))
}

fn instance_status() -> Value {
    let moment = json!({"type": "string", "format": "date-time"});
    let snapshot = object(
        &["digest", "firstReconciled", "lastReconciled"],
        json!({
            "digest": text(),
            "firstReconciled": moment,
            "lastReconciled": moment,
            "lastReconciledDuration": text(),
            "lastReconciledStatus": text(),
            "totalReconciliations": {"type": "integer", "format": "int64"},
            "metadata": texts(),
        }),
    );
    let entry = object(&["id", "v"], json!({"id": text(), "v": text()}));
    let component = object(
        &["name", "repository"],
        Value::Object(texts_named(&["name", "repository", "tag", "digest"])),
    );
    object(
        &[],
        json!({
            "conditions": conditions(),
            "lastAttemptedRevision": text(),
            "lastAppliedRevision": text(),
            "lastArtifactRevision": text(),
            "lastHandledReconcileAt": text(),
            "lastHandledForceAt": text(),
            "components": list(component),
            "history": list(snapshot),
            "inventory": object(&["entries"], json!({"entries": list(entry)})),
        }),
    )
}

fn report() -> Value {
    let ready = json!({"type": "boolean"});
    let number = json!({"type": "integer"});
    object(
        &["distribution"],
        json!({
            "distribution": object(&["entitlement", "status"],
                Value::Object(texts_named(&["entitlement", "status", "version", "managedBy"]))),
            "cluster": object(&[], json!({"serverVersion": text(), "platform": text(), "nodes": number})),
            "operator": object(&[], Value::Object(texts_named(&["apiVersion", "version", "platform"]))),
            "components": list(object(&["name", "ready", "status"],
                json!({"name": text(), "ready": ready, "status": text(), "image": text()}))),
            "reconcilers": list(object(&["apiVersion", "kind"], json!({
                "apiVersion": text(),
                "kind": text(),
                "stats": object(&[], json!({"running": number, "failing": number, "suspended": number, "totalSize": text()})),
            }))),
            "sync": object(&["id", "ready", "status"],
                json!({"id": text(), "path": text(), "ready": ready, "status": text(), "source": text()})),
        }),
    )
}

fn report_status() -> Value {
    object(
        &[],
        json!({"conditions": conditions(), "lastHandledReconcileAt": text()}),
    )
}
