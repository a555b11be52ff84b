//! Where a repository begins: the first Kustomization and its source.

use everflow_api::view;
use everflow_env::disk::{below, clean};
use serde_json::{Value, json};

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
}

/// Finds the places where a repository may begin, the most telling kind of place only: sync
/// manifests of Flux, FluxInstances, the directories of `clusters/`, directories with Kustomizations of
/// Flux that no other deploys, a kustomization at the root, manifests anywhere.
pub fn find(tree: &Tree, contents: &Contents, remote: Option<&str>) -> Result<Vec<Entry>, Error> {
    let objects = &contents.objects;
    let files = objects.chunk_by(|one, two| one.path == two.path);
    let syncs = files.filter_map(sync_manifest).collect();
    let instances = objects.iter().filter_map(flux_instance).collect();
    let outermost = outermost(contents, remote);
    for found in [syncs, instances, clusters(tree, remote), outermost] {
        if !found.is_empty() {
            return Ok(without_repeats(found));
        }
    }
    let why = match (tree.has_kustomization(""), contents.manifests.is_empty()) {
        (true, _) => "kustomization.yaml at the root",
        (false, false) => "manifests at the root",
        (false, true) => return Err(Error::NothingFound),
    };
    Ok(vec![made_up("", why, remote)])
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
        return found.pop().ok_or(Error::NothingFound);
    };
    let directory = clean(wanted);
    if !tree.has_directory(&directory) {
        return Err(Error::NoSuchEntry(wanted.to_owned()));
    }
    let found = find(tree, contents, remote).unwrap_or_default();
    let found = found.into_iter().find(|entry| entry.directory == directory);
    Ok(found.unwrap_or_else(|| made_up(&directory, "as asked for", remote)))
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
        objects,
    })
}

/// The sync of a FluxInstance of the Flux operator.
fn flux_instance(found: &Found) -> Option<Entry> {
    let object = &found.object;
    if object["kind"] != "FluxInstance" || !is_of(object, "fluxcd.controlplane.io") {
        return None;
    }
    let sync = object["spec"]["sync"].as_object()?;
    let text = |name: &str| sync.get(name).and_then(Value::as_str);
    let namespace = match view::namespace(object) {
        "" => FLUX_SYSTEM,
        namespace => namespace,
    };
    let directory = clean(text("path").unwrap_or_default());
    let name = text("name").unwrap_or(namespace);
    let kind = text("kind").unwrap_or("GitRepository");
    let mut entry = Entry {
        why: format!("FluxInstance in {}", found.path),
        source: (namespace.to_owned(), name.to_owned()),
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

fn clusters(tree: &Tree, remote: Option<&str>) -> Vec<Entry> {
    let directories = tree.directories("clusters");
    directories
        .iter()
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

/// The directories with Kustomizations that no other Kustomization deploys.
fn outermost(contents: &Contents, remote: Option<&str>) -> Vec<Entry> {
    let all = kustomizations(contents);
    let deploys = |by: &Found, file: &Found| {
        let path = clean(by.object["spec"]["path"].as_str().unwrap_or_default());
        // One without a path mostly deploys from elsewhere.
        by.path != file.path && !path.is_empty() && file.path.starts_with(&format!("{path}/"))
    };
    let outer = all
        .iter()
        .filter(|file| !all.iter().any(|by| deploys(by, file)));
    let mut directories: Vec<&str> = outer
        .map(|file| {
            file.path
                .rsplit_once('/')
                .map_or("", |(directory, _)| directory)
        })
        .collect();
    directories.sort_unstable();
    directories.dedup();
    // What lies below another one is deployed with it.
    let above = |directory: &&str, other: &&str| {
        directory != other && directory.starts_with(&format!("{other}/"))
    };
    let tops = directories
        .iter()
        .filter(|directory| !directories.iter().any(|other| above(directory, other)));
    tops.map(|directory| made_up(directory, "Kustomizations that no other deploys", remote))
        .collect()
}

/// A sync that no file describes.
fn made_up(directory: &str, why: &str, remote: Option<&str>) -> Entry {
    Entry {
        directory: directory.to_owned(),
        why: why.to_owned(),
        source: (FLUX_SYSTEM.to_owned(), FLUX_SYSTEM.to_owned()),
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

/// Whether two addresses name the same repository, however they are written: with or without
/// `.git`, over SSH or HTTPS, as `git@host:path`.
pub fn same_repository(one: &str, two: &str) -> bool {
    let (one, two) = (address(one), address(two));
    !one.is_empty() && one == two
}

/// Whether two addresses end in the same name, as those of a repository and its fork do.
pub fn same_name(one: &str, two: &str) -> bool {
    let name = |url: &str| {
        address(url)
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    !name(one).is_empty() && name(one) == name(two)
}

/// Host and path of an address, without scheme, user, port and `.git`.
fn address(url: &str) -> String {
    let url = url.trim().trim_end_matches('/');
    let (rest, has_scheme) = match url.split_once("://") {
        Some((_, rest)) => (rest.to_owned(), true),
        None => (url.to_owned(), false),
    };
    let rest = match rest.split_once('@') {
        Some((user, rest)) if !user.contains('/') => rest.to_owned(),
        _ => rest,
    };
    let rest = match has_scheme {
        true => rest,
        false => rest.replacen(':', "/", 1),
    };
    let (host, path) = rest.split_once('/').unwrap_or((&rest, ""));
    let host = host.split(':').next().unwrap_or_default().to_lowercase();
    let path = path.trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    below(&host, path)
}

/// The address of the remote `origin` (else of the first remote) in the text of `.git/config`.
pub fn remote_in(config: &str) -> Option<String> {
    let mut section = String::new();
    let mut first = None;
    for line in config.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_end_matches(']').to_owned();
        } else if section.starts_with("remote ")
            && let Some((name, value)) = line.split_once('=')
            && name.trim() == "url"
        {
            let url = value.trim().to_owned();
            if section == "remote \"origin\"" {
                return Some(url);
            }
            first.get_or_insert(url);
        }
    }
    first
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

    #[test]
    fn addresses_of_one_repository() {
        let same = [
            "https://github.com/org/fleet.git",
            "ssh://git@github.com/org/fleet",
            "git@github.com:org/fleet.git",
            "ssh://git@github.com:22/org/fleet.git",
            "https://token@GitHub.com/org/fleet/",
        ];
        for other in same {
            assert!(same_repository(same[0], other), "{other}");
        }
        assert!(!same_repository(same[0], "https://github.com/org/fleet2"));
        assert!(!same_repository("", ""));
        let config = "[core]\n\tbare = false\n[remote \"up\"]\n\turl = a\n[remote \"origin\"]\n\turl = git@x:y.git\n";
        assert_eq!(remote_in(config).as_deref(), Some("git@x:y.git"));
    }
}
