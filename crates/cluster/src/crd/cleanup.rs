//! The end of a definition: its instances go first.

use std::sync::Arc;

use everflow_builtins::definition::text;
use everflow_json::{Map, Value, json};

use super::definition::TABLE;
use super::names::{is_established, put_condition, track_status};
use crate::controllers::Task;
use crate::kinds::meta;
use crate::rest::Call;
use crate::server_core::ApiServer;
use crate::status::{ApiError, ApiResult};
use crate::store::Stored;
use crate::time::Timestamp;

/// After how many seconds a definition looks again whether its instances are gone.
const LOOK_AGAIN: i64 = 5;
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Takes the instances of a definition away, then the definition.
pub fn finish_deletion(server: &ApiServer, name: &str) {
    let Some(current) = server.store().get(TABLE, name) else {
        return;
    };
    if !meta::is_terminating(&current.value) || !meta::finalizers(&current.value).contains(&CLEANUP)
    {
        return;
    }
    let table = format!(
        "{}/{}",
        text(&current.value, "/spec/group"),
        text(&current.value, "/status/acceptedNames/plural")
    );
    let now = server.env().now();
    let Some(current) = announce(server, name, current) else {
        return;
    };
    for item in server.store().list(&table, "", None, 0).items {
        let namespace = meta::text(&item.value, "namespace");
        let key = if namespace.is_empty() {
            meta::text(&item.value, "name").to_owned()
        } else {
            format!("{namespace}/{}", meta::text(&item.value, "name"))
        };
        if meta::finalizers(&item.value).is_empty() {
            let _ = server.store().delete(&table, &key, item.revision, None);
        } else if !meta::is_terminating(&item.value) {
            let mut marked = item.value.clone();
            meta::set(&mut marked, "deletionTimestamp", Some(now.rfc3339().into()));
            meta::set(&mut marked, "deletionGracePeriodSeconds", Some(0.into()));
            let generation = meta::generation(&marked);
            if generation > 0 {
                meta::set(&mut marked, "generation", Some((generation + 1).into()));
            }
            let _ = server.store().update(&table, &key, item.revision, marked);
        }
    }
    if server.store().count(&table) > 0 {
        return;
    }
    let mut last = current.value.clone();
    let (status, reason, message) = if is_established(&last) {
        (
            "False",
            "InstanceDeletionCompleted",
            "removed all instances",
        )
    } else {
        (
            "False",
            "NeverEstablished",
            "resource was never established",
        )
    };
    set_terminating(&mut last, status, reason, message, &now.rfc3339());
    track_status(server, &current.value, &mut last);
    let rest: Vec<Value> = meta::finalizers(&last)
        .into_iter()
        .filter(|finalizer| *finalizer != CLEANUP)
        .map(Value::from)
        .collect();
    let empty = rest.is_empty();
    meta::set(
        &mut last,
        "finalizers",
        (!empty).then_some(Value::Array(rest)),
    );
    if empty {
        let _ = server
            .store()
            .delete(TABLE, name, current.revision, Some(last));
    } else {
        let _ = server.store().update(TABLE, name, current.revision, last);
    }
    let (group, plural) = (
        text(&current.value, "/spec/group").to_owned(),
        text(&current.value, "/spec/names/plural").to_owned(),
    );
    server.change_registry(|registry| registry.remove(&group, &plural));
    if empty {
        offer_names(server, &group);
    }
}

/// Definitions that wanted the names of one that has gone may have them now.
fn offer_names(server: &ApiServer, group: &str) {
    let all = server.store().list(TABLE, "", None, 0).items;
    let waiting = all.iter().filter(|other| {
        text(&other.value, "/spec/group") == group
            && !is_established(&other.value)
            && !meta::is_terminating(&other.value)
    });
    for other in waiting {
        super::after_write(server, meta::text(&other.value, "name"));
    }
}

/// Says that instances are being deleted, once.
fn announce(server: &ApiServer, name: &str, current: Arc<Stored>) -> Option<Arc<Stored>> {
    let mut updated = current.value.clone();
    set_terminating(
        &mut updated,
        "True",
        "InstanceDeletionInProgress",
        "CustomResource deletion is in progress",
        &server.env().now().rfc3339(),
    );
    if updated.get("status") == current.value.get("status") {
        return Some(current);
    }
    track_status(server, &current.value, &mut updated);
    server
        .store()
        .update(TABLE, name, current.revision, updated)
        .ok()
}

fn set_terminating(definition: &mut Value, status: &str, reason: &str, message: &str, now: &str) {
    if let Some(list) = definition
        .pointer_mut("/status/conditions")
        .and_then(Value::as_array_mut)
    {
        put_condition(list, "Terminating", status, reason, message, now);
    }
}

/// Refuses new instances of a kind whose definition goes.
pub fn check_create(call: &Call<'_>, object: &Value) -> ApiResult<()> {
    if !call.resource.is_custom() {
        return Ok(());
    }
    let name = format!("{}.{}", call.resource.plural, call.resource.group);
    let going = call
        .server
        .store()
        .get(TABLE, &name)
        .is_some_and(|definition| meta::is_terminating(&definition.value));
    if !going {
        return Ok(());
    }
    Err(ApiError::forbidden(
        &call.resource.group_resource(),
        meta::text(object, "name"),
        "create not allowed while custom resource definition is terminating",
    ))
}

/// The definition of a custom kind, marked for deletion as the real server marks it.
pub fn mark_for_deletion(definition: &mut Value, now: &str) {
    if !meta::is_terminating(definition) {
        set_terminating(
            definition,
            "True",
            "InstanceDeletionPending",
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
            now,
        );
    }
    let map: &mut Map = meta::metadata_mut(definition);
    map.entry("deletionTimestamp").or_insert_with(|| now.into());
    let list = map.entry("finalizers").or_insert_with(|| json!([]));
    if let Some(list) = list.as_array_mut()
        && !list.contains(&json!(CLEANUP))
    {
        list.push(CLEANUP.into());
    }
}

/// After an instance went: a definition that waits for it looks again, as the real one does every few seconds from the
/// moment of its deletion on.
pub fn after_delete(server: &ApiServer, group: &str, plural: &str) {
    let name = format!("{plural}.{group}");
    let Some(definition) = server.store().get(TABLE, &name) else {
        return;
    };
    let Some(since) = Timestamp::parse(meta::text(&definition.value, "deletionTimestamp")) else {
        return;
    };
    let waited = server.env().now().seconds() - since.seconds();
    let next = since.plus_seconds((waited / LOOK_AGAIN + 1) * LOOK_AGAIN);
    server.note_later(next, Task::Definition(name));
}
