//! Pods that are refused: told, and tried again.

use everflow_json::{Value, json};

use super::{conditions, create, template_hash};
use crate::controllers::{Task, send};
use crate::kinds::meta;
use crate::server_core::ApiServer;

/// When the server is asked again, in seconds.
const AGAIN: i64 = 10;
/// The condition of those who lack pods.
pub const FAILURE: &str = "ReplicaFailure";

/// Creates a pod of a workload. If it is refused, an event about the workload says why, and the workload is looked at
/// again later; the answer is what the server said.
pub fn create_pod(server: &ApiServer, table: &str, owner: &Value, pod: &Value) -> Option<String> {
    let said = create(server, "/pods", pod).err()?;
    // Nothing is made where everything goes.
    if said.contains("because it is being terminated") {
        return None;
    }
    let (namespace, name) = (meta::text(owner, "namespace"), meta::text(owner, "name"));
    tell(server, owner, &said);
    let when = server.env().now().plus_seconds(AGAIN);
    let task = Task::Due(table.to_owned(), format!("{namespace}/{name}"));
    server.note_later(when, task);
    Some(said)
}

/// One event for each workload: the first thing that was said.
fn tell(server: &ApiServer, owner: &Value, said: &str) {
    let (namespace, name) = (meta::text(owner, "namespace"), meta::text(owner, "name"));
    let kind = owner["kind"].as_str().unwrap_or_default();
    let uid = meta::text(owner, "uid");
    let event = format!("{name}.{}", template_hash(&uid.into()));
    if server
        .store()
        .get("/events", &format!("{namespace}/{event}"))
        .is_some()
    {
        return;
    }
    let now = server.env().now().rfc3339();
    let object = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": event, "namespace": namespace},
        "involvedObject": {
            "apiVersion": owner["apiVersion"], "kind": kind, "namespace": namespace, "name": name, "uid": uid,
            "resourceVersion": meta::text(owner, "resourceVersion")
        },
        "type": "Warning", "reason": "FailedCreate", "message": format!("Error creating: {said}"),
        "source": {"component": format!("{}-controller", kind.to_lowercase())},
        "firstTimestamp": now, "lastTimestamp": now, "count": 1
    });
    let path = format!("/api/v1/namespaces/{namespace}/events");
    send(server, "POST", &path, "application/json", &object);
}

/// The conditions of a set whose pods were refused, or not any more. What was said first stands.
pub fn conditions_of(server: &ApiServer, set: &Value, refused: Option<String>) -> Value {
    let Some(said) = refused else {
        return Value::Null;
    };
    let message = failure(set).map_or(Value::String(said.into()), |known| known["message"].clone());
    let now = server.env().now().rfc3339();
    let condition = json!({
        "type": FAILURE, "status": "True", "reason": "FailedCreate", "message": message, "lastTransitionTime": now
    });
    conditions(set, vec![condition])
}

/// What a set says of pods that were refused.
pub fn failure(set: &Value) -> Option<&Value> {
    let conditions = set.pointer("/status/conditions")?.as_array()?;
    conditions
        .iter()
        .find(|condition| condition["type"] == FAILURE)
}
