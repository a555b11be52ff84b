//! Garbage collection by owner references.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use everflow_json::{Value, json};

use super::{path_of, resource_of, send};
use crate::kinds::meta;
use crate::server_core::ApiServer;

/// Which objects name an owner, and which owners exist: no collection ever looks at all objects.
#[derive(Debug, Default)]
pub struct OwnerIndex {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    dependents: BTreeMap<String, BTreeSet<(String, String)>>,
    living: BTreeSet<String>,
}

fn owners(object: &Value) -> impl Iterator<Item = &str> {
    object
        .pointer("/metadata/ownerReferences")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|owner| owner.get("uid").and_then(Value::as_str))
}

impl OwnerIndex {
    /// Forgets everything.
    pub(crate) fn clear(&self) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        *inner = Inner::default();
    }

    /// Notes an object and its owners.
    pub fn record(&self, table: &str, key: &str, object: &Value) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.living.insert(meta::text(object, "uid").to_owned());
        for owner in owners(object) {
            inner
                .dependents
                .entry(owner.to_owned())
                .or_default()
                .insert((table.to_owned(), key.to_owned()));
        }
    }

    /// Forgets an object.
    pub fn forget(&self, table: &str, key: &str, object: &Value) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.living.remove(meta::text(object, "uid"));
        for owner in owners(object) {
            if let Some(set) = inner.dependents.get_mut(owner) {
                set.remove(&(table.to_owned(), key.to_owned()));
                if set.is_empty() {
                    inner.dependents.remove(owner);
                }
            }
        }
    }

    /// The table and key of every object that names an owner.
    pub fn dependents(&self, uid: &str) -> Vec<(String, String)> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner
            .dependents
            .get(uid)
            .into_iter()
            .flatten()
            .cloned()
            .collect()
    }

    fn lives(&self, uid: &str) -> bool {
        self.inner
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .living
            .contains(uid)
    }
}

/// The objects that still name an owner.
fn dependents(server: &ApiServer, uid: &str) -> Vec<(String, Value)> {
    let found = server
        .owners()
        .dependents(uid)
        .into_iter()
        .filter_map(|(table, key)| {
            Some((
                table.clone(),
                server.store().get(&table, &key)?.value.clone(),
            ))
        });
    found
        .filter(|(_, object)| owners(object).any(|owner| owner == uid))
        .collect()
}

fn delete(server: &ApiServer, table: &str, object: &Value) {
    if let Some(resource) = resource_of(server, table) {
        let path = path_of(
            &resource,
            meta::text(object, "namespace"),
            meta::text(object, "name"),
        );
        let options = json!({"propagationPolicy": "Background", "preconditions": {"uid": meta::text(object, "uid")}});
        send(server, "DELETE", &path, "application/json", &options);
    }
}

/// Deletes what belonged to an owner that is gone, unless another owner lives.
pub fn owner_gone(server: &ApiServer, uid: &str) {
    for (table, object) in dependents(server, uid) {
        if !owners(&object).any(|owner| owner != uid && server.owners().lives(owner))
            && !meta::is_terminating(&object)
        {
            delete(server, &table, &object);
        }
    }
}

/// Does what the finalizers of a terminating object wait for.
pub fn finish(server: &ApiServer, table: &str, key: &str, object: &Value) {
    let uid = meta::text(object, "uid");
    let waiting = meta::finalizers(object);
    if waiting.contains(&"orphan") {
        for (other, dependent) in dependents(server, uid) {
            let rest: Vec<Value> = dependent
                .pointer("/metadata/ownerReferences")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter(|owner| owner.get("uid").and_then(Value::as_str) != Some(uid))
                .cloned()
                .collect();
            if let Some(resource) = resource_of(server, &other) {
                let path = path_of(
                    &resource,
                    meta::text(&dependent, "namespace"),
                    meta::text(&dependent, "name"),
                );
                let owners = if rest.is_empty() {
                    Value::Null
                } else {
                    Value::Array(rest)
                };
                send(
                    server,
                    "PATCH",
                    &path,
                    "application/merge-patch+json",
                    &json!({"metadata": {"ownerReferences": owners}}),
                );
            }
        }
        remove_finalizer(server, table, key, "orphan");
    } else if waiting.contains(&"foregroundDeletion") {
        let all = dependents(server, uid);
        for (other, dependent) in &all {
            if !meta::is_terminating(dependent) {
                delete(server, other, dependent);
            }
        }
        let blocked = dependents(server, uid).iter().any(|(_, dependent)| {
            let owners = dependent
                .pointer("/metadata/ownerReferences")
                .and_then(Value::as_array);
            owners.into_iter().flatten().any(|owner| {
                owner.get("uid").and_then(Value::as_str) == Some(uid)
                    && owner.get("blockOwnerDeletion") == Some(&Value::Bool(true))
            })
        });
        if !blocked {
            remove_finalizer(server, table, key, "foregroundDeletion");
        }
    }
}

fn remove_finalizer(server: &ApiServer, table: &str, key: &str, name: &str) {
    let (Some(resource), Some(current)) =
        (resource_of(server, table), server.store().get(table, key))
    else {
        return;
    };
    let rest: Vec<Value> = meta::finalizers(&current.value)
        .into_iter()
        .filter(|finalizer| *finalizer != name)
        .map(Value::from)
        .collect();
    let list = if rest.is_empty() {
        Value::Null
    } else {
        Value::Array(rest)
    };
    let path = path_of(
        &resource,
        meta::text(&current.value, "namespace"),
        meta::text(&current.value, "name"),
    );
    send(
        server,
        "PATCH",
        &path,
        "application/merge-patch+json",
        &json!({"metadata": {"finalizers": list}}),
    );
}
