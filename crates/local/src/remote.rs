//! What kustomizations name on other machines.

use everflow_json::Value;
use everflow_kustomize::{FILE_NAMES, is_remote};

use crate::entry::Reached;
use crate::tree::{Contents, Tree};

/// Something on another machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// Its address.
    pub address: String,
    /// The kustomization that names it.
    pub file: String,
}

/// All of them in the files that are read, by file.
pub fn named(tree: &Tree, contents: &Contents, reached: Option<&Reached>) -> Vec<Remote> {
    let mut found = Vec::new();
    for path in &contents.manifests {
        let name = path.rsplit('/').next().unwrap_or(path);
        if !FILE_NAMES.contains(&name) || reached.is_some_and(|reached| !reached.has(path)) {
            continue;
        }
        let text = tree.text(path).unwrap_or_default();
        let Ok(file) = everflow_yaml::sigs::yaml_to_json(text.as_bytes()) else {
            continue;
        };
        let addresses = addresses(&file).into_iter();
        found.extend(addresses.map(|address| Remote {
            address,
            file: path.clone(),
        }));
    }
    found
}

fn addresses(file: &Value) -> Vec<String> {
    let list = |value: &Value| -> Vec<String> {
        let items = value.as_array().into_iter().flatten();
        items
            .filter_map(|item| item.as_str().map(str::to_owned))
            .collect()
    };
    let mut paths: Vec<String> = ["resources", "bases", "components"]
        .into_iter()
        .flat_map(|field| list(&file[field]))
        .collect();
    for field in ["configMapGenerator", "secretGenerator"] {
        for generator in file[field].as_array().into_iter().flatten() {
            let files = list(&generator["files"]).into_iter();
            // `key=path`, or a path.
            paths.extend(files.map(|file| match file.split_once('=') {
                Some((key, path)) if !key.contains(':') => path.to_owned(),
                _ => file,
            }));
        }
    }
    paths.retain(|path| is_remote(path));
    paths
}

#[cfg(test)]
mod tests {
    use everflow_json::json;

    use super::*;

    #[test]
    fn addresses_of_a_kustomization() {
        let file = json!({
            "resources": ["./a.yaml", "https://host/crds.yaml", "github.com/o/r//d?ref=v1"],
            "configMapGenerator": [{"files": ["b.json=https://host/b.json?x=y", "c=d"]}],
        });
        assert_eq!(
            addresses(&file),
            [
                "https://host/crds.yaml",
                "github.com/o/r//d?ref=v1",
                "https://host/b.json?x=y",
            ]
        );
    }
}
