//! Where a repository begins: the first Kustomization and its source.

mod address;
pub(crate) mod instance;
mod own;
mod pattern;
mod reach;

use everflow_api::view;
use everflow_env::disk::clean;
use everflow_json::{Value, json};

pub use address::{remote_in, same_name, same_repository};
pub use reach::{Reach, Reached};

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
    /// Whether no file describes the first Kustomization.
    pub invented: bool,
}

/// Finds the places where a repository may begin, the most telling kind of place only: sync
/// manifests of Flux, FluxInstances, Kustomizations of Flux itself, the directories of `clusters/`,
/// directories with Kustomizations of Flux that no other deploys, a kustomization at the root, kustomizations that no other one uses,
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
    let elsewhere = elsewhere.or_else(|| {
        pattern::published_root(tree, contents).map(|root| Error::PublishedRoot { root })
    });
    for found in [
        there(syncs),
        there(instances),
        own::all(tree, contents, remote),
        clusters(tree, contents, remote),
    ] {
        if !found.is_empty() {
            return Ok(without_repeats(found));
        }
    }
    if let Some(error) = elsewhere {
        return Err(error);
    }
    let reach = Reach::of(tree, contents);
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
    if entry.invented && Reach::of(tree, contents).has_secrets(contents, &entry.directory) {
        decrypt(&mut entry);
    }
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

/// Whoever has secrets in the first directory has a first Kustomization that decrypts them.
fn decrypt(entry: &mut Entry) {
    for object in &mut entry.objects {
        if object["kind"] == "Kustomization" && object["spec"]["decryption"].is_null() {
            object["spec"]["decryption"] = json!({ "provider": "sops" });
        }
    }
}

/// Kind, namespace and name of the sources from which Kustomizations deploy directories that the
/// repository has, or that are named as bootstrapping Flux names the source of all.
pub fn used_sources(tree: &Tree, contents: &Contents) -> Vec<(String, String, String)> {
    let mut used = std::collections::BTreeSet::new();
    for found in kustomizations(contents) {
        let spec = &found.object["spec"];
        let path = clean(spec["path"].as_str().unwrap_or_default());
        let is_here = !path.is_empty() && tree.has_directory(&path);
        let source = &spec["sourceRef"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (kind, name) = (text(&source["kind"]), text(&source["name"]));
        let namespace = match (text(&source["namespace"]), view::namespace(&found.object)) {
            (named, _) if !named.is_empty() => named,
            (_, "") => FLUX_SYSTEM.to_owned(),
            (_, own) => own.to_owned(),
        };
        let is_first = name == FLUX_SYSTEM && namespace == FLUX_SYSTEM;
        if !(is_here || is_first) {
            continue;
        }
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
        invented: false,
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
    // Those of clusters that another one looks after are no place to begin.
    let all = kustomizations(contents);
    let is_deployed = |directory: &&String| {
        let inside = format!("{directory}/");
        all.iter().any(|found| {
            let path = clean(found.object["spec"]["path"].as_str().unwrap_or_default());
            let deploys = path == **directory || path.starts_with(&inside);
            deploys && !found.path.starts_with(&inside)
        })
    };
    directories
        .iter()
        .filter(has_manifests)
        .filter(|directory| !is_deployed(directory))
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
        invented: true,
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
mod tests;
