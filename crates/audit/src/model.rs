//! The objects, and how they belong together.

use std::fmt;

use everflow_json::{Map, Value};
use everflow_schema::builtin;

use crate::error::Error;
use crate::roles::{self, Role};
use crate::selector::{all_in, labels_of, selects};

/// Names an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId {
    /// The kind.
    pub kind: String,
    /// The namespace; empty for what has none.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl ObjectId {
    /// The id of an object.
    pub fn of(object: &Value) -> Self {
        let text = |pointer: &str| {
            let text = object.pointer(pointer).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        ObjectId {
            kind: text("/kind"),
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name"),
        }
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            "" => write!(f, "{}/{}", self.kind, self.name),
            namespace => write!(f, "{}/{namespace}/{}", self.kind, self.name),
        }
    }
}

/// Objects of a cluster, or of what is to become one.
#[derive(Debug, Clone, Default)]
pub struct Model {
    pub(crate) objects: Vec<Value>,
}

/// A workload with a role.
#[derive(Debug, Clone)]
pub(crate) struct Critical<'m> {
    pub(crate) id: ObjectId,
    pub(crate) object: &'m Value,
    pub(crate) role: Role,
    pub(crate) pods: Vec<&'m Value>,
}

impl Critical<'_> {
    /// How many pods it is to have; a DaemonSet has one on each node.
    pub(crate) fn replicas(&self) -> u64 {
        let replicas = self.object.pointer("/spec/replicas");
        replicas.and_then(Value::as_u64).unwrap_or(1)
    }

    pub(crate) fn is_daemon_set(&self) -> bool {
        self.id.kind == "DaemonSet"
    }

    pub(crate) fn pod_spec(&self) -> &Value {
        let spec = self.object.pointer("/spec/template/spec");
        spec.unwrap_or(&Value::Null)
    }

    /// The labels of its pods.
    pub(crate) fn pod_labels(&self) -> Map {
        let template = self.object.pointer("/spec/template");
        labels_of(template.unwrap_or(&Value::Null))
    }

    /// The labels that its pods are chosen by.
    pub(crate) fn selector(&self) -> &Value {
        self.object
            .pointer("/spec/selector")
            .unwrap_or(&Value::Null)
    }

    /// It in messages.
    pub(crate) fn shown(&self) -> String {
        format!("{}/{}", self.id.namespace, self.id.name)
    }
}

impl Model {
    /// A model of these objects. What has the kinds of Kubernetes is looked at; the rest is kept.
    pub fn new(objects: Vec<Value>) -> Self {
        Model { objects }
    }

    /// The objects of a kind.
    pub(crate) fn of_kind(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.objects
            .iter()
            .filter(move |object| object["kind"] == kind)
    }

    /// An object.
    pub(crate) fn find(&self, id: &ObjectId) -> Option<&Value> {
        self.of_kind(&id.kind)
            .find(|object| ObjectId::of(object) == *id)
    }

    /// The pods that a workload has now.
    pub(crate) fn pods_of<'m>(&'m self, workload: &Value) -> Vec<&'m Value> {
        let selector = workload.pointer("/spec/selector");
        let namespace = workload.pointer("/metadata/namespace");
        let pods = self.of_kind("Pod").filter(|pod| {
            let ended = matches!(
                pod.pointer("/status/phase").and_then(Value::as_str),
                Some("Succeeded" | "Failed")
            );
            !ended
                && pod.pointer("/metadata/deletionTimestamp").is_none()
                && pod.pointer("/metadata/namespace") == namespace
                && selects(selector, &labels_of(pod))
        });
        pods.collect()
    }

    /// The workloads with a role, by their ids. What is scaled to nothing is not counted.
    pub(crate) fn critical(&self) -> Vec<Critical<'_>> {
        let servers = self.admission_servers();
        let kinds = ["Deployment", "StatefulSet", "DaemonSet"];
        let workloads = kinds.iter().flat_map(|kind| self.of_kind(kind));
        let mut critical: Vec<Critical<'_>> = workloads
            .filter_map(|object| {
                let id = ObjectId::of(object);
                let by_webhook = || servers.contains(&id).then(roles::admission);
                let role = roles::of(object).or_else(by_webhook)?;
                let pods = self.pods_of(object);
                Some(Critical {
                    id,
                    object,
                    role,
                    pods,
                })
            })
            .filter(|critical| critical.replicas() > 0)
            .collect();
        critical.sort_by(|one, other| one.id.cmp(&other.id));
        critical
    }

    /// The workloads that answer webhooks which must not fail.
    fn admission_servers(&self) -> Vec<ObjectId> {
        let webhooks = self.strict_webhooks();
        let servers = webhooks.flat_map(|(_, webhook)| self.servers_of(webhook));
        servers.map(ObjectId::of).collect()
    }

    /// The webhooks with failurePolicy Fail, which is what counts when none is set.
    pub(crate) fn strict_webhooks(&self) -> impl Iterator<Item = (&Value, &Value)> {
        let kinds = [
            "ValidatingWebhookConfiguration",
            "MutatingWebhookConfiguration",
        ];
        let configurations = kinds.into_iter().flat_map(|kind| self.of_kind(kind));
        configurations.flat_map(|configuration| {
            let webhooks = configuration["webhooks"].as_array().into_iter().flatten();
            webhooks
                .filter(|webhook| webhook["failurePolicy"] != "Ignore")
                .map(move |webhook| (configuration, webhook))
        })
    }

    /// The workloads behind a webhook's Service.
    pub(crate) fn servers_of<'m>(&'m self, webhook: &Value) -> Vec<&'m Value> {
        let service = &webhook["clientConfig"]["service"];
        let (Some(namespace), Some(name)) =
            (service["namespace"].as_str(), service["name"].as_str())
        else {
            return Vec::new();
        };
        let id = ObjectId {
            kind: "Service".into(),
            namespace: namespace.into(),
            name: name.into(),
        };
        let Some(wanted) = self
            .find(&id)
            .and_then(|service| service.pointer("/spec/selector"))
        else {
            return Vec::new();
        };
        let kinds = ["Deployment", "StatefulSet", "DaemonSet"];
        let workloads = kinds.iter().flat_map(|kind| self.of_kind(kind));
        workloads
            .filter(|workload| {
                let template = workload.pointer("/spec/template").unwrap_or(&Value::Null);
                workload
                    .pointer("/metadata/namespace")
                    .and_then(Value::as_str)
                    == Some(namespace)
                    && all_in(wanted, &labels_of(template))
            })
            .collect()
    }

    /// The labels of a namespace, with the one that each has.
    pub(crate) fn namespace_labels(&self, name: &str) -> Map {
        let namespace = self.of_kind("Namespace");
        let mut namespace = namespace.filter(|object| {
            object
                .pointer("/metadata/name")
                .is_some_and(|own| own == name)
        });
        let mut labels = namespace.next().map(labels_of).unwrap_or_default();
        labels.insert("kubernetes.io/metadata.name".into(), name.into());
        labels
    }

    /// A strategic merge patch of an object of Kubernetes' own kinds, tried.
    pub(crate) fn patch(&mut self, id: &ObjectId, patch: &Value) -> Result<(), Error> {
        let place = self
            .objects
            .iter()
            .position(|object| ObjectId::of(object) == *id);
        let Some(object) = place.and_then(|place| self.objects.get_mut(place)) else {
            return Err(Error::NotFound(id.to_string()));
        };
        let version = object["apiVersion"].as_str().unwrap_or_default();
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let schema = builtin().schema(group, version, &id.kind);
        let schema = schema.ok_or_else(|| Error::NoSchema(id.to_string()))?;
        let patched = everflow_merge::strategic::apply(object, patch, schema);
        *object = patched.map_err(|source| Error::Patch {
            object: id.to_string(),
            source,
        })?;
        Ok(())
    }
}
