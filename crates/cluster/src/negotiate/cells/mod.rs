//! The cells of tables, kind by kind.

mod cluster;
mod network;
mod pods;
mod row;
mod storage;
mod workloads;

use everflow_json::Value;

use self::cluster::{api_service, binding, event, node, quota, signing_request};
use self::network::{endpoint_slice, endpoints, ingress, parameters, service};
use self::pods::pod;
use self::row::{Row, containers, controller, labels, selector};
use self::storage::{claim, csi_driver, storage_class, volume};
use self::workloads::{autoscaler, cron_job, daemon_set, deployment, job};
use crate::time::Timestamp;

/// The cells of an object in its stored form; `None` for kinds without columns of their own.
pub fn of(group: &str, plural: &str, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
    let row = Row { object, now };
    Some(match (group, plural) {
        ("", "configmaps") => vec![
            row.name(),
            (row.count("/data") + row.count("/binaryData")).into(),
            row.age(),
        ],
        ("", "secrets") => vec![
            row.name(),
            row.text("/type"),
            row.count("/data").into(),
            row.age(),
        ],
        ("", "namespaces") => vec![row.name(), row.text("/status/phase"), row.age()],
        ("", "serviceaccounts") => vec![row.name(), row.age()],
        ("", "pods") => pod(&row),
        ("", "nodes") => node(&row),
        ("", "services") => service(&row),
        ("", "endpoints") => vec![row.name(), endpoints(object).into(), row.age()],
        ("", "events") | ("events.k8s.io", "events") => event(&row),
        ("", "persistentvolumes") => volume(&row),
        ("", "persistentvolumeclaims") => claim(&row),
        ("", "podtemplates") => {
            let (names, images) = containers(object.pointer("/template/spec"));
            vec![
                row.name(),
                names,
                images,
                labels(object.pointer("/template/metadata/labels")).into(),
            ]
        }
        ("", "replicationcontrollers") => row.replicas(labels(object.pointer("/spec/selector"))),
        ("", "resourcequotas") => quota(&row),
        ("apps", "deployments") => deployment(&row),
        ("apps", "replicasets") => row.replicas(selector(object.pointer("/spec/selector"))),
        ("apps", "daemonsets") => daemon_set(&row),
        ("apps", "statefulsets") => {
            let (names, images) = containers(object.pointer("/spec/template/spec"));
            vec![
                row.name(),
                format!(
                    "{}/{}",
                    row.number("/status/readyReplicas"),
                    row.number("/spec/replicas")
                )
                .into(),
                row.age(),
                names,
                images,
            ]
        }
        ("apps", "controllerrevisions") => vec![
            row.name(),
            controller(object).into(),
            row.number("/revision").into(),
            row.age(),
        ],
        ("batch", "jobs") => job(&row),
        ("batch", "cronjobs") => cron_job(&row),
        ("autoscaling", "horizontalpodautoscalers") => autoscaler(&row),
        ("networking.k8s.io", "ingresses") => ingress(&row),
        ("networking.k8s.io", "ingressclasses") => vec![
            row.name(),
            row.text("/spec/controller"),
            parameters(object).into(),
            row.age(),
        ],
        ("networking.k8s.io", "networkpolicies") => vec![
            row.name(),
            selector(object.pointer("/spec/podSelector")).into(),
            row.age(),
        ],
        ("policy", "poddisruptionbudgets") => vec![
            row.name(),
            row.or_not_available("/spec/minAvailable"),
            row.or_not_available("/spec/maxUnavailable"),
            row.number("/status/disruptionsAllowed").into(),
            row.age(),
        ],
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => binding(&row),
        ("coordination.k8s.io", "leases") => {
            vec![row.name(), row.text("/spec/holderIdentity"), row.age()]
        }
        ("discovery.k8s.io", "endpointslices") => endpoint_slice(&row),
        ("storage.k8s.io", "storageclasses") => storage_class(&row),
        ("storage.k8s.io", "csidrivers") => csi_driver(&row),
        ("apiregistration.k8s.io", "apiservices") => api_service(&row),
        ("scheduling.k8s.io", "priorityclasses") => vec![
            row.name(),
            row.number("/value").into(),
            row.flag("/globalDefault").into(),
            row.age(),
            row.text("/preemptionPolicy"),
        ],
        ("node.k8s.io", "runtimeclasses") => vec![row.name(), row.text("/handler"), row.age()],
        ("certificates.k8s.io", "certificatesigningrequests") => signing_request(&row),
        (
            "admissionregistration.k8s.io",
            "mutatingwebhookconfigurations" | "validatingwebhookconfigurations",
        ) => vec![row.name(), row.count("/webhooks").into(), row.age()],
        ("admissionregistration.k8s.io", "validatingadmissionpolicies") => {
            let params = match (
                object.pointer("/spec/paramKind/apiVersion"),
                object.pointer("/spec/paramKind/kind"),
            ) {
                (Some(version), Some(kind)) => format!(
                    "{}/{}",
                    version.as_str().unwrap_or_default(),
                    kind.as_str().unwrap_or_default()
                ),
                _ => "<unset>".to_owned(),
            };
            vec![
                row.name(),
                row.count("/spec/validations").into(),
                params.into(),
                row.age(),
            ]
        }
        _ => return None,
    })
}
