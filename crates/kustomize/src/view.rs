//! The files a build may read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thiserror::Error;

use crate::paths;

/// Where a path really leads once symbolic links are followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Located {
    /// A file at this clean absolute path.
    File(String),
    /// A directory at this clean absolute path.
    Directory(String),
}

/// Why a view cannot give a file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ViewError {
    /// Nothing is at the path. The text is that of the system call that noticed.
    #[error("{operation} {path}: no such file or directory")]
    NotFound {
        /// `lstat` when locating, `open` when reading.
        operation: &'static str,
        /// The first part of the path that is missing.
        path: String,
    },
    /// The path leads out of what the view shows.
    #[error("fs-security-constraint {operation} {path}: path '{path}' is not in or below '{root}'")]
    Outside {
        /// `abs` when locating, `read` when reading.
        operation: &'static str,
        /// The path that was asked for.
        path: String,
        /// The directory it must be in.
        root: String,
    },
    /// The path is there and cannot be used.
    #[error("{0}")]
    Other(String),
}

/// A read-only tree of files: a directory, an unpacked artifact, a git tree.
///
/// Paths are absolute, slash-separated and clean; `/` is the top of what the view shows.
pub trait FileView {
    /// Follows symbolic links and says what is there.
    fn locate(&self, path: &str) -> Result<Located, ViewError>;

    /// The content of the file at a path that [`FileView::locate`] gave.
    fn read(&self, path: &str) -> Result<Arc<[u8]>, ViewError>;
}

/// A view whose directories can be listed.
pub trait TreeView: FileView {
    /// The names in the directory at a path that [`FileView::locate`] gave, in order of their bytes.
    fn entries(&self, directory: &str) -> Result<Vec<String>, ViewError>;
}

/// A tree of files in memory.
#[derive(Clone, Debug, Default)]
pub struct MemoryView {
    files: BTreeMap<String, Arc<[u8]>>,
    directories: BTreeSet<String>,
    links: BTreeMap<String, String>,
}

/// How many links may be followed in one path, as the Linux kernel has it.
const MAX_LINKS: usize = 40;

impl MemoryView {
    /// A view without files.
    pub fn new() -> Self {
        let mut view = MemoryView::default();
        view.directories.insert("/".to_owned());
        view
    }

    /// Adds a file, and the directories above it.
    pub fn insert(&mut self, path: &str, content: impl Into<Arc<[u8]>>) {
        let path = paths::clean(&format!("/{path}"));
        self.add_directory(paths::parent(&path));
        self.files.insert(path, content.into());
    }

    /// Adds a directory, and those above it.
    pub fn add_directory(&mut self, path: &str) {
        let mut path = paths::clean(&format!("/{path}"));
        while self.directories.insert(path.clone()) {
            path = paths::parent(&path).to_owned();
        }
    }

    /// Adds a symbolic link.
    pub fn link(&mut self, path: &str, target: &str) {
        let path = paths::clean(&format!("/{path}"));
        self.add_directory(paths::parent(&path));
        self.links.insert(path, target.to_owned());
    }
}

impl<P: AsRef<str>, C: Into<Arc<[u8]>>> FromIterator<(P, C)> for MemoryView {
    fn from_iter<I: IntoIterator<Item = (P, C)>>(files: I) -> Self {
        let mut view = MemoryView::new();
        for (path, content) in files {
            view.insert(path.as_ref(), content);
        }
        view
    }
}

impl FileView for MemoryView {
    fn locate(&self, path: &str) -> Result<Located, ViewError> {
        if self.links.is_empty() {
            return self.locate_plain(path);
        }
        let mut links_left = MAX_LINKS;
        let mut rest: Vec<String> = path
            .split('/')
            .filter(|part| !part.is_empty())
            .rev()
            .map(str::to_owned)
            .collect();
        let mut here = "/".to_owned();
        while let Some(part) = rest.pop() {
            let next = paths::join(&here, &part);
            let Some(target) = self.links.get(&next) else {
                here = match self.locate_plain(&next)? {
                    Located::Directory(path) => path,
                    Located::File(path) if rest.is_empty() => return Ok(Located::File(path)),
                    Located::File(path) => {
                        return Err(ViewError::Other(format!("lstat {path}/: not a directory")));
                    }
                };
                continue;
            };
            links_left = links_left
                .checked_sub(1)
                .ok_or_else(|| ViewError::Other("EvalSymlinks: too many links".to_owned()))?;
            if target.starts_with('/') {
                here = "/".to_owned();
            }
            rest.extend(
                target
                    .split('/')
                    .filter(|part| !part.is_empty())
                    .rev()
                    .map(str::to_owned),
            );
        }
        Ok(Located::Directory(here))
    }

    fn read(&self, path: &str) -> Result<Arc<[u8]>, ViewError> {
        match self.files.get(path) {
            Some(content) => Ok(Arc::clone(content)),
            None if self.directories.contains(path) => {
                Err(ViewError::Other(format!("read {path}: is a directory")))
            }
            None => match self.locate(path) {
                Ok(Located::File(real)) if real != path => self.read(&real),
                _ => Err(ViewError::NotFound {
                    operation: "open",
                    path: path.to_owned(),
                }),
            },
        }
    }
}

impl TreeView for MemoryView {
    fn entries(&self, directory: &str) -> Result<Vec<String>, ViewError> {
        if !self.directories.contains(directory) {
            return Err(ViewError::NotFound {
                operation: "open",
                path: directory.to_owned(),
            });
        }
        let prefix = match directory {
            "/" => "/".to_owned(),
            other => format!("{other}/"),
        };
        let below = |path: &String| {
            let name = path.strip_prefix(&prefix)?;
            (!name.is_empty() && !name.contains('/')).then(|| name.to_owned())
        };
        let from = || prefix.clone()..;
        let in_reach = |path: &&String| path.starts_with(&prefix);
        let files = self.files.range(from()).map(|(path, _)| path);
        let links = self.links.range(from()).map(|(path, _)| path);
        let directories = self.directories.range(from());
        let mut names: Vec<String> = files
            .take_while(in_reach)
            .filter_map(below)
            .chain(links.take_while(in_reach).filter_map(below))
            .chain(directories.take_while(in_reach).filter_map(below))
            .collect();
        names.sort_unstable();
        Ok(names)
    }
}

impl MemoryView {
    fn locate_plain(&self, path: &str) -> Result<Located, ViewError> {
        if self.files.contains_key(path) {
            return Ok(Located::File(path.to_owned()));
        }
        if self.directories.contains(path) {
            return Ok(Located::Directory(path.to_owned()));
        }
        let mut missing = path;
        loop {
            let parent = paths::parent(missing);
            if parent == missing || self.directories.contains(parent) {
                break;
            }
            missing = parent;
        }
        Err(ViewError::NotFound {
            operation: "lstat",
            path: missing.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed_and_loops_end() {
        let mut view: MemoryView = [("/app/base/a.yaml", b"a".as_slice())]
            .into_iter()
            .collect();
        view.link("/app/current", "base");
        view.link("/loop", "loop");
        assert_eq!(
            view.locate("/app/current/a.yaml"),
            Ok(Located::File("/app/base/a.yaml".to_owned()))
        );
        assert!(matches!(view.locate("/loop"), Err(ViewError::Other(_))));
    }

    #[test]
    fn directories_are_listed_in_order() {
        let mut view: MemoryView = [
            ("/app/b.yaml", b"b".as_slice()),
            ("/app/a/x.yaml", b"x"),
            ("/app-2/c.yaml", b"c"),
        ]
        .into_iter()
        .collect();
        view.link("/app/z", "b.yaml");
        assert_eq!(view.entries("/app").unwrap(), ["a", "b.yaml", "z"]);
        assert_eq!(view.entries("/").unwrap(), ["app", "app-2"]);
        assert!(view.entries("/none").is_err());
    }

    #[test]
    fn the_first_missing_part_is_named() {
        let view: MemoryView = [("/app/a.yaml", b"a".as_slice())].into_iter().collect();
        assert_eq!(
            view.locate("/app/none/b.yaml").map_err(|e| e.to_string()),
            Err("lstat /app/none: no such file or directory".to_owned())
        );
    }
}
