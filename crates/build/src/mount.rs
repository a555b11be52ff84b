//! The source as kustomize sees it: under a directory of its own, with files replaced, and with
//! nothing outside.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use everflow_kustomize::{FILE_NAMES, FileView, Located, TreeView, ViewError, paths};

/// Where the source appears to kustomize. Whatever leads elsewhere leads out of it; messages lose
/// it before they are shown.
const ROOT: &str = "/everflow-source";

/// The source under its directory.
pub struct Mount<'a> {
    tree: &'a dyn TreeView,
    replaced: BTreeMap<String, Arc<[u8]>>,
    reads: RefCell<BTreeSet<String>>,
}

impl<'a> Mount<'a> {
    /// Mounts a source.
    pub fn new(tree: &'a dyn TreeView) -> Self {
        Mount {
            tree,
            replaced: BTreeMap::new(),
            reads: RefCell::default(),
        }
    }

    /// The source itself.
    pub fn tree(&self) -> &'a dyn TreeView {
        self.tree
    }

    /// The path under which kustomize finds a path of the source.
    pub fn outer(inner: &str) -> String {
        match inner {
            "/" => ROOT.to_owned(),
            inner => format!("{ROOT}{inner}"),
        }
    }

    /// The path in the source, unless it leads out of it.
    fn inner(path: &str) -> Option<String> {
        match path.strip_prefix(ROOT)? {
            "" => Some("/".to_owned()),
            rest if rest.starts_with('/') => Some(rest.to_owned()),
            _ => None,
        }
    }

    /// Gives a file of the source another content, or adds one.
    pub fn replace(&mut self, inner: &str, content: impl Into<Arc<[u8]>>) {
        self.replaced.insert(inner.to_owned(), content.into());
    }

    /// The content of a file of the source, as kustomize would see it.
    pub fn content(&self, inner: &str) -> Result<Arc<[u8]>, ViewError> {
        match self.replaced.get(inner) {
            Some(content) => Ok(Arc::clone(content)),
            None => self.tree.read(inner),
        }
    }

    /// The kustomization files that were read so far, with their content in the source.
    pub fn kustomizations_read(&self) -> Vec<(String, Arc<[u8]>)> {
        let reads = self.reads.borrow();
        let is_one = |path: &&String| FILE_NAMES.contains(&paths::base(path));
        let files = reads.iter().filter(is_one);
        let read = files.filter_map(|path| Some((path.clone(), self.tree.read(path).ok()?)));
        read.collect()
    }

    /// The files of the source that were read so far, but for those that were replaced.
    pub fn files_read(&self) -> Vec<String> {
        let reads = self.reads.borrow();
        let is_own = |path: &&String| !self.replaced.contains_key(*path);
        reads.iter().filter(is_own).cloned().collect()
    }
}

/// A message with paths relative to the source.
pub fn relative(message: &str) -> String {
    message.replace(&format!("{ROOT}/"), "").replace(ROOT, ".")
}

fn to_outer(error: ViewError) -> ViewError {
    match error {
        ViewError::NotFound { operation, path } => ViewError::NotFound {
            operation,
            path: Mount::outer(&path),
        },
        other => other,
    }
}

fn outside(operation: &'static str, path: &str) -> ViewError {
    ViewError::Outside {
        operation,
        path: path.to_owned(),
        root: ROOT.to_owned(),
    }
}

impl FileView for Mount<'_> {
    fn locate(&self, path: &str) -> Result<Located, ViewError> {
        let inner = Mount::inner(path).ok_or_else(|| outside("abs", path))?;
        if self.replaced.contains_key(&inner) {
            return Ok(Located::File(path.to_owned()));
        }
        match self.tree.locate(&inner).map_err(to_outer)? {
            Located::File(real) => Ok(Located::File(Mount::outer(&real))),
            Located::Directory(real) => Ok(Located::Directory(Mount::outer(&real))),
        }
    }

    fn read(&self, path: &str) -> Result<Arc<[u8]>, ViewError> {
        let inner = Mount::inner(&paths::clean(path)).ok_or_else(|| outside("read", path))?;
        let content = self.content(&inner).map_err(to_outer)?;
        self.reads.borrow_mut().insert(inner);
        Ok(content)
    }
}
