//! Paths that a repository leaves open: made of variables, or meant for another root.

use std::collections::BTreeSet;

use everflow_env::disk::clean;

use super::kustomizations;
use crate::tree::{Contents, Tree};

/// The directories with manifests that a path with variables may stand for: with the values that
/// the repository has for them, or else all that look like it.
pub fn directories(contents: &Contents, path: &str) -> Vec<String> {
    match with_values(contents, path) {
        known if !known.is_empty() => known,
        _ => alike(contents, path),
    }
}

/// The directories that the values of a variable lead to.
fn with_values(contents: &Contents, path: &str) -> Vec<String> {
    let (Some(start), Some(end)) = (path.find("${"), path.find('}')) else {
        return Vec::new();
    };
    let Some(inner) = path.get(start + 2..end) else {
        return Vec::new();
    };
    let name = inner.split(':').next().unwrap_or_default();
    let values = contents.objects.iter().filter_map(|found| {
        let object = &found.object;
        let holder = match object["kind"].as_str()? {
            "ConfigMap" => &object["data"],
            "Kustomization" => &object["spec"]["postBuild"]["substitute"],
            _ => return None,
        };
        holder[name].as_str()
    });
    let filled =
        values.map(|value| clean(&format!("{}{value}{}", &path[..start], &path[end + 1..])));
    let filled: BTreeSet<String> = filled.filter(|path| !path.contains('$')).collect();
    let has_manifests = |directory: &String| {
        let mut files = contents.manifests.iter();
        files.any(|file| {
            file.strip_prefix(directory.as_str())
                .is_some_and(|rest| rest.starts_with('/'))
        })
    };
    filled.into_iter().filter(has_manifests).collect()
}

/// The directories with manifests whose names a path with variables may come to.
fn alike(contents: &Contents, path: &str) -> Vec<String> {
    let depth = path.split('/').count();
    let mut found = BTreeSet::new();
    for file in &contents.manifests {
        let parts: Vec<&str> = file.split('/').collect();
        let is_hidden = parts.iter().any(|part| part.starts_with('.'));
        if parts.len() <= depth || is_hidden {
            continue;
        }
        let wanted = path.split('/');
        if wanted.zip(&parts).all(|(wanted, part)| fits(wanted, part)) {
            found.insert(parts[..depth].join("/"));
        }
    }
    found.into_iter().collect()
}

/// Whether a name may come of a text with variables.
fn fits(wanted: &str, name: &str) -> bool {
    match (wanted.find("${"), wanted.rfind('}')) {
        (Some(start), Some(end)) if start < end => {
            let (before, after) = (&wanted[..start], &wanted[end + 1..]);
            name.len() > before.len() + after.len()
                && name.starts_with(before)
                && name.ends_with(after)
        }
        _ => wanted == name,
    }
}

/// The directory of this repository that its Kustomizations take for the root, as they do where
/// only that directory is published: none of what they deploy is here, and all of it is there.
pub fn published_root(tree: &Tree, contents: &Contents) -> Option<String> {
    let paths: Vec<String> = kustomizations(contents)
        .into_iter()
        .filter_map(|found| found.object["spec"]["path"].as_str())
        .map(clean)
        .filter(|path| !path.is_empty())
        .collect();
    let heads: BTreeSet<&str> = paths
        .iter()
        .filter_map(|path| path.split('/').next())
        .filter(|head| !head.contains('$'))
        .collect();
    if heads.is_empty() || heads.iter().any(|head| tree.has_directory(head)) {
        return None;
    }
    let has_all = |root: &String| {
        let mut heads = heads.iter();
        heads.all(|head| tree.has_directory(&format!("{root}/{head}")))
    };
    let mut roots = tree.directories("").into_iter().filter(has_all);
    match (roots.next(), roots.next()) {
        (Some(root), None) => Some(root),
        _ => None,
    }
}
