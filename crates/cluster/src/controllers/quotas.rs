//! Quotas know what is used.

use everflow_json::{Value, json};

use super::{path_of, resource_of, send};
use crate::admission::{quota_status, quotas};
use crate::kinds::meta;
use crate::server_core::ApiServer;

/// Kinds whose changes change what is used.
pub const CHANGING: [&str; 3] = ["/pods", "/services", "/persistentvolumeclaims"];

/// Counts again for every quota of a namespace.
pub fn look(server: &ApiServer, namespace: &str) {
    for quota in quotas(server.store(), namespace) {
        sync(server, &quota.value);
    }
}

/// Counts again for one quota.
pub fn sync(server: &ApiServer, quota: &Value) {
    let mut status = quota_status(server, quota);
    if quota.get("status") == Some(&status) {
        return;
    }
    // A patch takes away only what it names.
    for part in ["hard", "used"] {
        let known = quota
            .pointer(&format!("/status/{part}"))
            .and_then(Value::as_object);
        for name in known.into_iter().flatten().map(|(name, _)| name) {
            if status[part].get(name).is_none() {
                status[part][name] = Value::Null;
            }
        }
    }
    let Some(resource) = resource_of(server, "/resourcequotas") else {
        return;
    };
    let path = path_of(
        &resource,
        meta::text(quota, "namespace"),
        meta::text(quota, "name"),
    );
    send(
        server,
        "PATCH",
        &format!("{path}/status"),
        "application/merge-patch+json",
        &json!({"status": status}),
    );
}
