//! The kinds that verbs know, by the words of the command line.

use everflow_runtime::client::Resource;

use crate::exit::Failure;

/// A kind.
#[derive(Debug)]
pub struct Kind {
    /// Words that mean it, after `source` for sources.
    pub words: &'static [&'static str],
    /// What messages call it.
    pub noun: &'static str,
    pub resource: Resource,
    /// Whether it is named after the word `source`.
    pub is_source: bool,
    pub columns: Columns,
}

/// What is shown of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Columns {
    /// The revision of its artifact.
    Artifact,
    /// The revision that was applied last.
    Applied,
    /// The version of the chart that was released last.
    Released,
    /// Neither.
    Plain,
    /// Not even whether it is suspended.
    Bare,
}

const SOURCE: &str = "source.toolkit.fluxcd.io";
const NOTIFICATION: &str = "notification.toolkit.fluxcd.io";

/// All kinds, in the order in which `get all` prints them.
pub static KINDS: [Kind; 11] = [
    source(&["oci"], "source oci", "ocirepositories", "OCIRepository"),
    source(&["bucket"], "source bucket", "buckets", "Bucket"),
    source(&["git"], "source git", "gitrepositories", "GitRepository"),
    source(
        &["helm"],
        "source helm",
        "helmrepositories",
        "HelmRepository",
    ),
    source(&["chart"], "source chart", "helmcharts", "HelmChart"),
    source(
        &["external"],
        "source external",
        "externalartifacts",
        "ExternalArtifact",
    ),
    Kind {
        words: &["helmreleases", "helmrelease", "hr"],
        noun: "helmrelease",
        resource: Resource::namespaced(
            "helm.toolkit.fluxcd.io",
            "v2",
            "helmreleases",
            "HelmRelease",
        ),
        is_source: false,
        columns: Columns::Released,
    },
    Kind {
        words: &["kustomizations", "kustomization", "ks"],
        noun: "kustomization",
        resource: Resource::namespaced(
            "kustomize.toolkit.fluxcd.io",
            "v1",
            "kustomizations",
            "Kustomization",
        ),
        is_source: false,
        columns: Columns::Applied,
    },
    Kind {
        words: &["receivers", "receiver"],
        noun: "receiver",
        resource: Resource::namespaced(NOTIFICATION, "v1", "receivers", "Receiver"),
        is_source: false,
        columns: Columns::Plain,
    },
    Kind {
        words: &["alert-providers", "alert-provider"],
        noun: "alert provider",
        resource: Resource::namespaced(NOTIFICATION, "v1beta3", "providers", "Provider"),
        is_source: false,
        columns: Columns::Bare,
    },
    Kind {
        words: &["alerts", "alert"],
        noun: "alert",
        resource: Resource::namespaced(NOTIFICATION, "v1beta3", "alerts", "Alert"),
        is_source: false,
        columns: Columns::Plain,
    },
];

const fn source(
    words: &'static [&'static str],
    noun: &'static str,
    plural: &'static str,
    kind: &'static str,
) -> Kind {
    Kind {
        words,
        noun,
        resource: Resource::namespaced(SOURCE, "v1", plural, kind),
        is_source: true,
        columns: Columns::Artifact,
    }
}

impl Kind {
    /// The kind as Kubernetes calls it.
    pub fn name(&self) -> &str {
        &self.resource.kind
    }
}

/// What words on a command line stand for.
pub enum Chosen {
    One(&'static Kind),
    /// All kinds, or all kinds of sources.
    All {
        sources_only: bool,
    },
}

/// The kind that the first words stand for, and the words after it.
pub fn choose(words: &[String]) -> Result<(Chosen, &[String]), Failure> {
    let known = || {
        let words = KINDS.iter().map(|kind| match kind.is_source {
            true => format!("source {}", kind.words[0]),
            false => kind.words[0].to_owned(),
        });
        words.collect::<Vec<_>>().join(", ")
    };
    let unknown =
        |word: &str| Failure::Usage(format!("unknown kind {word:?}: known are {}", known()));
    let Some((first, rest)) = words.split_first() else {
        return Err(Failure::Usage(format!("name a kind: {}", known())));
    };
    if first == "all" {
        return Ok((
            Chosen::All {
                sources_only: false,
            },
            rest,
        ));
    }
    let (word, rest, is_source) = match first.as_str() {
        "source" | "sources" => match rest.split_first() {
            Some((second, rest)) => (second, rest, true),
            None => return Err(Failure::Usage(format!("name a kind: {}", known()))),
        },
        _ => (first, rest, false),
    };
    if is_source && word == "all" {
        return Ok((Chosen::All { sources_only: true }, rest));
    }
    let found = KINDS
        .iter()
        .find(|kind| kind.is_source == is_source && kind.words.contains(&word.as_str()));
    found
        .map(|kind| (Chosen::One(kind), rest))
        .ok_or_else(|| unknown(word))
}

/// The one kind that words stand for.
pub fn choose_one(words: &[String]) -> Result<(&'static Kind, &[String]), Failure> {
    match choose(words)? {
        (Chosen::One(kind), rest) => Ok((kind, rest)),
        (Chosen::All { .. }, _) => Err(Failure::Usage(
            "expected a single resource type, but found all".to_owned(),
        )),
    }
}

/// The kind that Kubernetes calls so, in any case.
pub fn named(kind: &str) -> Option<&'static Kind> {
    KINDS
        .iter()
        .find(|known| known.name().eq_ignore_ascii_case(kind))
}
