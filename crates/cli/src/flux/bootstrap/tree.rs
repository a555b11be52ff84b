//! A commit as the source of a build.

use std::sync::{Arc, Mutex, PoisonError};

use everflow_git::{Checkout, Found};
use everflow_json::Value;
use everflow_kustomize::{FileView, LoadRestriction, Located, Options, Plugins, ViewError, build};
use everflow_limits::Budget;

use super::manifests::{KUSTOMIZATION_NAMES, objects_of};
use super::work;
use crate::exit::Failure;

/// The files of a commit.
pub struct CommitTree(Mutex<Checkout>);

impl CommitTree {
    pub fn new(checkout: Checkout) -> Self {
        CommitTree(Mutex::new(checkout))
    }

    fn look(&self, path: &str) -> Result<Option<Found>, String> {
        let mut checkout = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        checkout
            .look(path, &Budget::unlimited())
            .map_err(|error| error.to_string())
    }

    /// The text of a file, when it is there.
    pub fn text(&self, path: &str) -> Result<Option<String>, Failure> {
        match self.look(path).map_err(work)? {
            Some(Found::File(bytes)) => String::from_utf8(bytes)
                .map(Some)
                .map_err(|_| work(format!("{path} in the repository is not text"))),
            _ => Ok(None),
        }
    }

    /// The objects of a directory: what its kustomization builds.
    pub fn objects(&self, directory: &str) -> Result<Vec<Value>, Failure> {
        let top = format!("/{directory}");
        let options = Options {
            // Any file of the repository, as for the Kustomization later; there is nothing outside of it here.
            load_restriction: LoadRestriction::None,
            ..Options::default()
        };
        let budget = Budget::unlimited();
        let built = build(self, &top, &options, Plugins::default(), &budget);
        let text = built.and_then(|output| output.to_yaml());
        let text = text.map_err(|error| work(format!("{directory} does not build: {error}")))?;
        objects_of(&text, directory)
    }

    /// Whether a directory has a kustomization file.
    pub fn has_kustomization(&self, directory: &str) -> Result<bool, Failure> {
        for name in KUSTOMIZATION_NAMES {
            if self.text(&format!("{directory}/{name}"))?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl FileView for CommitTree {
    fn locate(&self, path: &str) -> Result<Located, ViewError> {
        match self.look(path).map_err(ViewError::Other)? {
            Some(Found::Directory) => Ok(Located::Directory(path.to_owned())),
            Some(Found::File(_)) => Ok(Located::File(path.to_owned())),
            None => Err(ViewError::NotFound {
                operation: "lstat",
                path: path.to_owned(),
            }),
        }
    }

    fn read(&self, path: &str) -> Result<Arc<[u8]>, ViewError> {
        match self.look(path).map_err(ViewError::Other)? {
            Some(Found::File(bytes)) => Ok(bytes.into()),
            _ => Err(ViewError::NotFound {
                operation: "open",
                path: path.to_owned(),
            }),
        }
    }
}
