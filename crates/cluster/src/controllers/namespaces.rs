//! The life of namespaces: a default service account at the start, an empty namespace at the end.

use everflow_json::{Value, json};

use super::{path_of, send};
use crate::kinds::meta;
use crate::server_core::ApiServer;

/// Gives a namespace its default service account.
pub fn default_account(server: &ApiServer, namespace: &str) {
    if server
        .store()
        .get("/serviceaccounts", &format!("{namespace}/default"))
        .is_none()
    {
        let account =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        send(
            server,
            "POST",
            &format!("/api/v1/namespaces/{namespace}/serviceaccounts"),
            "application/json",
            &account,
        );
    }
}

/// Gives a namespace the certificate that the server's own is checked with.
pub fn root_certificate(server: &ApiServer, namespace: &str) {
    const NAME: &str = "kube-root-ca.crt";
    let Some(certificate) = &server.options().root_certificate else {
        return;
    };
    let known = server
        .store()
        .get("/configmaps", &format!("{namespace}/{NAME}"));
    if known.is_none() {
        let text = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": NAME, "annotations": {"kubernetes.io/description": text}},
            "data": {"ca.crt": certificate}
        });
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        send(server, "POST", &path, "application/json", &map);
    }
}

/// Deletes everything in a terminating namespace, then lets it go.
pub fn empty(server: &ApiServer, namespace: &str) {
    let registry = server.registry();
    for resource in registry.all().filter(|resource| {
        resource.namespaced
            && crate::kinds::convert::is_storage(resource)
            && resource.has_verb("delete")
    }) {
        for item in server
            .store()
            .list(&resource.table, &format!("{namespace}/"), None, 0)
            .items
        {
            if !meta::is_terminating(&item.value) {
                let options = json!({"propagationPolicy": "Background", "gracePeriodSeconds": 0});
                send(
                    server,
                    "DELETE",
                    &path_of(resource, namespace, meta::text(&item.value, "name")),
                    "application/json",
                    &options,
                );
            }
        }
    }
    look(server, namespace);
}

/// Lets a terminating namespace go once it is empty.
pub fn look(server: &ApiServer, namespace: &str) {
    let Some(current) = server.store().get("/namespaces", namespace) else {
        return;
    };
    if !meta::is_terminating(&current.value) {
        return;
    }
    let registry = server.registry();
    let full = registry
        .all()
        .filter(|resource| resource.namespaced)
        .any(|resource| {
            !server
                .store()
                .list(&resource.table, &format!("{namespace}/"), None, 1)
                .items
                .is_empty()
        });
    if full {
        return;
    }
    let mut last: Value = current.value.clone();
    if let Some(spec) = last.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("finalizers");
    }
    meta::set(&mut last, "resourceVersion", None);
    send(
        server,
        "PUT",
        &format!("/api/v1/namespaces/{namespace}/finalize"),
        "application/json",
        &last,
    );
}
