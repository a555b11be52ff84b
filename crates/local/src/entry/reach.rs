//! Which files building a directory reads, and so which Kustomizations no other deploys.

use std::collections::{BTreeMap, BTreeSet};

use everflow_env::disk::{below, clean};
use everflow_yaml::sigs;
use serde_json::Value;

use super::kustomizations;
use crate::tree::{Contents, Found, Tree};

/// Directories of this name hold what is no longer, or not itself, deployed.
const ASIDE: [&str; 8] = [
    "archive",
    "archived",
    "deprecated",
    "disabled",
    "examples",
    "template",
    "templates",
    "testdata",
];

/// A kustomization file.
#[derive(Debug, Default)]
struct Overlay {
    /// Files and directories of the repository that it uses.
    uses: Vec<String>,
    /// Whether others use it to change what they have.
    component: bool,
    /// Whether it uses something that is not in the repository.
    remote: bool,
}

/// The kustomizations of a repository, by directory.
#[derive(Debug)]
pub struct Reach<'c> {
    overlays: BTreeMap<String, Overlay>,
    manifests: BTreeSet<&'c str>,
}

impl<'c> Reach<'c> {
    /// Reads all kustomization files.
    pub fn of(tree: &Tree, contents: &'c Contents) -> Self {
        let mut overlays = BTreeMap::new();
        for path in &contents.manifests {
            let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
            if !matches!(name, "kustomization.yaml" | "kustomization.yml") || is_hidden(path) {
                continue;
            }
            let text = tree.text(path).unwrap_or_default();
            let Ok(value) = sigs::yaml_to_json(text.as_bytes()) else {
                continue;
            };
            // Kustomizations of Flux may be in a file of that name too.
            if value["apiVersion"]
                .as_str()
                .is_some_and(|version| version.contains("toolkit.fluxcd.io"))
            {
                continue;
            }
            overlays.insert(directory.to_owned(), overlay(directory, &value));
        }
        Reach {
            overlays,
            manifests: contents.manifests.iter().map(String::as_str).collect(),
        }
    }

    /// The files that building a directory reads.
    fn files(&self, directory: &str) -> BTreeSet<String> {
        let mut files = BTreeSet::new();
        let mut seen = BTreeSet::new();
        self.collect(directory, &mut seen, &mut files);
        files
    }

    fn collect(&self, directory: &str, seen: &mut BTreeSet<String>, files: &mut BTreeSet<String>) {
        let mut open = vec![directory.to_owned()];
        while let Some(next) = open.pop() {
            if !seen.insert(next.clone()) {
                continue;
            }
            match self.overlays.get(&next) {
                Some(overlay) => open.extend(overlay.uses.iter().cloned()),
                None if self.manifests.contains(next.as_str()) => {
                    files.insert(next);
                }
                // Flux takes all manifests below where there is no kustomization file.
                None => {
                    let inside = format!("{next}/");
                    let all = self.manifests.iter().filter(|file| {
                        (next.is_empty() || file.starts_with(&inside)) && !is_hidden(file)
                    });
                    files.extend(all.map(|file| (*file).to_owned()));
                }
            }
        }
    }

    /// The directories from which all is deployed, the most telling ones only.
    pub fn outermost(&self, tree: &Tree, contents: &Contents) -> Vec<String> {
        let all = kustomizations(contents);
        let paths: BTreeMap<&str, String> = all
            .iter()
            .filter_map(|found| Some((found, found.object["spec"]["path"].as_str()?)))
            .map(|(_, path)| (path, clean(path)))
            .filter(|(_, path)| !path.is_empty() && tree.has_directory(path))
            .collect();
        let deployed: BTreeMap<&str, BTreeSet<String>> = paths
            .iter()
            .map(|(path, directory)| (*path, self.files(directory)))
            .collect();
        let deploys = |by: &Found, file: &str| {
            let Some(path) = by.object["spec"]["path"].as_str() else {
                return false;
            };
            let inside = paths.get(path).map(|path| format!("{path}/"));
            by.path != file
                && (inside.is_some_and(|inside| file.starts_with(&inside))
                    || deployed.get(path).is_some_and(|files| files.contains(file)))
        };
        let files: BTreeSet<&str> = all.iter().map(|found| found.path.as_str()).collect();
        let outer = files
            .iter()
            .filter(|file| !all.iter().any(|by| deploys(by, file)));
        let mut directories: BTreeSet<String> = BTreeSet::new();
        for file in outer {
            directories.extend(self.roots(file));
        }
        // What lies below another one is deployed with it.
        let below_another = |directory: &String| {
            directories.iter().any(|other| {
                directory.starts_with(&format!("{other}/")) && !self.overlays.contains_key(other)
            })
        };
        let tops: Vec<String> = directories
            .iter()
            .filter(|directory| !below_another(directory))
            .cloned()
            .collect();
        let counted = tops
            .into_iter()
            .map(|top| (self.deployed_from(&top, &all, &deployed), top));
        telling(counted.collect())
    }

    /// The directories whose build has a file in it and that no other directory uses.
    fn roots(&self, file: &str) -> Vec<String> {
        let own = file.rsplit_once('/').map_or("", |(directory, _)| directory);
        let mut roots = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut open = vec![(file.to_owned(), own.to_owned())];
        while let Some((thing, top)) = open.pop() {
            if !seen.insert(thing.clone()) {
                continue;
            }
            let mut users = self
                .overlays
                .iter()
                .filter(|(directory, overlay)| {
                    overlay.uses.contains(&thing) && **directory != thing && !overlay.remote
                })
                .peekable();
            if users.peek().is_none() {
                roots.insert(top);
            }
            for (directory, _) in users {
                open.push((directory.clone(), directory.clone()));
            }
        }
        let is_one = |root: &String| !self.overlays.get(root).is_some_and(|root| root.component);
        roots.into_iter().filter(is_one).collect()
    }

    /// How many Kustomizations are deployed from a directory, by way of each other; none when none
    /// of them deploys a directory that is there.
    fn deployed_from(
        &self,
        directory: &str,
        all: &[&Found],
        deployed: &BTreeMap<&str, BTreeSet<String>>,
    ) -> usize {
        let mut reached = self.files(directory);
        let mut known: BTreeSet<usize> = BTreeSet::new();
        let mut live = false;
        loop {
            let new: Vec<usize> = all
                .iter()
                .enumerate()
                .filter(|(index, found)| !known.contains(index) && reached.contains(&found.path))
                .map(|(index, _)| index)
                .collect();
            if new.is_empty() {
                return if live { known.len() } else { 0 };
            }
            for index in new {
                known.insert(index);
                let path = all[index].object["spec"]["path"]
                    .as_str()
                    .unwrap_or_default();
                if let Some(files) = deployed.get(path) {
                    live = true;
                    reached.extend(files.iter().cloned());
                }
            }
        }
    }

    /// The kustomizations that no other one uses.
    pub fn unused(&self) -> Vec<String> {
        let used: BTreeSet<&String> = self
            .overlays
            .values()
            .flat_map(|overlay| &overlay.uses)
            .collect();
        let all = self.overlays.iter();
        let unused = all.filter(|(directory, overlay)| {
            !overlay.component && !used.contains(directory) && !is_aside(directory)
        });
        unused.map(|(directory, _)| directory.clone()).collect()
    }
}

/// Of places with the number of Kustomizations that they lead to, those that matter.
fn telling(counted: Vec<(usize, String)>) -> Vec<String> {
    let most = counted.iter().map(|(count, _)| *count).max().unwrap_or(0);
    let mut kept: Vec<String> = counted
        .into_iter()
        .filter(|(count, _)| *count > 0 && count * 5 >= most)
        .map(|(_, directory)| directory)
        .collect();
    if kept.iter().any(|directory| !is_aside(directory)) {
        kept.retain(|directory| !is_aside(directory));
    }
    kept
}

fn is_hidden(path: &str) -> bool {
    path.split('/').any(|part| part.starts_with('.'))
}

fn is_aside(directory: &str) -> bool {
    directory
        .split('/')
        .any(|part| ASIDE.contains(&part.trim_matches(['_', '.'])))
}

fn overlay(directory: &str, value: &Value) -> Overlay {
    let mut overlay = Overlay {
        component: value["kind"] == "Component",
        ..Overlay::default()
    };
    for field in ["resources", "bases", "components"] {
        for used in value[field].as_array().into_iter().flatten() {
            let Some(used) = used.as_str() else { continue };
            match used.contains("://") || used.starts_with("github.com/") || used.contains("?ref=")
            {
                true => overlay.remote = true,
                false => overlay.uses.push(clean(&below(directory, used))),
            }
        }
    }
    overlay
}
