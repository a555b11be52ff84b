//! The files of a commit of the repository that a directory belongs to.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use everflow_env::disk::write_whole;
use everflow_env::{Disk, MemoryDisk, RealDisk};
use everflow_git::LocalRepository;

use crate::Error;
use crate::tree::Tree;

/// The files that a directory had at a revision.
pub fn tree_at(directory: &Path, revision: &str) -> Result<Tree, Error> {
    let read = |path: &Path| {
        let shown = path.display().to_string();
        move |source| Error::Read {
            path: shown,
            source,
        }
    };
    let directory = directory.canonicalize().map_err(read(directory))?;
    let (root, own) = find(&directory).ok_or_else(|| Error::NoRepository {
        path: directory.display().to_string(),
    })?;
    let below = directory.strip_prefix(&root).unwrap_or(Path::new(""));
    let below = below.to_string_lossy().replace('\\', "/");
    let common = common_directory(&own);
    let common = RealDisk::new(&common).map_err(read(&common))?;
    let own = RealDisk::new(&own).map_err(read(&own))?;
    let mut repository = LocalRepository::new(Arc::new(common), Arc::new(own));
    let commit = repository.commit(revision)?;
    let disk = MemoryDisk::new();
    repository.files(commit, &below, |path, content| {
        write_whole(&disk, path, content).map_err(|cause| everflow_git::Error::Disk {
            action: "keep",
            path: path.to_owned(),
            cause,
        })
    })?;
    Ok(Tree::new(Arc::new(disk) as Arc<dyn Disk>))
}

/// The work tree that a directory is in, and its directory for git.
fn find(directory: &Path) -> Option<(PathBuf, PathBuf)> {
    directory.ancestors().find_map(|root| {
        let entry = root.join(".git");
        if entry.is_dir() {
            return Some((root.to_owned(), entry));
        }
        // One of several work trees of a repository: a file says where the rest is.
        let text = std::fs::read_to_string(&entry).ok()?;
        let own = text.trim().strip_prefix("gitdir:")?.trim();
        Some((root.to_owned(), root.join(own)))
    })
}

fn common_directory(own: &Path) -> PathBuf {
    match std::fs::read_to_string(own.join("commondir")) {
        Ok(text) => own.join(text.trim()),
        Err(_) => own.to_owned(),
    }
}
