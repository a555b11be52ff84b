//! The files of a repository.

use std::sync::Arc;
use std::time::SystemTime;

use everflow_env::Disk;
use everflow_env::disk::{EntryKind, below, read_all};
use everflow_fetch::archive::ignore::read_patterns;
use everflow_fetch::archive::{Ignore, Pattern};
use everflow_json::Value;
use everflow_yaml::documents::yaml_or_json_decoder;

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

/// A file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Relative to the repository.
    pub path: String,
    /// Its size.
    pub size: u64,
    /// When it was last changed.
    pub modified: SystemTime,
}

/// The YAML files of a repository and the objects in them, each read once.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Contents {
    /// All YAML files that may be manifests, sorted by path.
    pub manifests: Vec<String>,
    /// The objects in them, file by file.
    pub objects: Vec<Found>,
    /// Pipes, sockets and devices: they are left out and never opened.
    pub special: Vec<String>,
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
            .any(|name| self.has_file(&below(directory, name)))
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
            .map(|entry| below(path, &entry.name))
            .collect()
    }

    /// The text of a file, when there is one.
    pub fn text(&self, path: &str) -> Option<String> {
        let bytes = read_all(&*self.disk, path, LARGEST_MANIFEST).ok()?;
        String::from_utf8(bytes).ok()
    }

    /// All files that git would track, sorted by path within each directory; what `.gitignore`
    /// files leave out is not listed.
    pub fn files(&self) -> Result<Vec<File>, Error> {
        Ok(self.walk()?.files)
    }

    fn walk(&self) -> Result<Walk<'_>, Error> {
        let mut walk = Walk {
            tree: self,
            ignored: Vec::new(),
            files: Vec::new(),
            special: Vec::new(),
        };
        walk.directory("", 0)?;
        Ok(walk)
    }

    /// All YAML files that may be manifests, sorted by path.
    pub fn manifests(&self) -> Result<Vec<String>, Error> {
        Ok(manifests(self.files()?))
    }

    /// Reads all manifests.
    pub fn contents(&self) -> Result<Contents, Error> {
        let Walk { files, special, .. } = self.walk()?;
        let manifests = manifests(files);
        let objects = manifests.iter().flat_map(|path| self.objects(path));
        Ok(Contents {
            objects: objects.collect(),
            manifests,
            special,
        })
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

/// Goes through the directories.
struct Walk<'t> {
    tree: &'t Tree,
    /// The patterns of `.gitignore` files so far.
    ignored: Vec<Pattern>,
    files: Vec<File>,
    /// What is neither a file nor a directory nor a link.
    special: Vec<String>,
}

impl Walk<'_> {
    fn directory(&mut self, directory: &str, depth: usize) -> Result<(), Error> {
        let listed = self.tree.disk.list(directory);
        let entries = listed.map_err(|source| Error::Read {
            path: shown(directory).to_owned(),
            source,
        })?;
        let before = self.ignored.len();
        if let Some(text) = self.tree.text(&below(directory, ".gitignore")) {
            self.ignored.extend(read_patterns(&text, &scope(directory)));
        }
        let ignore = Ignore::only(self.ignored.clone());
        for entry in entries {
            let path = below(directory, &entry.name);
            let is_directory = entry.kind == EntryKind::Directory;
            if entry.name == ".git" || ignore.leaves_out(&path, is_directory) {
                continue;
            }
            match entry.kind {
                EntryKind::Directory if depth < DEEPEST => self.directory(&path, depth + 1)?,
                EntryKind::File => self.files.push(File {
                    path,
                    size: entry.size,
                    modified: entry.modified,
                }),
                EntryKind::Special => self.special.push(path),
                _ => {}
            }
        }
        self.ignored.truncate(before);
        Ok(())
    }
}

/// The parts of a directory's path, which patterns in it are in force below.
pub fn scope(directory: &str) -> Vec<String> {
    let parts = directory.split('/').filter(|part| !part.is_empty());
    parts.map(str::to_owned).collect()
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

/// A path as a person writes it, where the root is `.`.
pub fn shown(path: &str) -> &str {
    if path.is_empty() { "." } else { path }
}

/// Those of the files that may be manifests.
fn manifests(files: Vec<File>) -> Vec<String> {
    let may_be_one = |file: &File| is_yaml(&file.path) && file.size <= LARGEST_MANIFEST;
    let files = files.into_iter();
    files.filter(may_be_one).map(|file| file.path).collect()
}

fn is_yaml(name: &str) -> bool {
    name.ends_with(".yaml") || name.ends_with(".yml")
}
