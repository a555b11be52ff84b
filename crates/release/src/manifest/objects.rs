//! From the text of a manifest to objects.

use everflow_api::inventory::ObjectId;
use everflow_helm::manifests::split_manifests;
use everflow_json::{Value, json};
use everflow_limits::{Budget, Exceeded};
use everflow_yaml::{cost, sigs};

use crate::error::Error;

/// What the cluster knows of kinds.
pub trait Scope {
    /// Whether objects of that kind are in namespaces; none when the kind is not known.
    fn is_namespaced(&self, api_version: &str, kind: &str) -> Option<bool>;

    /// What all objects that are made with it may take; none where manifests are trusted.
    fn budget(&self) -> Option<&Budget> {
        None
    }
}

impl<F: Fn(&str, &str) -> Option<bool>> Scope for F {
    fn is_namespaced(&self, api_version: &str, kind: &str) -> Option<bool> {
        self(api_version, kind)
    }
}

/// The objects of a manifest in its order, lists taken apart, each with the namespace that it goes to.
///
/// # Errors
/// When a document cannot be read, a kind is not known, or the objects take more than they may.
pub fn objects(manifest: &str, namespace: &str, scope: &dyn Scope) -> Result<Vec<Value>, Error> {
    let unlimited = Budget::unlimited();
    let budget = scope.budget().unwrap_or(&unlimited);
    let exceeded = |error: Exceeded| Error::Manifest(error.to_string());
    let mut found = Vec::new();
    for document in split_manifests(manifest) {
        let document = document.as_bytes();
        // Aliases make much of little, and what one document may have many documents must not.
        let (held, limits) = cost::reading(budget, document).map_err(exceeded)?;
        let object = sigs::to_json(document, false, limits)
            .map_err(|error| Error::Manifest(format!("error parsing: {error}")))?;
        drop(held);
        budget.charge(cost::of_json(&object)).map_err(exceeded)?;
        flatten(object, &mut found);
    }
    for object in &mut found {
        place(object, namespace, scope)?;
    }
    Ok(found)
}

/// A list is taken apart; what is no object is left out, as a document of comments alone.
fn flatten(object: Value, found: &mut Vec<Value>) {
    let is_list = object["kind"]
        .as_str()
        .is_some_and(|kind| kind.ends_with("List"));
    match object {
        Value::Object(mut map) if is_list => match map.remove("items") {
            Some(Value::Array(items)) => items.into_iter().for_each(|item| flatten(item, found)),
            _ => found.push(Value::Object(map)),
        },
        Value::Object(_) => found.push(object),
        _ => {}
    }
}

fn place(object: &mut Value, namespace: &str, scope: &dyn Scope) -> Result<(), Error> {
    let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if kind.is_empty() {
        return Err(Error::Manifest(
            "unable to decode \"\": Object 'Kind' is missing".to_owned(),
        ));
    }
    let id = ObjectId::of(object);
    match scope.is_namespaced(&api_version, &kind) {
        Some(true) if id.namespace.is_empty() => {
            if !object["metadata"].is_object() {
                object["metadata"] = json!({});
            }
            object["metadata"]["namespace"] = json!(namespace);
            Ok(())
        }
        Some(_) => Ok(()),
        None => Err(Error::Manifest(format!(
            "resource mapping not found for name: \"{}\" namespace: \"{}\" from \"\": no matches for kind \
             \"{kind}\" in version \"{api_version}\"\nensure CRDs are installed first",
            id.name, id.namespace
        ))),
    }
}

/// Whether an object is a Deployment whose rollout is paused: nobody waits for it.
pub fn paused(object: &Value) -> bool {
    object["apiVersion"] == "apps/v1"
        && object["kind"] == "Deployment"
        && object["spec"]["paused"] == true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(_: &str, kind: &str) -> Option<bool> {
        match kind {
            "Nope" => None,
            kind => Some(kind != "Namespace"),
        }
    }

    #[test]
    fn list_objects_are_expanded_and_namespaces_filled_in() {
        let manifest = "---\n# Source: a\n# only a comment\n---\napiVersion: v1\nkind: List\nitems:\n\
                        - {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n\
                        - {apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: other}}\n\
                        ---\napiVersion: v1\nkind: Namespace\nmetadata: {name: ns}\n";
        let objects = objects(manifest, "apps", &scope).unwrap();
        let ids: Vec<String> = objects
            .iter()
            .map(|object| ObjectId::of(object).subject())
            .collect();
        assert_eq!(
            ids,
            ["ConfigMap/apps/a", "ConfigMap/other/b", "Namespace/ns"]
        );
    }

    #[test]
    fn an_unknown_kind_is_named() {
        let manifest = "apiVersion: nope.example.com/v1\nkind: Nope\nmetadata:\n  name: \"n\"\n";
        let error = objects(manifest, "apps", &scope).unwrap_err().to_string();
        assert_eq!(
            error,
            "unable to build kubernetes objects from release manifest: resource mapping not found for \
             name: \"n\" namespace: \"\" from \"\": no matches for kind \"Nope\" in version \
             \"nope.example.com/v1\"\nensure CRDs are installed first"
        );
    }
}
