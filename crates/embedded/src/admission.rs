//! A server in memory that says whether a real one would take an object.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use everflow_apply::preflight::LocalAdmission;
use everflow_cluster::env::ManualEnvironment;
use everflow_cluster::time::Timestamp;
use everflow_cluster::{ApiServer, Options, Request};
use everflow_json::{Value, json};
use everflow_runtime::client::{At, Resource};
use sha2::{Digest as _, Sha256};

/// The one namespace that there is.
const NAMESPACE: &str = "preflight";

/// How many answers are remembered: for objects that are made again and again, in some tens of kilobytes.
const ANSWERS: usize = 1 << 10;

/// The rules of the built-in kinds, as a server in memory without objects has them. It is made when it is first needed,
/// and all share it: nothing is ever stored.
#[derive(Debug, Clone, Copy, Default)]
pub struct EmbeddedAdmission;

impl EmbeddedAdmission {
    fn server() -> &'static ApiServer {
        static SERVER: OnceLock<ApiServer> = OnceLock::new();
        SERVER.get_or_init(|| {
            let start = Timestamp::from_micros(1_767_225_600_000_000);
            let world = Arc::new(ManualEnvironment::new(start, 1));
            let options = Options {
                authorization: false,
                controllers: Vec::new(),
                ..Options::default()
            };
            let server = ApiServer::new(world, options);
            let namespace = json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE},
            });
            let body = namespace.to_string();
            let create = Request::new("POST", "/api/v1/namespaces", body)
                .header("content-type", "application/json");
            server.handle(&create);
            server
        })
    }
}

impl LocalAdmission for EmbeddedAdmission {
    fn admits(&self, resource: &Resource, object: &Value) -> bool {
        if !is_built_in(resource) {
            return false;
        }
        let mut object = object.clone();
        let namespaced = resource.namespaced;
        if namespaced {
            let given = object["metadata"]["namespace"].as_str();
            if given.is_none_or(str::is_empty) {
                return false;
            }
            object["metadata"]["namespace"] = NAMESPACE.into();
        }
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let at = At::new(if namespaced { NAMESPACE } else { "" }, name);
        let path = resource.object_path(&at);
        let target = format!("{path}?fieldManager=preflight&force=true&dryRun=All");
        let body = everflow_json::text::to_vec(&object);
        let mut digest = Sha256::new_with_prefix(&target);
        digest.update([0]);
        digest.update(&body);
        let key = digest.finalize().into();
        if let Some(taken) = answers().get(&key) {
            return *taken;
        }
        let request = Request::new("PATCH", &target, body)
            .header("content-type", "application/apply-patch+yaml")
            .header("accept", "application/json");
        let taken = (200..300).contains(&Self::server().handle(&request).status);
        let mut answers = answers();
        if answers.len() >= ANSWERS {
            answers.clear();
        }
        answers.insert(key, taken);
        taken
    }
}

/// What was answered to which request. The server never changes, so its answers do not either.
fn answers() -> MutexGuard<'static, BTreeMap<[u8; 32], bool>> {
    static GIVEN: Mutex<BTreeMap<[u8; 32], bool>> = Mutex::new(BTreeMap::new());
    GIVEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kinds of Kubernetes itself whose objects stand on their own. Definitions of kinds and what
/// admission looks at more closely are left to the real server.
fn is_built_in(resource: &Resource) -> bool {
    matches!(
        (&*resource.group, &*resource.kind),
        ("", "ConfigMap" | "Secret" | "Service" | "ServiceAccount")
            | ("apps", "Deployment" | "StatefulSet" | "DaemonSet")
            | ("batch", "CronJob" | "Job")
            | ("networking.k8s.io", "Ingress" | "NetworkPolicy")
            | ("policy", "PodDisruptionBudget")
            | ("autoscaling", "HorizontalPodAutoscaler")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_built_in_kinds_are_known() {
        let maps = Resource::namespaced("", "v1", "configmaps", "ConfigMap");
        let map = |name: &str, data: Value| {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data,
                "metadata": {"name": name, "namespace": "apps"}})
        };
        assert!(EmbeddedAdmission.admits(&maps, &map("one", json!({"a": "1"}))));
        assert!(!EmbeddedAdmission.admits(&maps, &map("Bad_Name", json!({"a": "1"}))));
        assert!(!EmbeddedAdmission.admits(&maps, &map("one", json!({"a": 1}))));
        let widgets = Resource::namespaced("example.com", "v1", "widgets", "Widget");
        assert!(!EmbeddedAdmission.admits(&widgets, &map("one", json!({}))));
    }
}
