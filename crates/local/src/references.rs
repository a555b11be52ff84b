//! References to objects that do not exist.

use std::collections::BTreeSet;

use everflow_api::inventory::ObjectId;
use everflow_api::view;
use everflow_json::Value;

use crate::operators::made_from;

/// A reference that leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dangling {
    /// Who refers, as `Kind/namespace/name`.
    pub from: String,
    /// By which field.
    pub field: String,
    /// To what.
    pub to: String,
    /// Whether it keeps something from being deployed. What only a running program would miss may
    /// still be made by somebody else, such as a certificate.
    pub fatal: bool,
}

/// Finds the references of objects to what is neither among them nor `known` to be there.
pub fn dangling(objects: &[Value], known: &dyn Fn(&str, &str, &str) -> bool) -> Vec<Dangling> {
    let there: BTreeSet<(String, String, String)> = objects
        .iter()
        .map(ObjectId::of)
        .map(|id| (id.kind, id.namespace, id.name))
        .collect();
    // Programs only miss what nobody makes; what is deployed needs it to be there.
    let made: BTreeSet<_> = objects.iter().flat_map(made_from).collect();
    let mut found = BTreeSet::new();
    for object in objects {
        let from = ObjectId::of(object);
        let mut look = |reference: Reference<'_>| {
            let key = (
                reference.kind.to_owned(),
                reference.namespace.clone(),
                reference.name.to_owned(),
            );
            let is_made = !reference.fatal && made.contains(&key);
            let exists = is_made || there.contains(&key) || known(&key.0, &key.1, &key.2);
            if !exists && !reference.name.is_empty() && !reference.name.contains("${") {
                found.insert(Dangling {
                    from: from.subject(),
                    field: reference.field,
                    to: view::joined(reference.kind, &reference.namespace, reference.name),
                    fatal: reference.fatal,
                });
            }
        };
        if from.group.ends_with("toolkit.fluxcd.io") {
            flux(object, &mut look);
        } else {
            workload(object, &mut look);
        }
    }
    found.into_iter().collect()
}

struct Reference<'v> {
    field: String,
    kind: &'v str,
    namespace: String,
    name: &'v str,
    fatal: bool,
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

/// What objects of Flux refer to.
fn flux<'v>(object: &'v Value, look: &mut dyn FnMut(Reference<'v>)) {
    let own = view::namespace(object);
    let spec = &object["spec"];
    let kind = text(object, "kind");
    let mut refer = |field: &str, kind: &'v str, to: &'v Value, optional: bool| {
        let namespace = match text(to, "namespace") {
            "" => own,
            namespace => namespace,
        };
        if !kind.is_empty() && !optional {
            look(Reference {
                field: field.to_owned(),
                kind,
                namespace: namespace.to_owned(),
                name: text(to, "name"),
                fatal: true,
            });
        }
    };
    for (index, dependency) in list(&spec["dependsOn"]).enumerate() {
        refer(&format!("spec.dependsOn[{index}]"), kind, dependency, false);
    }
    for field in ["sourceRef", "chartRef"] {
        let to = &spec[field];
        refer(&format!("spec.{field}"), text(to, "kind"), to, false);
    }
    let chart = &spec["chart"]["spec"]["sourceRef"];
    refer(
        "spec.chart.spec.sourceRef",
        text(chart, "kind"),
        chart,
        false,
    );
    for (index, from) in list(&spec["postBuild"]["substituteFrom"]).enumerate() {
        let field = format!("spec.postBuild.substituteFrom[{index}]");
        refer(&field, text(from, "kind"), from, from["optional"] == true);
    }
    for (index, from) in list(&spec["valuesFrom"]).enumerate() {
        let field = format!("spec.valuesFrom[{index}]");
        refer(&field, text(from, "kind"), from, from["optional"] == true);
    }
    refer(
        "spec.decryption.secretRef",
        "Secret",
        &spec["decryption"]["secretRef"],
        false,
    );
    for (index, include) in list(&spec["include"]).enumerate() {
        let field = format!("spec.include[{index}].repository");
        refer(&field, "GitRepository", &include["repository"], false);
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// What the pods of a workload, or rules to reach them, refer to.
fn workload<'v>(object: &'v Value, look: &mut dyn FnMut(Reference<'v>)) {
    let own = view::namespace(object);
    let mut refer = |field: &str, kind: &'v str, name: &'v str, optional: bool| {
        if !optional {
            look(Reference {
                field: field.to_owned(),
                kind,
                namespace: own.to_owned(),
                name,
                fatal: false,
            });
        }
    };
    match text(object, "kind") {
        "Ingress" => {
            for path in list(&object["spec"]["rules"]).flat_map(|rule| list(&rule["http"]["paths"]))
            {
                let service = text(&path["backend"]["service"], "name");
                refer("spec.rules.http.paths.backend", "Service", service, false);
            }
        }
        "HorizontalPodAutoscaler" => {
            let target = &object["spec"]["scaleTargetRef"];
            refer(
                "spec.scaleTargetRef",
                text(target, "kind"),
                text(target, "name"),
                false,
            );
        }
        _ => {
            if let Some(pod) = pod_of(object) {
                pod_references(pod, &mut refer);
            }
        }
    }
}

fn pod_of(object: &Value) -> Option<&Value> {
    let at = match text(object, "kind") {
        "Pod" => "/spec",
        "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" | "Job" => "/spec/template/spec",
        "CronJob" => "/spec/jobTemplate/spec/template/spec",
        _ => return None,
    };
    object.pointer(at)
}

fn pod_references<'v>(pod: &'v Value, refer: &mut dyn FnMut(&str, &'v str, &'v str, bool)) {
    let account = text(pod, "serviceAccountName");
    refer(
        "serviceAccountName",
        "ServiceAccount",
        account,
        account == "default",
    );
    for volume in list(&pod["volumes"]) {
        let config = &volume["configMap"];
        refer(
            "volumes.configMap",
            "ConfigMap",
            text(config, "name"),
            config["optional"] == true,
        );
        let secret = &volume["secret"];
        refer(
            "volumes.secret",
            "Secret",
            text(secret, "secretName"),
            secret["optional"] == true,
        );
        let claim = text(&volume["persistentVolumeClaim"], "claimName");
        refer(
            "volumes.persistentVolumeClaim",
            "PersistentVolumeClaim",
            claim,
            false,
        );
    }
    let containers = list(&pod["initContainers"]).chain(list(&pod["containers"]));
    for container in containers {
        for from in list(&container["envFrom"]) {
            let config = &from["configMapRef"];
            refer(
                "envFrom.configMapRef",
                "ConfigMap",
                text(config, "name"),
                config["optional"] == true,
            );
            let secret = &from["secretRef"];
            refer(
                "envFrom.secretRef",
                "Secret",
                text(secret, "name"),
                secret["optional"] == true,
            );
        }
        for from in list(&container["env"]).map(|env| &env["valueFrom"]) {
            let config = &from["configMapKeyRef"];
            refer(
                "env.valueFrom.configMapKeyRef",
                "ConfigMap",
                text(config, "name"),
                config["optional"] == true,
            );
            let secret = &from["secretKeyRef"];
            refer(
                "env.valueFrom.secretKeyRef",
                "Secret",
                text(secret, "name"),
                secret["optional"] == true,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use everflow_json::json;

    use super::*;

    #[test]
    fn finds_what_is_not_there() {
        let objects = [
            json!({
                "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
                "metadata": { "namespace": "f", "name": "apps" },
                "spec": {
                    "sourceRef": { "kind": "GitRepository", "name": "gone" },
                    "dependsOn": [{ "name": "infra" }],
                    "postBuild": { "substituteFrom": [
                        { "kind": "ConfigMap", "name": "vars" },
                        { "kind": "Secret", "name": "maybe", "optional": true },
                    ] },
                },
            }),
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "namespace": "f", "name": "vars" } }),
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": { "namespace": "n", "name": "web" },
                "spec": { "template": { "spec": {
                    "serviceAccountName": "default",
                    "containers": [{ "envFrom": [{ "secretRef": { "name": "s" } }] }],
                } } },
            }),
        ];
        let found = dangling(&objects, &|_, _, _| false);
        let lines: Vec<String> = found
            .iter()
            .map(|d| format!("{} {} {} {}", d.from, d.field, d.to, d.fatal))
            .collect();
        assert_eq!(
            lines,
            [
                "Deployment/n/web envFrom.secretRef Secret/n/s false",
                "Kustomization/f/apps spec.dependsOn[0] Kustomization/f/infra true",
                "Kustomization/f/apps spec.sourceRef GitRepository/f/gone true",
            ]
        );
    }

    #[test]
    fn secrets_made_by_operators_are_not_missing_for_pods() {
        let secret = json!({
            "apiVersion": "external-secrets.io/v1", "kind": "ExternalSecret",
            "metadata": { "namespace": "n", "name": "s" },
        });
        let web = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "namespace": "n", "name": "web" },
            "spec": { "containers": [{ "envFrom": [{ "secretRef": { "name": "s" } }] }] },
        });
        let apps = json!({
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "metadata": { "namespace": "n", "name": "apps" },
            "spec": { "postBuild": { "substituteFrom": [{ "kind": "Secret", "name": "s" }] } },
        });
        let missed = dangling(std::slice::from_ref(&web), &|_, _, _| false);
        assert_eq!(missed.len(), 1, "{missed:?}");
        let found = dangling(&[secret, web, apps], &|_, _, _| false);
        let fields: Vec<&str> = found.iter().map(|d| d.field.as_str()).collect();
        assert_eq!(fields, ["spec.postBuild.substituteFrom[0]"]);
    }
}
