//! The Kustomization of Flux itself, where it stands apart from its source or is made of patches.

use everflow_api::view;
use everflow_env::disk::clean;
use everflow_json::Value;

use super::{Entry, FLUX_SYSTEM, kustomizations, made_up};
use crate::tree::{Contents, Found, Tree};

/// The directories that Kustomizations named `flux-system` deploy.
pub fn all(tree: &Tree, contents: &Contents, remote: Option<&str>) -> Vec<Entry> {
    let own = kustomizations(contents).into_iter();
    let own: Vec<&Found> = own
        .filter(|found| view::name(&found.object) == FLUX_SYSTEM)
        .collect();
    // What the others are patches of.
    let is_base = |spec: &&Value| spec["path"].as_str().is_some_and(|path| path.contains('$'));
    let specs = own.iter().map(|found| &found.object["spec"]);
    let bases: Vec<&Value> = specs.filter(is_base).collect();
    let entries = own.iter().filter_map(|found| {
        let spec = &found.object["spec"];
        let directory = clean(spec["path"].as_str()?);
        if directory.is_empty() || !tree.has_directory(&directory) {
            return None;
        }
        let why = format!("Kustomization {FLUX_SYSTEM} in {}", found.path);
        let mut entry = made_up(&directory, &why, remote);
        for spec in bases.iter().copied().chain([spec]) {
            take_over(&mut entry, spec);
        }
        Some(entry)
    });
    entries.collect()
}

/// The first build is to go as those that follow: with the same variables and keys.
fn take_over(entry: &mut Entry, spec: &Value) {
    let made_up = entry.objects.last_mut();
    let Some(own) = made_up.and_then(|object| object["spec"].as_object_mut()) else {
        return;
    };
    for (name, value) in spec.as_object().into_iter().flatten() {
        if !["path", "sourceRef", "dependsOn"].contains(&name.as_str()) {
            merge(own.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}

/// Puts the fields of one value over those of another.
fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => into.clone_from(from),
    }
}
