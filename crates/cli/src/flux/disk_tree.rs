//! A directory as the source of a build, and nothing outside of it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use everflow_fetch::archive::Ignore;
use everflow_kustomize::{FileView, Located, TreeView, ViewError};

/// A directory; `/` is the top of it.
pub struct DiskTree {
    root: PathBuf,
    ignored: Option<(String, Ignore)>,
}

impl DiskTree {
    /// The tree at a directory.
    pub fn new(root: &Path) -> io::Result<Self> {
        Ok(DiskTree {
            root: fs::canonicalize(root)?,
            ignored: None,
        })
    }

    /// Hides files below a directory of the tree from listings.
    pub fn hide(&mut self, directory: &str, ignore: Ignore) {
        self.ignored = Some((directory.trim_end_matches('/').to_owned(), ignore));
    }

    fn real(&self, path: &str, operation: &'static str) -> Result<PathBuf, ViewError> {
        let joined = self.root.join(path.trim_start_matches('/'));
        let real = fs::canonicalize(&joined).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => ViewError::NotFound {
                operation,
                path: self.first_missing(path),
            },
            _ => ViewError::Other(format!("{operation} {path}: {error}")),
        })?;
        match real.starts_with(&self.root) {
            true => Ok(real),
            false => Err(ViewError::Outside {
                operation: if operation == "open" { "read" } else { "abs" },
                path: real.display().to_string(),
                root: self.root.display().to_string(),
            }),
        }
    }

    fn first_missing(&self, path: &str) -> String {
        let mut seen = String::new();
        for part in path.split('/').filter(|part| !part.is_empty()) {
            seen = format!("{seen}/{part}");
            if fs::symlink_metadata(self.root.join(seen.trim_start_matches('/'))).is_err() {
                break;
            }
        }
        seen
    }

    fn inner(&self, real: &Path) -> String {
        let below = real.strip_prefix(&self.root).unwrap_or(real);
        format!("/{}", below.to_string_lossy())
    }
}

impl FileView for DiskTree {
    fn locate(&self, path: &str) -> Result<Located, ViewError> {
        let real = self.real(path, "lstat")?;
        let inner = self.inner(&real);
        Ok(match real.is_dir() {
            true => Located::Directory(inner),
            false => Located::File(inner),
        })
    }

    fn read(&self, path: &str) -> Result<Arc<[u8]>, ViewError> {
        let real = self.real(path, "open")?;
        if real.is_dir() {
            return Err(ViewError::Other(format!("read {path}: is a directory")));
        }
        fs::read(&real)
            .map(Into::into)
            .map_err(|error| ViewError::Other(format!("open {path}: {error}")))
    }
}

impl TreeView for DiskTree {
    fn entries(&self, directory: &str) -> Result<Vec<String>, ViewError> {
        let real = self.real(directory, "open")?;
        let unreadable = |error: io::Error| ViewError::Other(format!("open {directory}: {error}"));
        let mut names = Vec::new();
        for entry in fs::read_dir(&real).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{}/{name}", directory.trim_end_matches('/'));
            let is_hidden = self.ignored.as_ref().is_some_and(|(scope, ignore)| {
                let below = path.strip_prefix(scope).unwrap_or(&path);
                ignore.leaves_out(below.trim_start_matches('/'), entry.path().is_dir())
            });
            if !is_hidden {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }
}
