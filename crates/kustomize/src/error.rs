//! What can go wrong in a build.

use everflow_limits::Exceeded;
use thiserror::Error;

/// Why a build failed. The text names the file, the field and the object; outer steps stand in
/// front of inner ones, as `kustomize build` prints them.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// A step that failed because of what it wraps.
    #[error("{context}: {source}")]
    Context {
        /// What was being done.
        context: String,
        /// Why it failed.
        source: Box<Error>,
    },
    /// A file or directory that is not there or cannot be read.
    #[error("{0}")]
    Load(String),
    /// A path that leads out of the root it may not leave.
    #[error("{0}")]
    Restricted(String),
    /// A base that includes itself.
    #[error("{0}")]
    Cycle(String),
    /// Text that is not YAML or JSON.
    #[error("{0}")]
    Malformed(String),
    /// A kustomization or plugin configuration that says something impossible.
    #[error("{0}")]
    Configuration(String),
    /// An object that cannot be used as a resource.
    #[error("{0}")]
    Resource(String),
    /// Two objects with one identity.
    #[error("{0}")]
    Conflict(String),
    /// A patch that does not apply.
    #[error("{0}")]
    Patch(String),
    /// A field that has another shape than a transformer needs.
    #[error("{0}")]
    Field(String),
    /// A name reference that fits more than one object.
    #[error("{0}")]
    Reference(String),
    /// A replacement that cannot be made.
    #[error("{0}")]
    Replacement(String),
    /// A variable that cannot be filled.
    #[error("{0}")]
    Variable(String),
    /// A plugin that is not built in, or that was asked for something it cannot do.
    #[error("{0}")]
    Plugin(String),
    /// A resource that would have to be fetched.
    #[error("{0}")]
    Remote(String),
    /// A chart that cannot be inflated.
    #[error("{0}")]
    Helm(String),
    /// An input that is larger or deeper than any build may read.
    #[error("{0}")]
    Limit(String),
    /// A build that would cost more than it may. The steps that led to it are not told, of which there
    /// can be many, but the file.
    #[error(transparent)]
    Exceeded(Box<Excess>),
}

/// What there is too much of, and where.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}{}{cause}", Place(file), Place(field))]
pub struct Excess {
    /// The file, as far as known.
    pub file: String,
    /// The field in it, or the object, as far as known.
    pub field: String,
    /// What there is too much of.
    #[source]
    pub cause: Exceeded,
}

/// `kustomization.yaml: `, or nothing.
struct Place<'a>(&'a str);

impl std::fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            "" => Ok(()),
            place => write!(f, "{place}: "),
        }
    }
}

impl From<Exceeded> for Error {
    fn from(cause: Exceeded) -> Self {
        Error::Exceeded(Box::new(Excess {
            file: String::new(),
            field: String::new(),
            cause,
        }))
    }
}

/// The result of anything here.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A stable word for the cause, the same whatever steps led to it.
    pub fn reason(&self) -> &'static str {
        match self {
            Error::Context { source, .. } => source.reason(),
            Error::Load(_) => "LoadFailed",
            Error::Restricted(_) => "RestrictedPath",
            Error::Cycle(_) => "Cycle",
            Error::Malformed(_) => "MalformedYAML",
            Error::Configuration(_) => "InvalidKustomization",
            Error::Resource(_) => "InvalidResource",
            Error::Conflict(_) => "IdConflict",
            Error::Patch(_) => "PatchFailed",
            Error::Field(_) => "InvalidField",
            Error::Reference(_) => "AmbiguousReference",
            Error::Replacement(_) => "ReplacementFailed",
            Error::Variable(_) => "VariableFailed",
            Error::Plugin(_) => "PluginRefused",
            Error::Remote(_) => "RemoteRefused",
            Error::Helm(_) => "HelmFailed",
            Error::Limit(_) => "LimitExceeded",
            Error::Exceeded(excess) => excess.cause.reason(),
        }
    }

    /// The same error with what was being done in front of it.
    #[must_use]
    pub fn within(self, context: impl Into<String>) -> Self {
        match self {
            Error::Exceeded(_) => self,
            source => Error::Context {
                context: context.into(),
                source: Box::new(source),
            },
        }
    }

    /// What there is too much of, if that is the cause.
    pub fn exceeded(&self) -> Option<&Exceeded> {
        match self {
            Error::Exceeded(excess) => Some(&excess.cause),
            _ => None,
        }
    }

    /// Names the file of an error about a limit, unless one is named already.
    pub(crate) fn in_file(mut self, path: impl FnOnce() -> String) -> Self {
        if let Error::Exceeded(excess) = &mut self
            && excess.file.is_empty()
        {
            excess.file = path();
        }
        self
    }

    /// Names the field of an error about a limit.
    pub(crate) fn in_field(mut self, name: impl FnOnce() -> String) -> Self {
        if let Error::Exceeded(excess) = &mut self
            && excess.field.is_empty()
        {
            excess.field = name();
        }
        self
    }

    /// Says in which field stands what an error about a limit names.
    pub(crate) fn above_field(mut self, name: &str) -> Self {
        if let Error::Exceeded(excess) = &mut self {
            excess.field = format!("{name} {}", excess.field);
        }
        self
    }

    /// True when the cause is text that does not parse.
    pub(crate) fn is_malformed(&self) -> bool {
        matches!(self.cause(), Error::Malformed(_))
    }

    /// The innermost error.
    pub fn cause(&self) -> &Error {
        match self {
            Error::Context { source, .. } => source.cause(),
            other => other,
        }
    }
}

/// Puts a context in front of an error.
pub(crate) trait Within<T> {
    /// The context is made only when there is an error.
    fn within(self, context: impl FnOnce() -> String) -> Result<T>;

    /// Names the file if the error is about a limit.
    fn in_file(self, path: impl FnOnce() -> String) -> Result<T>;

    /// Names the field if the error is about a limit.
    fn in_field(self, name: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Within<T> for Result<T> {
    fn within(self, context: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| match error {
            Error::Exceeded(_) => error,
            error => error.within(context()),
        })
    }

    fn in_file(self, path: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| error.in_file(path))
    }

    fn in_field(self, name: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| error.in_field(name))
    }
}
