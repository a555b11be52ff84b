//! The file system as a build sees it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use everflow_kustomize::{FileView, Located, ViewError};

/// The whole file system, read-only.
#[derive(Debug, Default)]
pub struct DiskView {
    /// Where directories really are; asking the system for every file would cost more than reading
    /// them.
    directories: RefCell<HashMap<PathBuf, PathBuf>>,
}

impl DiskView {
    fn real_directory(&self, directory: &Path) -> io::Result<PathBuf> {
        if let Some(known) = self.directories.borrow().get(directory) {
            return Ok(known.clone());
        }
        let real = fs::canonicalize(directory)?;
        self.directories
            .borrow_mut()
            .insert(directory.to_owned(), real.clone());
        Ok(real)
    }

    fn real_path(&self, path: &Path) -> io::Result<(PathBuf, bool)> {
        let metadata = fs::symlink_metadata(path)?;
        if !metadata.file_type().is_symlink()
            && let (Some(parent), Some(name)) = (path.parent(), path.file_name())
        {
            return Ok((self.real_directory(parent)?.join(name), metadata.is_dir()));
        }
        let real = fs::canonicalize(path)?;
        let is_directory = fs::metadata(&real)?.is_dir();
        Ok((real, is_directory))
    }
}

impl FileView for DiskView {
    fn locate(&self, path: &str) -> Result<Located, ViewError> {
        let (real, is_directory) = self
            .real_path(Path::new(path))
            .map_err(|error| locate_error(path, &error))?;
        let text = real.to_string_lossy().into_owned();
        Ok(if is_directory {
            Located::Directory(text)
        } else {
            Located::File(text)
        })
    }

    fn read(&self, path: &str) -> Result<Arc<[u8]>, ViewError> {
        let not_found = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        match fs::read(path) {
            Ok(content) => Ok(content.into()),
            Err(error) if not_found(&error) => Err(ViewError::NotFound {
                operation: "open",
                path: path.to_owned(),
            }),
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
                Err(ViewError::Other(format!("read {path}: is a directory")))
            }
            Err(error) => Err(ViewError::Other(format!("open {path}: {error}"))),
        }
    }
}

fn locate_error(path: &str, error: &io::Error) -> ViewError {
    if error.kind() != io::ErrorKind::NotFound {
        return ViewError::Other(format!("lstat {path}: {error}"));
    }
    let missing = Path::new(path)
        .ancestors()
        .take_while(|ancestor| fs::symlink_metadata(ancestor).is_err())
        .last()
        .unwrap_or(Path::new(path));
    ViewError::NotFound {
        operation: "lstat",
        path: missing.to_string_lossy().into_owned(),
    }
}
