//! Loading files from one root, within its restrictions.

use std::rc::Rc;
use std::sync::Arc;

use crate::error::{Error, Result, Within};
use crate::meter::Meter;
use crate::options::{LoadRestriction, RemoteFiles};
use crate::paths;
use crate::remote::{self, RepoUrl};
use crate::view::{FileView, Located, ViewError};

/// How many kustomizations may include one another in a row.
const MAX_DEPTH: usize = 200;

/// Loads what a kustomization in one directory names.
#[derive(Clone)]
pub struct Loader<'a> {
    view: &'a dyn FileView,
    remote: Option<&'a dyn RemoteFiles>,
    restriction: LoadRestriction,
    without_remote: bool,
    meter: &'a Meter<'a>,
    place: Rc<Place>,
}

/// A root, and the one whose kustomization led to it.
struct Place {
    root: String,
    referrer: Option<Rc<Place>>,
    /// The repository this root was fetched from.
    repository: Option<RepoUrl>,
    depth: usize,
}

impl<'a> Loader<'a> {
    /// A loader for the directory that is built.
    pub fn new(
        view: &'a dyn FileView,
        directory: &str,
        restriction: LoadRestriction,
        remote: Option<&'a dyn RemoteFiles>,
        meter: &'a Meter<'a>,
    ) -> Result<Self> {
        if let Some(url) = remote::parse_repo_url(directory) {
            return Err(refuse(&url.raw));
        }
        let root = confirm_directory(view, directory)?;
        Ok(Loader {
            view,
            remote,
            restriction,
            without_remote: false,
            meter,
            place: Rc::new(Place {
                root,
                referrer: None,
                repository: None,
                depth: 0,
            }),
        })
    }

    /// Goes on without what is on other machines.
    #[must_use]
    pub fn without_remote(mut self, without: bool) -> Self {
        self.without_remote = without;
        self
    }

    /// Whether a resource or component is left out because it is on another machine.
    pub fn leaves_out(&self, path: &str) -> bool {
        self.without_remote && remote::is_remote(path)
    }

    /// The directory this loader starts from.
    pub fn root(&self) -> &str {
        &self.place.root
    }

    /// What the build may use.
    pub fn meter(&self) -> &'a Meter<'a> {
        self.meter
    }

    /// The content of a file.
    pub fn load(&self, path: &str) -> Result<Arc<[u8]>> {
        if remote::is_http_url(path) {
            if self.without_remote {
                let note = format!("# not fetched: {path}\n");
                return Ok(Arc::from(note.into_bytes()));
            }
            return match self.remote {
                Some(remote) => remote.get(path).map(Arc::from).map_err(Error::Remote),
                None => Err(refuse(path)),
            };
        }
        let absolute = if path.starts_with('/') {
            path.to_owned()
        } else {
            paths::join(self.root(), path)
        };
        let found = match self.restriction {
            LoadRestriction::None => paths::clean(&absolute),
            LoadRestriction::RootOnly => self.confine(&absolute)?,
        };
        let content = self
            .view
            .read(&found)
            .map_err(|error| Error::Load(error.to_string()))?;
        self.meter.add_file().in_file(|| found)?;
        Ok(content)
    }

    fn confine(&self, path: &str) -> Result<String> {
        match locate(self.view, path)? {
            Located::Directory(_) => Err(Error::Load(format!("'{path}' must resolve to a file"))),
            Located::File(real) if paths::is_within(paths::parent(&real), self.root()) => Ok(real),
            Located::File(_) => Err(Error::Restricted(format!(
                "security; file '{path}' is not in or below '{}'",
                self.root()
            ))),
        }
    }

    /// A loader for a base or component that this kustomization names.
    pub fn enter(&self, path: &str) -> Result<Loader<'a>> {
        if path.is_empty() {
            return Err(Error::Configuration("new root cannot be empty".to_owned()));
        }
        if let Some(url) = remote::parse_repo_url(path) {
            return self.enter_repository(url);
        }
        if path.starts_with('/') {
            return Err(Error::Configuration(format!(
                "new root '{path}' cannot be absolute"
            )));
        }
        let root = confirm_directory(self.view, &paths::join(self.root(), path))?;
        self.check_cycle(&root)?;
        self.step(root, None)
    }

    fn enter_repository(&self, url: RepoUrl) -> Result<Loader<'a>> {
        let Some(remote) = self.remote else {
            return Err(refuse(&url.raw));
        };
        let mut place = Some(&self.place);
        while let Some(current) = place {
            if let Some(known) = &current.repository
                && known.raw.starts_with(&url.raw)
            {
                return Err(Error::Cycle(format!(
                    "cycle detected: URI '{}' referenced by previous URI '{}'",
                    url.raw, known.raw
                )));
            }
            place = current.referrer.as_ref();
        }
        let fetched = remote.repository(&url).map_err(Error::Remote)?;
        let root = confirm_directory(self.view, &paths::join(&fetched, &url.directory))?;
        let mut loader = self.step(root, Some(url))?;
        loader.restriction = LoadRestriction::RootOnly;
        Ok(loader)
    }

    fn step(&self, root: String, repository: Option<RepoUrl>) -> Result<Loader<'a>> {
        self.meter.add_file()?;
        let depth = self.place.depth + 1;
        if depth > MAX_DEPTH {
            return Err(Error::Limit(format!(
                "kustomizations include one another more than {MAX_DEPTH} levels deep at '{root}'"
            )));
        }
        Ok(Loader {
            place: Rc::new(Place {
                root,
                referrer: Some(Rc::clone(&self.place)),
                repository,
                depth,
            }),
            ..self.clone()
        })
    }

    fn check_cycle(&self, candidate: &str) -> Result<()> {
        let mut place = Some(&self.place);
        while let Some(current) = place {
            if paths::is_within(&current.root, candidate) {
                return Err(Error::Cycle(format!(
                    "cycle detected: candidate root '{candidate}' contains visited root '{}'",
                    current.root
                )));
            }
            place = current.referrer.as_ref();
        }
        Ok(())
    }
}

fn refuse(path: &str) -> Error {
    Error::Remote(format!(
        "'{path}' is remote: remote resources are disabled, add its files to the source instead"
    ))
}

fn locate(view: &dyn FileView, path: &str) -> Result<Located> {
    view.locate(&paths::clean(&format!("/{path}")))
        .map_err(|error| match error {
            ViewError::Outside { .. } => Error::Restricted(error.to_string()),
            ViewError::NotFound { .. } | ViewError::Other(_) => {
                Error::Load(format!("evalsymlink failure on '{path}' : {error}"))
            }
        })
}

fn confirm_directory(view: &dyn FileView, path: &str) -> Result<String> {
    let located = if path.is_empty() {
        Err(Error::Load("directory path cannot be empty".to_owned()))
    } else {
        match locate(view, path) {
            Ok(Located::Directory(root)) => Ok(root),
            Ok(Located::File(_)) => Err(Error::Load(format!("'{path}': file is not directory"))),
            Err(error) => Err(error.within("not a valid directory")),
        }
    };
    located.within(|| "must build at directory".to_owned())
}
