//! Claims, addresses and budgets.

use everflow_json::{Value, json};

use super::{Behavior, after_delay, set_status};
use crate::kinds::meta;
use crate::server_core::ApiServer;

/// What an object of a kind that only waits for a status would get.
fn wanted(table: &str, object: &Value) -> Option<Value> {
    if Behavior::of(object) == Behavior::NeverReady {
        return None;
    }
    Some(match table {
        "/persistentvolumeclaims" => json!({
            "phase": "Bound",
            "accessModes": object.pointer("/spec/accessModes").cloned().unwrap_or_default(),
            "capacity": object.pointer("/spec/resources/requests").cloned().unwrap_or_default()
        }),
        "/services"
            if object.pointer("/spec/type").and_then(Value::as_str) == Some("LoadBalancer") =>
        {
            json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1", "ipMode": "VIP"}]}})
        }
        "networking.k8s.io/ingresses" => {
            json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.2"}]}})
        }
        "policy/poddisruptionbudgets" => {
            json!({"observedGeneration": meta::generation(object), "disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0})
        }
        _ => return None,
    })
}

/// A new object gets its status later.
pub fn admit(server: &ApiServer, table: &str, key: &str, object: &Value) {
    if let Some(status) = wanted(table, object) {
        let settled = status
            .as_object()
            .into_iter()
            .flatten()
            .all(|(field, value)| {
                super::says(
                    object.get("status").and_then(|status| status.get(field)),
                    value,
                )
            });
        if !settled {
            after_delay(server, table, key);
        }
    }
}

/// The delay is over.
pub fn settle(server: &ApiServer, table: &str, object: &Value) {
    if let Some(status) = wanted(table, object) {
        set_status(server, table, object, status);
    }
}
