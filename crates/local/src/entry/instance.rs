//! Where the Flux operator is told to begin.

use everflow_api::view;
use everflow_env::disk::clean;
use everflow_yaml::sigs;
use serde_json::{Value, json};

use super::{Entry, FLUX_SYSTEM, NO_REMOTE, Sync, is_of, sync_objects};
use crate::tree::{Contents, Tree};

/// The syncs of all FluxInstances: those that are objects, and those that are values of the chart
/// that makes one.
pub fn all(tree: &Tree, contents: &Contents) -> Vec<Entry> {
    let mut found = Vec::new();
    for one in &contents.objects {
        let object = &one.object;
        let (instance, what) = match object["kind"].as_str().unwrap_or_default() {
            "FluxInstance" if is_of(object, "fluxcd.controlplane.io") => {
                (&object["spec"], "FluxInstance")
            }
            "HelmRelease" => (
                &object["spec"]["values"]["instance"],
                "values of a FluxInstance",
            ),
            _ => continue,
        };
        let why = format!("{what} in {}", one.path);
        found.extend(entry(&instance["sync"], view::namespace(object), why));
    }
    let with_objects: std::collections::BTreeSet<&str> = contents
        .objects
        .iter()
        .map(|one| one.path.as_str())
        .collect();
    let values = contents.manifests.iter().filter(|path| {
        path.contains("flux") && path.contains("values") && !with_objects.contains(path.as_str())
    });
    for path in values {
        let text = tree.text(path).unwrap_or_default();
        let Ok(values) = sigs::yaml_to_json(text.as_bytes()) else {
            continue;
        };
        let why = format!("values of a FluxInstance in {path}");
        found.extend(entry(&values["instance"]["sync"], "", why));
    }
    found
}

fn entry(sync: &Value, namespace: &str, why: String) -> Option<Entry> {
    let sync = sync.as_object()?;
    let text = |name: &str| sync.get(name).and_then(Value::as_str);
    let namespace = match namespace {
        "" => FLUX_SYSTEM,
        namespace => namespace,
    };
    let directory = clean(text("path").unwrap_or_default());
    if directory.contains('$') {
        return None;
    }
    let name = text("name").unwrap_or(namespace);
    let kind = text("kind").unwrap_or("GitRepository");
    let mut entry = Entry {
        why,
        source: (namespace.to_owned(), name.to_owned()),
        also: Vec::new(),
        objects: sync_objects(&Sync {
            kind,
            namespace,
            name,
            url: text("url").unwrap_or(NO_REMOTE),
            directory: &directory,
        }),
        directory,
    };
    if let Some(reference) = text("ref") {
        entry.objects[1]["spec"]["ref"] = match kind {
            "OCIRepository" => json!({ "tag": reference }),
            _ => json!({ "name": reference }),
        };
    }
    Some(entry)
}
