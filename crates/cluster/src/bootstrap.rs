//! The objects every cluster has from the start.

use everflow_json::json;

use crate::rest::request::Request;
use crate::server_core::ApiServer;

/// Creates what is missing.
pub fn run(server: &ApiServer) {
    // Of most of them nobody ever asks for more than their text.
    server.store().fold(true);
    for service in crate::discovery::services::builtin() {
        let path = "/apis/apiregistration.k8s.io/v1/apiservices";
        create(server, path, &service);
    }
    crate::auth::policy::create(server);
    priority_classes(server);
    for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
        create(
            server,
            "/api/v1/namespaces",
            &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
        );
    }
    crate::controllers::begin(server);
    server.store().fold(false);
}

/// The classes of pods without which a cluster does not work.
pub fn priority_classes(server: &ApiServer) {
    for (name, value, text) in [
        (
            "system-node-critical",
            2_000_001_000_i64,
            "Used for system critical pods that must not be moved from their current node.",
        ),
        (
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
    ] {
        let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value, "description": text});
        create(server, "/apis/scheduling.k8s.io/v1/priorityclasses", &class);
    }
}

fn create(server: &ApiServer, path: &str, object: &everflow_json::Value) {
    let body = everflow_json::to_vec(object).unwrap_or_default();
    let mut request = Request::new("POST", path, body)
        .header("content-type", "application/json")
        .header("user-agent", "kube-apiserver/");
    request.user = Some(std::sync::Arc::new(crate::auth::User::admin()));
    // What exists already stays as it is.
    let _ = server.handle(&request);
}
