//! Where the Flux operator is told to begin.

use everflow_api::view;
use everflow_env::DEFAULT_SHARE;
use everflow_env::disk::clean;
use everflow_json::{Value, json};
use everflow_kustomize::{MemoryView, Options, Plugins, Reorder};
use everflow_limits::{Budget, Stop};
use everflow_yaml::sigs;

use super::{Entry, FLUX_SYSTEM, NO_REMOTE, Sync, is_of, pattern, sync_objects};
use crate::tree::{Contents, Tree, read_objects};

/// The kinds of what the operator makes for a sync.
const OF_A_SYNC: [&str; 4] = ["Kustomization", "GitRepository", "OCIRepository", "Bucket"];

/// What a FluxInstance is told.
pub struct Instance {
    /// The fields of its spec.
    pub spec: Value,
    /// The file that says so.
    pub path: String,
    namespace: String,
    /// What stands in that file.
    what: &'static str,
}

/// The syncs of all FluxInstances.
pub fn all(tree: &Tree, contents: &Contents) -> Vec<Entry> {
    let instances = instances(tree, contents);
    let entries = instances.iter().flat_map(|one| entries(one, contents));
    entries.collect()
}

/// All FluxInstances: those that are objects, and those that are values of the chart that makes one.
pub fn instances(tree: &Tree, contents: &Contents) -> Vec<Instance> {
    let mut found = Vec::new();
    for one in &contents.objects {
        let object = &one.object;
        let (spec, what) = match object["kind"].as_str().unwrap_or_default() {
            "FluxInstance" if is_of(object, "fluxcd.controlplane.io") => {
                (&object["spec"], "FluxInstance")
            }
            "HelmRelease" => (
                &object["spec"]["values"]["instance"],
                "values of a FluxInstance",
            ),
            _ => continue,
        };
        found.push(Instance {
            spec: spec.clone(),
            path: one.path.clone(),
            namespace: view::namespace(object).to_owned(),
            what,
        });
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
        found.push(Instance {
            spec: values["instance"].clone(),
            path: path.clone(),
            namespace: String::new(),
            what: "values of a FluxInstance",
        });
    }
    found.retain(|instance| instance.spec.is_object());
    found
}

/// The sync of an instance; several where variables in its path leave that open, none where others
/// say the path when they install the chart.
fn entries(instance: &Instance, contents: &Contents) -> Vec<Entry> {
    let Some(path) = instance.spec["sync"]["path"].as_str() else {
        return Vec::new();
    };
    let directory = clean(path);
    let directories = match directory.contains('$') {
        true => pattern::directories(contents, &directory),
        false => vec![directory],
    };
    let entry = |directory| entry(instance, directory);
    directories.into_iter().map(entry).collect()
}

fn entry(instance: &Instance, directory: String) -> Entry {
    let sync = &instance.spec["sync"];
    let text = |name: &str| sync.get(name).and_then(Value::as_str);
    let namespace = match instance.namespace.as_str() {
        "" => FLUX_SYSTEM,
        namespace => namespace,
    };
    let name = text("name").unwrap_or(namespace);
    let kind = text("kind").unwrap_or("GitRepository");
    let mut objects = sync_objects(&Sync {
        kind,
        namespace,
        name,
        url: text("url").unwrap_or(NO_REMOTE),
        directory: &directory,
    });
    if let Some(reference) = text("ref") {
        objects[1]["spec"]["ref"] = match kind {
            "OCIRepository" => json!({ "tag": reference }),
            _ => json!({ "name": reference }),
        };
    }
    Entry {
        why: format!("{} in {}", instance.what, instance.path),
        source: (namespace.to_owned(), name.to_owned()),
        also: Vec::new(),
        objects: patched(objects, &instance.spec["kustomize"]["patches"]),
        directory,
        invented: false,
    }
}

/// The objects of a sync with the instance's patches for them. Those for the controllers are not
/// made: none are installed here.
fn patched(objects: Vec<Value>, patches: &Value) -> Vec<Value> {
    let patches = patches.as_array().into_iter().flatten();
    let patches: Vec<&Value> = patches.filter(|patch| is_about(patch, &objects)).collect();
    if patches.is_empty() {
        return objects;
    }
    let file = json!({ "resources": ["sync.yaml"], "patches": patches }).to_string();
    let texts: Vec<String> = objects.iter().map(Value::to_string).collect();
    let view: MemoryView = [
        ("/kustomization.yaml", file.into_bytes()),
        ("/sync.yaml", texts.join("\n---\n").into_bytes()),
    ]
    .into_iter()
    .collect();
    let options = Options {
        reorder: Reorder::None,
        ..Options::default()
    };
    let budget = Budget::new(Stop::new(), DEFAULT_SHARE);
    let built = everflow_kustomize::build(&view, "/", &options, Plugins::default(), &budget);
    let built = built.and_then(|output| output.to_yaml_within(&budget));
    // A patch that does not fit is told by the operator, not here.
    match built.ok().and_then(|text| read_objects(&text).ok()) {
        Some(built) if built.len() == objects.len() => built,
        _ => objects,
    }
}

/// Whether a patch is one for the objects of a sync.
fn is_about(patch: &Value, objects: &[Value]) -> bool {
    if let Some(kind) = patch["target"]["kind"].as_str() {
        return OF_A_SYNC.iter().any(|known| kind.contains(known));
    }
    let text = patch["patch"].as_str().unwrap_or_default();
    let own = sigs::yaml_to_json(text.as_bytes()).unwrap_or_default();
    let is_it = |object: &Value| {
        object["kind"] == own["kind"] && object["metadata"]["name"] == own["metadata"]["name"]
    };
    patch["target"].is_null() && objects.iter().any(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(spec: Value) -> Instance {
        Instance {
            spec,
            path: "flux.yaml".into(),
            namespace: String::new(),
            what: "FluxInstance",
        }
    }

    #[test]
    fn patches_for_the_sync_are_made() {
        let instance = json!({
            "sync": { "kind": "OCIRepository", "path": "clusters/one" },
            "kustomize": { "patches": [
                {
                    "target": { "kind": "Kustomization" },
                    "patch": "- op: add\n  path: /spec/decryption\n  value: {provider: sops}\n",
                },
                {
                    "target": { "kind": "OCIRepository", "name": "flux-system" },
                    "patch": "- op: add\n  path: /spec/insecure\n  value: true\n",
                },
                {
                    "target": { "kind": "Deployment" },
                    "patch": "- op: add\n  path: /spec/replicas\n  value: 3\n",
                },
            ] },
        });
        let found = entries(&told(instance), &Contents::default());
        let [namespace, source, kustomization] = &found[0].objects[..] else {
            panic!("{:?}", found[0].objects);
        };
        assert_eq!(namespace["kind"], "Namespace");
        assert_eq!(source["spec"]["insecure"], true);
        assert_eq!(kustomization["spec"]["decryption"]["provider"], "sops");
        assert_eq!(kustomization["spec"]["path"], "./clusters/one");
    }

    #[test]
    fn without_a_path_there_is_no_place_to_begin() {
        let instance = json!({ "sync": { "kind": "GitRepository" } });
        assert!(entries(&told(instance), &Contents::default()).is_empty());
    }

    #[test]
    fn variables_in_a_path_stand_for_what_is_there() {
        let contents = Contents {
            manifests: vec![
                "clusters/one/flux/a.yaml".into(),
                "clusters/two/flux/b/c.yaml".into(),
                "clusters/three/apps/d.yaml".into(),
            ],
            ..Contents::default()
        };
        let instance = json!({ "sync": { "path": "./clusters/${CLUSTER}/flux" } });
        let found = entries(&told(instance), &contents);
        let directories: Vec<&str> = found.iter().map(|entry| &*entry.directory).collect();
        assert_eq!(directories, ["clusters/one/flux", "clusters/two/flux"]);
    }
}
