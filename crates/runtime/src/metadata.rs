//! Finalizers and annotations: guarded by the version of the object, read again when it moved.

use std::borrow::Cow;

use everflow_json::{Value, json};

use crate::client::{At, Client, Patch, Resource, WriteOptions, meta_text};
use crate::error::Error;

/// How often a change is tried when others keep changing the object.
const TRIES: u32 = 8;

/// What became of a change of metadata.
#[derive(Debug, Clone, PartialEq)]
pub enum Edited {
    /// It was so already.
    Unchanged,
    /// It is stored; this is the object now.
    Stored(Value),
    /// The object is gone, also by this very change; or another one has its name.
    Gone,
}

/// Sees to it that an object has a finalizer.
pub async fn ensure_finalizer(
    client: &Client,
    resource: &Resource,
    known: &Value,
    finalizer: &str,
    field_manager: &str,
) -> Result<Edited, Error> {
    edit(client, resource, known, field_manager, |object| {
        let mut finalizers = finalizers(object);
        if finalizers.iter().any(|present| present == finalizer) {
            return None;
        }
        finalizers.push(finalizer.to_owned());
        Some(json!([{"op": "add", "path": "/metadata/finalizers", "value": finalizers}]))
    })
    .await
}

/// Sees to it that an object does not have a finalizer.
pub async fn remove_finalizer(
    client: &Client,
    resource: &Resource,
    known: &Value,
    finalizer: &str,
    field_manager: &str,
) -> Result<Edited, Error> {
    edit(client, resource, known, field_manager, |object| {
        let before = finalizers(object);
        let after: Vec<&String> = before.iter().filter(|name| *name != finalizer).collect();
        if after.len() == before.len() {
            return None;
        }
        Some(json!([{"op": "add", "path": "/metadata/finalizers", "value": after}]))
    })
    .await
}

/// Changes the metadata of an object. `change` gives the operations of a JSON patch for the object
/// as it is, or `None` when there is nothing to do.
pub async fn edit(
    client: &Client,
    resource: &Resource,
    known: &Value,
    field_manager: &str,
    change: impl Fn(&Value) -> Option<Value>,
) -> Result<Edited, Error> {
    let uid = meta_text(known, "uid").to_owned();
    let options = WriteOptions::by(field_manager).without_managed_fields();
    let mut base = Cow::Borrowed(known);
    for _ in 0..TRIES {
        let Some(operations) = change(&base) else {
            return Ok(Edited::Unchanged);
        };
        let version = meta_text(&base, "resourceVersion");
        let mut guarded = vec![
            json!({"op": "test", "path": "/metadata/uid", "value": uid}),
            json!({"op": "test", "path": "/metadata/resourceVersion", "value": version}),
        ];
        guarded.extend(operations.as_array().into_iter().flatten().cloned());
        let patch = Patch::Json(guarded.into());
        match client
            .patch(resource, At::of(&base), &patch, &options)
            .await
        {
            Ok(object) => {
                let held = !finalizers(&object).is_empty();
                let deleting = !meta_text(&object, "deletionTimestamp").is_empty();
                return Ok(match deleting && !held {
                    true => Edited::Gone,
                    false => Edited::Stored(object),
                });
            }
            Err(Error::NotFound(_)) => return Ok(Edited::Gone),
            // Either it moved, or a former try of ours did land.
            Err(Error::Conflict(_) | Error::Invalid(_)) => {}
            Err(error) if error.may_have_happened() => {}
            Err(error) => return Err(error),
        }
        base = match client.get(resource, At::of(&base)).await {
            Ok(live) if meta_text(&live, "uid") == uid => Cow::Owned(live),
            Ok(_) | Err(Error::NotFound(_)) => return Ok(Edited::Gone),
            Err(error) => return Err(error),
        };
    }
    Err(Error::Contended {
        what: format!("{} {}", resource, meta_text(&base, "name")),
        tries: TRIES,
    })
}

/// The finalizers of an object.
pub fn finalizers(object: &Value) -> Vec<String> {
    let listed = object.pointer("/metadata/finalizers");
    let listed = listed.and_then(Value::as_array).into_iter().flatten();
    listed
        .filter_map(|finalizer| finalizer.as_str().map(str::to_owned))
        .collect()
}
