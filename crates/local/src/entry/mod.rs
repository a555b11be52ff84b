//! Where a repository begins: the first Kustomization and its source.

mod address;
mod instance;
mod reach;

use everflow_api::view;
use everflow_env::disk::clean;
use serde_json::{Value, json};

pub use address::{remote_in, same_name, same_repository};
use reach::Reach;

use crate::Error;
use crate::tree::{Contents, Found, Tree, shown};

/// The namespace and the name that Flux bootstraps itself with.
pub const FLUX_SYSTEM: &str = "flux-system";
/// Stands for the address of a repository that has none.
const NO_REMOTE: &str = "https://repository.invalid/this-directory";

/// A place to begin.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The directory that the first Kustomization deploys; empty for the root.
    pub directory: String,
    /// How it was found, in words.
    pub why: String,
    /// What is applied first: the source that stands for the repository, and the Kustomization.
    pub objects: Vec<Value>,
    /// The namespace and name of the source that stands for the repository.
    pub source: (String, String),
    /// Further sources that stand for it.
    pub also: Vec<(String, String)>,
}

/// Finds the places where a repository may begin, the most telling kind of place only: sync
/// manifests of Flux, FluxInstances, the directories of `clusters/`, directories with Kustomizations of
/// Flux that no other deploys, a kustomization at the root, kustomizations that no other one uses,
/// manifests anywhere.
pub fn find(tree: &Tree, contents: &Contents, remote: Option<&str>) -> Result<Vec<Entry>, Error> {
    let objects = &contents.objects;
    let files = objects.chunk_by(|one, two| one.path == two.path);
    let syncs: Vec<Entry> = files.filter_map(sync_manifest).collect();
    let there = |entries: Vec<Entry>| -> Vec<Entry> {
        let there = |entry: &Entry| tree.has_directory(&entry.directory);
        entries.into_iter().filter(there).collect()
    };
    let instances = instance::all(tree, contents);
    let elsewhere = instances.iter().find_map(|entry| {
        let root = only_root_of(contents, &entry.directory)?;
        (!tree.has_directory(&entry.directory)).then(|| Error::OtherRoot {
            why: entry.why.clone(),
            directory: entry.directory.clone(),
            root,
        })
    });
    let reach = Reach::of(tree, contents);
    for found in [
        there(syncs),
        there(instances),
        clusters(tree, contents, remote),
    ] {
        if !found.is_empty() {
            return Ok(without_repeats(found));
        }
    }
    if let Some(error) = elsewhere {
        return Err(error);
    }
    let of = |directories: Vec<String>, why: &str| -> Vec<Entry> {
        let entry = |directory: &String| made_up(directory, why, remote);
        directories.iter().map(entry).collect()
    };
    let outermost = reach.outermost(tree, contents);
    if !outermost.is_empty() {
        return Ok(of(outermost, "Kustomizations that no other deploys"));
    }
    if tree.has_kustomization("") {
        return Ok(of(vec![String::new()], "kustomization.yaml at the root"));
    }
    let unused = reach.unused();
    if !unused.is_empty() {
        return Ok(of(unused, "a kustomization that no other uses"));
    }
    match contents.manifests.is_empty() {
        false => Ok(of(vec![String::new()], "manifests at the root")),
        true => Err(Error::NothingFound),
    }
}

/// The directory of this repository that must be the root for a path to be there.
fn only_root_of(contents: &Contents, directory: &str) -> Option<String> {
    let inner = format!("/{directory}/");
    let roots = contents.manifests.iter().filter_map(|file| {
        let at = file.find(&inner)?;
        Some(file[..at].to_owned())
    });
    let roots: std::collections::BTreeSet<String> = roots.collect();
    match roots.len() {
        1 => roots.into_iter().next(),
        _ => None,
    }
}

/// The one place to begin: the one that was asked for, or the only one there is.
pub fn choose(
    tree: &Tree,
    contents: &Contents,
    wanted: Option<&str>,
    remote: Option<&str>,
) -> Result<Entry, Error> {
    let Some(wanted) = wanted else {
        let mut found = find(tree, contents, remote)?;
        if found.len() > 1 {
            let line = |entry: Entry| (shown(&entry.directory).to_owned(), entry.why);
            return Err(Error::Several(found.into_iter().map(line).collect()));
        }
        let entry = found.pop().ok_or(Error::NothingFound)?;
        return Ok(complete(entry, tree, contents, remote));
    };
    let directory = clean(wanted);
    if !tree.has_directory(&directory) {
        return Err(Error::NoSuchEntry(wanted.to_owned()));
    }
    let found = find(tree, contents, remote).unwrap_or_default();
    let found = found.into_iter().find(|entry| entry.directory == directory);
    let entry = found.unwrap_or_else(|| made_up(&directory, "as asked for", remote));
    Ok(complete(entry, tree, contents, remote))
}

/// Adds the sources that nobody defines although Kustomizations deploy own directories from them:
/// whoever installs Flux makes them. Objects of versions that Flux had once are those of today.
fn complete(mut entry: Entry, tree: &Tree, contents: &Contents, remote: Option<&str>) -> Entry {
    for object in &mut entry.objects {
        let former = object["apiVersion"].as_str().unwrap_or_default();
        let kind = object["kind"].as_str().unwrap_or_default();
        if let Some(served) = everflow_api::crd::served_instead(former, kind) {
            object["apiVersion"] = json!(served);
            if let Some(spec) = object["spec"].as_object_mut() {
                // Fields that are gone.
                spec.remove("validation");
                spec.remove("gitImplementation");
            }
        }
    }
    for (kind, namespace, name) in used_sources(tree, contents) {
        let is_it = |object: &Value| object["kind"] == *kind && view::name(object) == name;
        let defined = contents.objects.iter().any(|found| is_it(&found.object))
            || entry.objects.iter().any(is_it);
        if defined || !["GitRepository", "OCIRepository"].contains(&kind.as_str()) {
            continue;
        }
        let sync = Sync {
            kind: &kind,
            namespace: &namespace,
            name: &name,
            url: remote.unwrap_or(NO_REMOTE),
            directory: "",
        };
        let mut objects = sync_objects(&sync);
        objects.truncate(2);
        entry.objects.splice(0..0, objects);
        entry.also.push((namespace, name));
    }
    entry
}

/// Kind, namespace and name of the sources from which Kustomizations deploy directories that the
/// repository has.
pub fn used_sources(tree: &Tree, contents: &Contents) -> Vec<(String, String, String)> {
    let mut used = std::collections::BTreeSet::new();
    for found in kustomizations(contents) {
        let spec = &found.object["spec"];
        let path = clean(spec["path"].as_str().unwrap_or_default());
        if path.is_empty() || !tree.has_directory(&path) {
            continue;
        }
        let source = &spec["sourceRef"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (kind, name) = (text(&source["kind"]), text(&source["name"]));
        let namespace = match (text(&source["namespace"]), view::namespace(&found.object)) {
            (named, _) if !named.is_empty() => named,
            (_, "") => FLUX_SYSTEM.to_owned(),
            (_, own) => own.to_owned(),
        };
        if !name.is_empty() && !name.contains('$') && !namespace.contains('$') {
            used.insert((kind, namespace, name));
        }
    }
    used.into_iter().collect()
}

/// A Kustomization of Flux that deploys from a source in the same file: what `flux bootstrap`
/// writes.
fn sync_manifest(file: &[Found]) -> Option<Entry> {
    let path = &file.first()?.path;
    let objects: Vec<Value> = file.iter().map(|found| found.object.clone()).collect();
    let is_sync_file = path.ends_with("gotk-sync.yaml");
    let kustomization = objects.iter().find(|object| {
        object["kind"] == "Kustomization"
            && is_of(object, "kustomize.toolkit.fluxcd.io")
            && (is_sync_file || view::name(object) == FLUX_SYSTEM)
    })?;
    let reference = &kustomization["spec"]["sourceRef"];
    let source = objects.iter().find(|object| {
        object["kind"] == reference["kind"]
            && is_of(object, "source.toolkit.fluxcd.io")
            && Some(view::name(object)) == reference["name"].as_str()
    })?;
    Some(Entry {
        directory: clean(kustomization["spec"]["path"].as_str().unwrap_or_default()),
        why: format!("sync manifest {path}"),
        source: (
            view::namespace(source).to_owned(),
            view::name(source).to_owned(),
        ),
        also: Vec::new(),
        objects,
    })
}

fn clusters(tree: &Tree, contents: &Contents, remote: Option<&str>) -> Vec<Entry> {
    let directories = tree.directories("clusters");
    let has_manifests = |directory: &&String| {
        let inside = format!("{directory}/");
        contents
            .manifests
            .iter()
            .any(|file| file.starts_with(&inside))
    };
    directories
        .iter()
        .filter(has_manifests)
        .map(|directory| made_up(directory, "directory of clusters/", remote))
        .collect()
}

/// The Kustomizations of Flux in the files of a repository, hidden directories aside.
pub fn kustomizations(contents: &Contents) -> Vec<&Found> {
    let is_one = |found: &&Found| {
        found.object["kind"] == "Kustomization"
            && is_of(&found.object, "kustomize.toolkit.fluxcd.io")
            && !found.path.split('/').any(|part| part.starts_with('.'))
    };
    contents.objects.iter().filter(is_one).collect()
}

/// A sync that no file describes.
fn made_up(directory: &str, why: &str, remote: Option<&str>) -> Entry {
    Entry {
        directory: directory.to_owned(),
        why: why.to_owned(),
        source: (FLUX_SYSTEM.to_owned(), FLUX_SYSTEM.to_owned()),
        also: Vec::new(),
        objects: sync_objects(&Sync {
            kind: "GitRepository",
            namespace: FLUX_SYSTEM,
            name: FLUX_SYSTEM,
            url: remote.unwrap_or(NO_REMOTE),
            directory,
        }),
    }
}

struct Sync<'a> {
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    url: &'a str,
    directory: &'a str,
}

fn sync_objects(sync: &Sync<'_>) -> Vec<Value> {
    let metadata = json!({ "namespace": sync.namespace, "name": sync.name });
    let url = match sync.kind {
        // The definition takes no address of another scheme.
        "OCIRepository" if !sync.url.starts_with("oci://") => "oci://repository.invalid/this",
        "GitRepository" if !is_git_address(sync.url) => NO_REMOTE,
        _ => sync.url,
    };
    vec![
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": sync.namespace } }),
        json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1",
            "kind": sync.kind,
            "metadata": metadata,
            "spec": { "interval": "1m0s", "url": url },
        }),
        json!({
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
            "kind": "Kustomization",
            "metadata": metadata,
            "spec": {
                "interval": "10m0s",
                "path": format!("./{}", sync.directory),
                "prune": true,
                "sourceRef": { "kind": sync.kind, "name": sync.name },
            },
        }),
    ]
}

fn is_git_address(url: &str) -> bool {
    ["http://", "https://", "ssh://"]
        .iter()
        .any(|scheme| url.starts_with(scheme))
}

fn is_of(object: &Value, group: &str) -> bool {
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    api_version
        .split_once('/')
        .is_some_and(|(of, _)| of == group)
}

/// One place for each directory: a cluster may be described twice.
fn without_repeats(entries: Vec<Entry>) -> Vec<Entry> {
    let mut kept: Vec<Entry> = Vec::new();
    for entry in entries {
        if !kept.iter().any(|other| other.directory == entry.directory) {
            kept.push(entry);
        }
    }
    kept.sort_by(|one, two| one.directory.cmp(&two.directory));
    kept
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use everflow_env::disk::write_whole;
    use everflow_env::{Disk, MemoryDisk};

    use super::*;

    fn tree(files: &[(&str, &str)]) -> Tree {
        let disk = MemoryDisk::new();
        for (path, text) in files {
            write_whole(&disk, path, text.as_bytes()).unwrap();
        }
        Tree::new(Arc::new(disk) as Arc<dyn Disk>)
    }

    fn sync(path: &str) -> String {
        format!(
            "apiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata:\n  name: flux-system\n  namespace: flux-system\nspec:\n  url: ssh://git@example.com/org/fleet\n---\napiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata:\n  name: flux-system\n  namespace: flux-system\nspec:\n  path: {path}\n  sourceRef:\n    kind: GitRepository\n    name: flux-system\n"
        )
    }

    fn directories(found: &[Entry]) -> Vec<&str> {
        found.iter().map(|entry| &*entry.directory).collect()
    }

    #[test]
    fn sync_manifests_come_before_all_else() {
        let staging = sync("./clusters/staging/");
        let production = sync("clusters/production");
        let tree = tree(&[
            ("clusters/staging/flux-system/gotk-sync.yaml", &staging),
            (
                "clusters/production/flux-system/gotk-sync.yaml",
                &production,
            ),
            ("clusters/other/a.yaml", "a: 1"),
            ("kustomization.yaml", "resources: []"),
        ]);
        let found = find(&tree, &tree.contents().unwrap(), None).unwrap();
        assert_eq!(
            directories(&found),
            ["clusters/production", "clusters/staging"]
        );
        let error = choose(&tree, &tree.contents().unwrap(), None, None).unwrap_err();
        assert_eq!(error.reason(), "EntryAmbiguous");
        assert!(error.to_string().contains("--entry"), "{error}");
        let chosen = choose(
            &tree,
            &tree.contents().unwrap(),
            Some("./clusters/staging"),
            None,
        )
        .unwrap();
        assert_eq!(chosen.objects.len(), 2);
        assert_eq!(chosen.source, ("flux-system".into(), "flux-system".into()));
    }

    #[test]
    fn a_flux_instance_names_its_path() {
        let instance = "apiVersion: fluxcd.controlplane.io/v1\nkind: FluxInstance\nmetadata:\n  name: flux\n  namespace: flux-system\nspec:\n  sync:\n    kind: OCIRepository\n    url: oci://ghcr.io/org/fleet\n    ref: latest\n    path: clusters/a\n";
        let tree = tree(&[("clusters/a/flux/instance.yaml", instance)]);
        let entry = choose(&tree, &tree.contents().unwrap(), None, None).unwrap();
        assert_eq!(entry.directory, "clusters/a");
        assert_eq!(entry.objects[1]["kind"], "OCIRepository");
        assert_eq!(entry.objects[1]["spec"]["ref"]["tag"], "latest");
    }

    #[test]
    fn clusters_then_the_root() {
        let both = tree(&[("clusters/a/x.yaml", "a: 1"), ("clusters/b/x.yaml", "a: 1")]);
        assert_eq!(
            directories(&find(&both, &both.contents().unwrap(), None).unwrap()),
            ["clusters/a", "clusters/b"]
        );
        let bare = tree(&[("README.md", "hello")]);
        let lone = tree(&[("kustomization.yaml", "resources: []")]);
        assert_eq!(
            directories(&find(&lone, &lone.contents().unwrap(), None).unwrap()),
            [""]
        );
        assert_eq!(
            find(&bare, &bare.contents().unwrap(), None)
                .unwrap_err()
                .reason(),
            "NothingFound"
        );
        let missing = choose(&lone, &lone.contents().unwrap(), Some("nope"), None).unwrap_err();
        assert_eq!(missing.reason(), "EntryNotFound");
    }

    #[test]
    fn kustomizations_that_no_other_deploys() {
        let of = |name: &str, path: &str| sync(path).replace("flux-system", name);
        let cluster = of("cluster", "./kubernetes/apps");
        let app = of("app", "./kubernetes/apps/web/app");
        let hidden = of("old", "./old");
        let tree = tree(&[
            ("kubernetes/flux/cluster/ks.yaml", &cluster),
            ("kubernetes/apps/web/ks.yaml", &app),
            (".archive/old/ks.yaml", &hidden),
        ]);
        assert_eq!(
            directories(&find(&tree, &tree.contents().unwrap(), None).unwrap()),
            ["kubernetes/flux/cluster"]
        );
    }

    fn of(name: &str, path: &str) -> String {
        sync(path).replace("flux-system", name)
    }

    fn alone(name: &str, path: &str) -> String {
        let both = of(name, path);
        both.split_once("---\n").unwrap().1.to_owned()
    }

    #[test]
    fn values_of_a_chart_name_the_path_too() {
        let values = "instance:\n  sync:\n    kind: GitRepository\n    path: k/flux/cluster\n";
        let release = format!(
            "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: flux-instance}}\nspec:\n  values:\n    {}\n",
            values.trim_end().replace('\n', "\n    ")
        );
        for (file, text) in [("k/flux/values.yaml", values), ("k/flux/hr.yaml", &release)] {
            let tree = tree(&[(file, text), ("k/flux/cluster/x.yaml", "a: 1")]);
            let entry = choose(&tree, &tree.contents().unwrap(), None, None).unwrap();
            assert_eq!(entry.directory, "k/flux/cluster", "{file}");
        }
        let tree = tree(&[
            (
                "k/flux/values.yaml",
                "instance: {sync: {path: clusters/one}}\n",
            ),
            ("published/clusters/one/x.yaml", "a: 1"),
        ]);
        let error = choose(&tree, &tree.contents().unwrap(), None, None).unwrap_err();
        assert_eq!(error.reason(), "OtherRoot");
        assert!(error.to_string().contains("PATH/published"), "{error}");
    }

    #[test]
    fn sources_that_nobody_defines_are_made() {
        let apps = alone("apps", "./apps").replace("    name: apps", "    name: home");
        let tree = tree(&[("cluster/apps.yaml", &apps), ("apps/a.yaml", "a: 1")]);
        let entry = choose(&tree, &tree.contents().unwrap(), None, None).unwrap();
        assert_eq!(entry.directory, "cluster");
        assert_eq!(entry.also, [("apps".to_owned(), "home".to_owned())]);
        let made = |object: &&Value| view::name(object) == "home";
        assert_eq!(entry.objects.iter().filter(made).count(), 1);
    }

    #[test]
    fn what_is_used_by_kustomize_is_no_place_to_begin() {
        let files = [
            (
                "clusters-of/one/flux/kustomization.yaml",
                "resources: [../../../deploy/web/ks.yaml, ../../../deploy/db]\n".to_owned(),
            ),
            ("deploy/web/ks.yaml", alone("web", "./deploy/web/app")),
            ("deploy/web/app/a.yaml", "a: 1".to_owned()),
            (
                "deploy/db/kustomization.yaml",
                "resources: [ks.yaml]\n".to_owned(),
            ),
            ("deploy/db/ks.yaml", alone("db", "./deploy/db/app")),
            ("deploy/db/app/a.yaml", "a: 1".to_owned()),
            (
                "parts/x/kustomization.yaml",
                "kind: Component\nresources: [ks.yaml]\n".to_owned(),
            ),
            ("parts/x/ks.yaml", alone("x", "./deploy/db/app")),
            ("archive/old/ks.yaml", alone("old", "./deploy/db/app")),
        ];
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, &**text)).collect();
        let tree = tree(&files);
        assert_eq!(
            directories(&find(&tree, &tree.contents().unwrap(), None).unwrap()),
            ["clusters-of/one/flux"]
        );
    }

    #[test]
    fn overlays_that_no_other_uses() {
        let tree = tree(&[
            ("web/base/kustomization.yaml", "resources: [a.yaml]\n"),
            ("web/base/a.yaml", "a: 1"),
            ("web/staging/kustomization.yaml", "resources: [../base]\n"),
            (
                "web/production/kustomization.yaml",
                "resources: [../base]\n",
            ),
        ]);
        assert_eq!(
            directories(&find(&tree, &tree.contents().unwrap(), None).unwrap()),
            ["web/production", "web/staging"]
        );
    }
}
