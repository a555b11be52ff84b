//! A repository as a scenario.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use everflow_env::{Disk, RealDisk};
use everflow_json::{Value, json};
use everflow_local::entry;
use everflow_local::kinds::{self, MissingKind};
use everflow_local::stand_in::{Repository, StandIns};
use everflow_local::tree::Tree;
use everflow_sim::{Scenario, Settings};

use crate::exit::Failure;

/// The scenario of a repository, with its directories standing for its sources.
pub fn scenario(
    path: &Path,
    wanted: Option<&str>,
    within: Duration,
) -> Result<(Scenario, Settings), Failure> {
    let usage = |why: &dyn std::fmt::Display| Failure::Usage(format!("{}: {why}", path.display()));
    if !path.is_dir() {
        return Err(usage(&"it must be a directory"));
    }
    let disk = RealDisk::new(path).map_err(|error| usage(&error))?;
    let tree = Tree::new(Arc::new(disk) as Arc<dyn Disk>);
    let remote = tree
        .text(".git/config")
        .and_then(|text| entry::remote_in(&text));
    let contents = tree
        .contents()
        .map_err(|error| Failure::Work(error.to_string()))?;
    let chosen = entry::choose(&tree, &contents, wanted, remote.as_deref());
    let entry = chosen.map_err(|error| Failure::Usage(error.to_string()))?;
    let known = |group: &str, kind: &str| {
        everflow_api::KINDS
            .iter()
            .any(|info| info.group == group && info.kind == kind)
    };
    let reach = entry::Reach::of(&tree, &contents);
    let reached = reach.reached(&tree, &contents, &entry.directory);
    let missing = kinds::missing(&contents, &reach, reached.as_ref(), &|group, kind| {
        known(group, kind) || is_built_in(group)
    });
    let mut objects: Vec<Value> = missing.iter().map(MissingKind::assumed).collect();
    for object in &entry.objects {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        if !namespace.is_empty() {
            objects.push(json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace},
            }));
        }
        objects.push(object.clone());
    }
    let stand_ins = StandIns {
        repository: Some(Repository {
            used: Repository::used(&tree, &contents),
            tree,
            remote,
            sources: [&entry.source]
                .into_iter()
                .chain(&entry.also)
                .cloned()
                .collect(),
        }),
        mapped: Vec::new(),
        offline: true,
        cache: None,
    };
    let about = format!(
        "The repository {} from {:?} on.",
        path.display(),
        entry.directory
    );
    let scenario = Scenario::of_objects("repository", &about, objects, within.as_secs());
    let settings = Settings {
        stand_ins: Some(Arc::new(stand_ins)),
        trees: true,
        ..Settings::default()
    };
    Ok((scenario, settings))
}

/// Whether a group comes with Kubernetes.
fn is_built_in(group: &str) -> bool {
    group.is_empty() || !group.contains('.') || group.ends_with(".k8s.io")
}
