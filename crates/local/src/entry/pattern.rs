//! Paths that a repository leaves open: made of variables, or meant for another root.

use std::collections::BTreeSet;

use everflow_env::disk::clean;

use super::kustomizations;
use crate::tree::{Contents, Tree};

/// The directories with manifests that a path with variables may stand for.
pub fn directories(contents: &Contents, path: &str) -> Vec<String> {
    let depth = path.split('/').count();
    let mut found = BTreeSet::new();
    for file in &contents.manifests {
        let parts: Vec<&str> = file.split('/').collect();
        if parts.len() <= depth {
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
