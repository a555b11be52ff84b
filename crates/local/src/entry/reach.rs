//! Which files building a directory reads, and so which Kustomizations no other deploys.

use std::collections::{BTreeMap, BTreeSet};

use everflow_env::disk::{below, clean};
use everflow_json::Value;
use everflow_yaml::sigs;

use super::{kustomizations, used_sources};
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
    /// Whether it may give its objects a namespace.
    namespaced: bool,
}

/// What is read when a directory is brought up.
#[derive(Debug, Default)]
pub struct Reached {
    files: BTreeSet<String>,
    kustomizations: BTreeSet<String>,
}

impl Reached {
    /// Whether a manifest or a kustomization file is read.
    pub fn has(&self, file: &str) -> bool {
        let directory = file.rsplit_once('/').map_or("", |(directory, _)| directory);
        self.files.contains(file)
            || (is_kustomization(file) && self.kustomizations.contains(directory))
    }
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
            if !is_kustomization(path) || is_hidden(path) {
                continue;
            }
            let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
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
            // What lies below and is not used is put aside, unless nothing is used at all.
            let inside = paths.get(path).filter(|path| !self.is_empty(path));
            by.path != file
                && (inside.is_some_and(|inside| file.starts_with(&format!("{inside}/")))
                    || deployed.get(path).is_some_and(|files| files.contains(file)))
        };
        let files: BTreeSet<&str> = all.iter().map(|found| found.path.as_str()).collect();
        let links = Links::of(&files, &all, &deploys);
        let mut directories: BTreeSet<String> = BTreeSet::new();
        for (file, in_a_circle) in links.outermost() {
            match in_a_circle.and_then(|by| paths.get(by.object["spec"]["path"].as_str()?)) {
                Some(directory) => drop(directories.insert(directory.clone())),
                None => directories.extend(self.roots(file)),
            }
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

    /// Whether a directory has a kustomization that uses nothing.
    fn is_empty(&self, directory: &str) -> bool {
        let overlay = self.overlays.get(directory);
        overlay.is_some_and(|overlay| overlay.uses.is_empty())
    }

    /// Whether a directory has encrypted objects in it.
    pub fn has_secrets(&self, contents: &Contents, directory: &str) -> bool {
        let files = self.files(directory);
        let mut objects = contents.objects.iter();
        objects.any(|found| found.object["sops"].is_object() && files.contains(&found.path))
    }

    /// What is read when a directory is brought up, by way of Kustomizations of Flux; nothing when
    /// that cannot be told, because some path is not one of this repository as it stands there.
    pub fn reached(&self, tree: &Tree, contents: &Contents, directory: &str) -> Option<Reached> {
        let all = kustomizations(contents);
        let own: BTreeSet<(String, String)> = used_sources(tree, contents)
            .into_iter()
            .map(|(kind, _, name)| (kind, name))
            .collect();
        let mut files = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut known: BTreeSet<usize> = BTreeSet::new();
        self.collect(directory, &mut seen, &mut files);
        loop {
            let is_new = |(index, found): &(usize, &&Found)| {
                files.contains(&found.path) && !known.contains(index)
            };
            let new: Vec<usize> = all
                .iter()
                .enumerate()
                .filter(is_new)
                .map(|it| it.0)
                .collect();
            if new.is_empty() {
                break;
            }
            for index in new {
                known.insert(index);
                let spec = &all[index].object["spec"];
                let path = clean(spec["path"].as_str().unwrap_or_default());
                if tree.has_directory(&path) {
                    self.collect(&path, &mut seen, &mut files);
                } else if path.contains('$') || own.contains(&source_of(spec)) {
                    return None;
                }
                for component in spec["components"].as_array().into_iter().flatten() {
                    let component = component.as_str().unwrap_or_default();
                    self.collect(&clean(&below(&path, component)), &mut seen, &mut files);
                }
            }
        }
        seen.retain(|directory| self.overlays.contains_key(directory));
        Some(Reached {
            files,
            kustomizations: seen,
        })
    }

    /// Whether nobody gives the objects of a file a namespace that have none of their own, although
    /// somebody deploys them: a Kustomization, or whoever begins.
    pub fn is_left_without_namespace(
        &self,
        contents: &Contents,
        file: &str,
        reached: Option<&Reached>,
    ) -> bool {
        let mut tops = BTreeSet::from([file.to_owned()]);
        let mut open = vec![file.to_owned()];
        while let Some(thing) = open.pop() {
            let users = self.overlays.iter();
            for (directory, overlay) in users.filter(|(_, it)| it.uses.contains(&thing)) {
                if overlay.namespaced || overlay.component {
                    return false;
                }
                if tops.insert(directory.clone()) {
                    open.push(directory.clone());
                }
            }
        }
        let deploys = |found: &&Found| {
            let path = clean(found.object["spec"]["path"].as_str().unwrap_or_default());
            let below = format!("{path}/");
            let all_below = path.is_empty() || file.starts_with(&below);
            tops.contains(&path) || (all_below && !self.overlays.contains_key(&path))
        };
        let mut deployed = kustomizations(contents)
            .into_iter()
            .filter(deploys)
            .peekable();
        let is_deployed = deployed.peek().is_some() || reached.is_some_and(|it| it.has(file));
        is_deployed && deployed.all(|found| found.object["spec"]["targetNamespace"].is_null())
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

/// Which files with Kustomizations deploy which others.
struct Links<'a> {
    files: Vec<&'a str>,
    /// For each file those that it deploys.
    onwards: Vec<Vec<usize>>,
    /// For each file who deploys it.
    deployers: Vec<Vec<&'a Found>>,
}

impl<'a> Links<'a> {
    fn of(
        files: &BTreeSet<&'a str>,
        all: &[&'a Found],
        deploys: &dyn Fn(&Found, &str) -> bool,
    ) -> Self {
        let files: Vec<&str> = files.iter().copied().collect();
        let index_of = |path: &str| files.binary_search(&path).ok();
        let mut onwards = vec![Vec::new(); files.len()];
        let mut deployers = vec![Vec::new(); files.len()];
        for (index, file) in files.iter().enumerate() {
            for by in all.iter().copied().filter(|by| deploys(by, file)) {
                deployers[index].push(by);
                onwards[index_of(&by.path).unwrap_or(index)].push(index);
            }
        }
        Links {
            files,
            onwards,
            deployers,
        }
    }

    /// All that a file deploys, by way of others, and itself.
    fn from(&self, file: usize) -> BTreeSet<usize> {
        let mut reached = BTreeSet::new();
        let mut open = vec![file];
        while let Some(next) = open.pop() {
            if reached.insert(next) {
                open.extend(&self.onwards[next]);
            }
        }
        reached
    }

    /// The files that nobody deploys; and of those that deploy each other in a circle, which nobody
    /// else deploys, the one that leads to most, with who deploys it.
    fn outermost(&self) -> Vec<(&'a str, Option<&'a Found>)> {
        let mut outer = Vec::new();
        let mut covered = BTreeSet::new();
        for (index, file) in self.files.iter().enumerate() {
            if self.deployers[index].is_empty() {
                outer.push((*file, None));
                covered.extend(self.from(index));
            }
        }
        let left = (0..self.files.len()).filter(|index| !covered.contains(index));
        let mut left: Vec<(usize, BTreeSet<usize>)> =
            left.map(|index| (index, self.from(index))).collect();
        left.sort_by_key(|(_, reached)| std::cmp::Reverse(reached.len()));
        for (index, reached) in left {
            if covered.contains(&index) {
                continue;
            }
            let back = self.deployers[index].iter().copied();
            let back = back.min_by_key(|by| by.object["spec"]["path"].as_str().map(str::len));
            outer.push((self.files[index], back));
            covered.extend(reached);
        }
        outer
    }
}

/// Kind and name of the source that a Kustomization deploys from.
fn source_of(spec: &Value) -> (String, String) {
    let text = |field: &str| {
        spec["sourceRef"][field]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    (text("kind"), text("name"))
}

fn is_kustomization(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    matches!(name, "kustomization.yaml" | "kustomization.yml")
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
        namespaced: !value["namespace"].is_null() || value["transformers"].is_array(),
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
