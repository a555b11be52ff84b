//! What can go wrong before the controllers even start.

use std::io;

/// Why a repository cannot be brought up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The directory could not be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Which file or directory.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// A file that was named is no manifest.
    #[error("{path}: {message}; it must hold Kubernetes objects as YAML or JSON")]
    Manifest {
        /// Which file.
        path: String,
        /// What the parser says.
        message: String,
    },
    /// Nothing in the directory looks like a place to begin.
    #[error(
        "found nothing to deploy: no Flux sync manifest, FluxInstance, clusters/ directory, \
         kustomization.yaml or manifest; name the directory to begin with by --entry DIR"
    )]
    NothingFound,
    /// Several places to begin, and none was chosen.
    #[error("several places to begin; choose one with --entry:\n{}", listed(.0))]
    Several(Vec<(String, String)>),
    /// The repository is published from one of its directories.
    #[error(
        "{why}: the path {directory} is not here but in {root}/{directory}; \
         bring up the directory that is published: PATH/{root}"
    )]
    OtherRoot {
        /// Who says where to begin.
        why: String,
        /// Where it says to begin.
        directory: String,
        /// The directory that has such a path.
        root: String,
    },
    /// All paths of Kustomizations begin in one of the directories.
    #[error(
        "the paths of the Kustomizations are not here but in {root}/; \
         bring up the directory that is published: PATH/{root}"
    )]
    PublishedRoot {
        /// The directory that has such paths.
        root: String,
    },
    /// The directory that was chosen is not there.
    #[error("--entry {0}: there is no such directory in the repository")]
    NoSuchEntry(String),
    /// The cluster in memory does not take an object.
    #[error("{object}: {source}")]
    Refused {
        /// Which object or collection.
        object: String,
        /// Why.
        source: everflow_runtime::Error,
    },
    /// Something of the runtime could not be set up.
    #[error(transparent)]
    Runtime(#[from] everflow_runtime::Error),
    /// The cluster in memory could not be set up.
    #[error("{0}")]
    Server(String),
    /// The artifact could not be made or stored.
    #[error(transparent)]
    Fetch(#[from] everflow_fetch::Error),
    /// A repository cannot be read.
    #[error(transparent)]
    Git(#[from] everflow_git::Error),
    /// The directory is not part of a git repository.
    #[error("{path} is not in a git repository, so there is no revision to compare with")]
    NoRepository {
        /// The directory.
        path: String,
    },
    /// There is no such HelmRelease.
    #[error("{name} is not among the objects of the directory: {known}")]
    NoRelease {
        /// What was looked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// The name of a HelmRelease says too little.
    #[error("there are {first} and {other}: say which one with --namespace")]
    SeveralReleases {
        /// One of them.
        first: String,
        /// Another one.
        other: String,
    },
    /// A HelmRelease cannot be taken as it is.
    #[error("{0}")]
    Release(String),
    /// The chart of a HelmRelease cannot be had; what its sources say.
    #[error("the chart cannot be had: {0}")]
    NoChart(String),
    /// The chart of a HelmRelease does not render with its values.
    #[error(transparent)]
    Rendering(everflow_release::Error),
    /// `--source` was not understood.
    #[error("--source {0}: expected [KIND/]NAME=DIR, such as GitRepository/apps=../apps")]
    SourceMapping(String),
}

impl Error {
    /// A stable word for the failure.
    pub fn reason(&self) -> &'static str {
        match self {
            Error::Read { .. } => "ReadFailed",
            Error::Manifest { .. } => "InvalidManifest",
            Error::NothingFound => "NothingFound",
            Error::Several(_) => "EntryAmbiguous",
            Error::OtherRoot { .. } | Error::PublishedRoot { .. } => "OtherRoot",
            Error::NoSuchEntry(_) => "EntryNotFound",
            Error::Refused { .. } => "Refused",
            Error::Runtime(_) | Error::Server(_) => "SetupFailed",
            Error::Fetch(error) => error.reason(),
            Error::Git(error) => error.reason(),
            Error::NoRepository { .. } => "NoRepository",
            Error::NoRelease { .. } => "ReleaseNotFound",
            Error::SeveralReleases { .. } => "ReleaseAmbiguous",
            Error::Release(_) => "InvalidRelease",
            Error::NoChart(_) => "ChartUnavailable",
            Error::Rendering(_) => "RenderFailed",
            Error::SourceMapping(_) => "InvalidSourceMapping",
        }
    }
}

/// How many places to begin are listed.
const LISTED: usize = 20;

fn listed(entries: &[(String, String)]) -> String {
    let shown = &entries[..entries.len().min(LISTED)];
    let width = shown.iter().map(|(dir, _)| dir.len()).max().unwrap_or(0);
    let line = |(dir, why): &(String, String)| format!("  {dir:width$}  {why}");
    let mut lines: Vec<String> = shown.iter().map(line).collect();
    if entries.len() > LISTED {
        lines.push(format!("  and {} more", entries.len() - LISTED));
    }
    lines.join("\n")
}
