//! The kinds that verbs know, by the words of the command line.

use everflow_runtime::Error;
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
    pub family: Family,
    pub columns: Columns,
}

/// The word that stands before the word for a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    Source,
    Image,
    Artifact,
    /// None.
    Alone,
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
    /// When its registry was scanned last.
    Scanned,
    /// The image and tag that it picked.
    Picked,
    /// When it ran last.
    Ran,
    /// None of these.
    Plain,
    /// Not even whether it is suspended.
    Bare,
}

const SOURCE: &str = "source.toolkit.fluxcd.io";
const NOTIFICATION: &str = "notification.toolkit.fluxcd.io";
const IMAGE: &str = "image.toolkit.fluxcd.io";

/// What verbs say of the kinds they take.
pub const HELP: &str = "\
Kinds:
  all, sources all, images all (get only)
  source git, oci, bucket, helm, chart, external
  kustomization (ks), helmrelease (hr)
  receiver, alert-provider, alert
  image repository, policy, update
  artifact generator";

/// All kinds, in the order in which `get all` prints them.
pub static KINDS: [Kind; 15] = [
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
        words: &["generators", "generator"],
        noun: "artifact generator",
        resource: Resource::namespaced(
            "source.extensions.fluxcd.io",
            "v1beta1",
            "artifactgenerators",
            "ArtifactGenerator",
        ),
        family: Family::Artifact,
        columns: Columns::Plain,
    },
    image(
        &["repository"],
        "image repository",
        "imagerepositories",
        "ImageRepository",
        Columns::Scanned,
    ),
    image(
        &["policy"],
        "image policy",
        "imagepolicies",
        "ImagePolicy",
        Columns::Picked,
    ),
    image(
        &["update"],
        "image update automation",
        "imageupdateautomations",
        "ImageUpdateAutomation",
        Columns::Ran,
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
        family: Family::Alone,
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
        family: Family::Alone,
        columns: Columns::Applied,
    },
    Kind {
        words: &["receivers", "receiver"],
        noun: "receiver",
        resource: Resource::namespaced(NOTIFICATION, "v1", "receivers", "Receiver"),
        family: Family::Alone,
        columns: Columns::Plain,
    },
    Kind {
        words: &["alert-providers", "alert-provider"],
        noun: "alert provider",
        resource: Resource::namespaced(NOTIFICATION, "v1beta3", "providers", "Provider"),
        family: Family::Alone,
        columns: Columns::Bare,
    },
    Kind {
        words: &["alerts", "alert"],
        noun: "alert",
        resource: Resource::namespaced(NOTIFICATION, "v1beta3", "alerts", "Alert"),
        family: Family::Alone,
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
        family: Family::Source,
        columns: Columns::Artifact,
    }
}

const fn image(
    words: &'static [&'static str],
    noun: &'static str,
    plural: &'static str,
    kind: &'static str,
    columns: Columns,
) -> Kind {
    Kind {
        words,
        noun,
        resource: Resource::namespaced(IMAGE, "v1", plural, kind),
        family: Family::Image,
        columns,
    }
}

impl Kind {
    /// The kind as Kubernetes calls it.
    pub fn name(&self) -> &str {
        &self.resource.kind
    }

    /// Whether others deploy from it.
    pub fn is_source(&self) -> bool {
        self.family == Family::Source
    }

    /// What is told of an error of the API: that a cluster does not know the kind, in flux's words.
    pub fn told(&self, error: &Error) -> String {
        match error {
            Error::NotFound(refusal) if refusal.details["name"].as_str().is_none() => {
                let version = self.resource.api_version();
                format!(
                    "unable to retrieve the complete list of server APIs: {version}: no matches \
                     for {version}, Resource="
                )
            }
            error => error.to_string(),
        }
    }
}

/// What words on a command line stand for.
pub enum Chosen {
    One(&'static Kind),
    /// All kinds, or all of a family.
    All(Option<Family>),
}

/// The kind that the first words of a verb stand for, and the words after it. Without one that is
/// known, the verb's help is printed, as flux does.
pub fn choose<'w>(
    verb: &'static str,
    words: &'w [String],
) -> Result<(Chosen, &'w [String]), Failure> {
    let (first, rest) = words.split_first().ok_or(Failure::help(verb))?;
    let family = match first.as_str() {
        "all" => return Ok((Chosen::All(None), rest)),
        "source" | "sources" => Family::Source,
        "image" | "images" => Family::Image,
        "artifact" | "artifacts" => Family::Artifact,
        _ => Family::Alone,
    };
    let (word, rest) = match family {
        Family::Alone => (first, rest),
        _ => rest.split_first().ok_or(Failure::help(verb))?,
    };
    if word == "all" && matches!(family, Family::Source | Family::Image) {
        return Ok((Chosen::All(Some(family)), rest));
    }
    let found = KINDS
        .iter()
        .find(|kind| kind.family == family && kind.words.contains(&word.as_str()));
    found
        .map(|kind| (Chosen::One(kind), rest))
        .ok_or(Failure::help(verb))
}

/// The one kind that words stand for.
pub fn choose_one<'w>(
    verb: &'static str,
    words: &'w [String],
) -> Result<(&'static Kind, &'w [String]), Failure> {
    match choose(verb, words)? {
        (Chosen::One(kind), rest) => Ok((kind, rest)),
        (Chosen::All(_), _) => Err(Failure::help(verb)),
    }
}

/// The kind that Kubernetes calls so, in any case.
pub fn named(kind: &str) -> Option<&'static Kind> {
    KINDS
        .iter()
        .find(|known| known.name().eq_ignore_ascii_case(kind))
}

/// The kind of that name, which is in the table.
pub fn required(name: &str) -> Result<&'static Kind, Failure> {
    named(name).ok_or_else(|| Failure::Work(format!("{name} is no kind of Flux")))
}
