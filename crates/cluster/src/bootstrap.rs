//! The objects every cluster has from the start.

use serde_json::json;

use crate::rest::request::Request;
use crate::server_core::ApiServer;

/// Creates what is missing.
pub fn run(server: &ApiServer) {
    for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
        create(
            server,
            "/api/v1/namespaces",
            &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
        );
    }
}

fn create(server: &ApiServer, path: &str, object: &serde_json::Value) {
    let body = serde_json::to_vec(object).unwrap_or_default();
    let mut request = Request::new("POST", path, body)
        .header("content-type", "application/json")
        .header("user-agent", "kube-apiserver/");
    request.user = Some(crate::auth::User::admin());
    // What exists already stays as it is.
    let _ = server.handle(&request);
}
