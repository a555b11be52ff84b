//! The files of a repository.

use std::sync::Arc;

use everflow_env::Disk;
use everflow_env::disk::{EntryKind, read_all};
use everflow_yaml::documents::yaml_or_json_decoder;
use serde_json::Value;

use crate::Error;

/// Larger files are no manifests.
const LARGEST_MANIFEST: u64 = 4 << 20;
/// A tree deeper than this has a loop of mounts in it.
const DEEPEST: usize = 64;

/// A directory with the files of a repository, uncommitted changes included.
#[derive(Debug, Clone)]
pub struct Tree {
    disk: Arc<dyn Disk>,
}

/// An object and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The file, relative to the repository.
    pub path: String,
    /// The object.
    pub object: Value,
}

impl Tree {
    /// The files below the root of a disk.
    pub fn new(disk: Arc<dyn Disk>) -> Self {
        Tree { disk }
    }

    /// The disk that the files lie on.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// Whether there is a directory of that path.
    pub fn has_directory(&self, path: &str) -> bool {
        path.is_empty()
            || self
                .disk
                .entry(path)
                .is_ok_and(|entry| entry.kind == EntryKind::Directory)
    }

    /// Whether a directory has a file that makes it a kustomization.
    pub fn has_kustomization(&self, directory: &str) -> bool {
        ["kustomization.yaml", "kustomization.yml", "Kustomization"]
            .iter()
            .any(|name| self.has_file(&joined(directory, name)))
    }

    fn has_file(&self, path: &str) -> bool {
        self.disk
            .entry(path)
            .is_ok_and(|entry| entry.kind == EntryKind::File)
    }

    /// The directories in a directory, sorted.
    pub fn directories(&self, path: &str) -> Vec<String> {
        let entries = self.disk.list(path).unwrap_or_default();
        entries
            .into_iter()
            .filter(|entry| entry.kind == EntryKind::Directory && !entry.name.starts_with('.'))
            .map(|entry| joined(path, &entry.name))
            .collect()
    }

    /// The text of a file, when there is one.
    pub fn text(&self, path: &str) -> Option<String> {
        let bytes = read_all(&*self.disk, path, LARGEST_MANIFEST).ok()?;
        String::from_utf8(bytes).ok()
    }

    /// All YAML files, sorted by path; directories of version control are left out.
    pub fn manifests(&self) -> Result<Vec<String>, Error> {
        let mut files = Vec::new();
        self.walk("", 0, &mut files)?;
        Ok(files)
    }

    fn walk(&self, directory: &str, depth: usize, files: &mut Vec<String>) -> Result<(), Error> {
        let entries = self.disk.list(directory).map_err(|source| Error::Read {
            path: shown(directory).to_owned(),
            source,
        })?;
        for entry in entries {
            let path = joined(directory, &entry.name);
            match entry.kind {
                EntryKind::Directory if entry.name != ".git" && depth < DEEPEST => {
                    self.walk(&path, depth + 1, files)?;
                }
                EntryKind::File if is_yaml(&entry.name) && entry.size <= LARGEST_MANIFEST => {
                    files.push(path);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The objects in a file; none when it is no manifest, such as a template.
    pub fn objects(&self, path: &str) -> Vec<Found> {
        let text = self.text(path).unwrap_or_default();
        let objects = read_objects(&text).unwrap_or_default();
        let found = |object| Found {
            path: path.to_owned(),
            object,
        };
        objects.into_iter().map(found).collect()
    }
}

/// The Kubernetes objects in a text of YAML documents, lists taken apart.
pub fn read_objects(text: &str) -> Result<Vec<Value>, String> {
    let mut objects = Vec::new();
    for decoded in yaml_or_json_decoder(text.as_bytes()) {
        let object = decoded.and_then(|decoded| decoded.into_object());
        let Some(object) = object.map_err(|error| error.to_string())? else {
            continue;
        };
        let is_list = object["kind"].as_str().is_some_and(|k| k.ends_with("List"));
        match (is_list, object["items"].as_array()) {
            (true, Some(items)) => objects.extend(items.iter().cloned()),
            _ => objects.push(object),
        }
    }
    objects.retain(|object| object["apiVersion"].is_string() && object["kind"].is_string());
    Ok(objects)
}

/// A path in a directory, where the root is the empty path.
pub fn joined(directory: &str, name: &str) -> String {
    match directory.is_empty() {
        true => name.to_owned(),
        false => format!("{directory}/{name}"),
    }
}

/// A path as a person writes it, where the root is `.`.
pub fn shown(path: &str) -> &str {
    if path.is_empty() { "." } else { path }
}

/// `./clusters//a/` as `clusters/a`; parts that would leave the repository are dropped, as Flux
/// joins paths.
pub fn plain(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

fn is_yaml(name: &str) -> bool {
    name.ends_with(".yaml") || name.ends_with(".yml")
}
