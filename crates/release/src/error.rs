//! What keeps a release from being worked on.

use std::fmt;

use everflow_api::common::ConfigKind;
use everflow_api::helm::ValuesReference;
use everflow_limits::Exceeded;
use thiserror::Error;

use crate::values::key;

/// Why a record cannot be read.
#[derive(Debug, Error)]
pub enum Unreadable {
    /// The Secret has no `data.release`.
    #[error("it has no key \"release\" in its data")]
    NoData,
    /// The bytes are not base64 or gzip.
    #[error("it cannot be unpacked: {0}")]
    Packed(#[from] std::io::Error),
    /// The text ends before the record does.
    #[error("it is incomplete")]
    Incomplete,
    /// The text is not JSON.
    #[error("it is not JSON: {0}")]
    Json(#[from] everflow_json::Error),
    /// The JSON is not the record that the Secret's labels speak of.
    #[error("it does not hold the release and the revision that its labels name")]
    NotARecord,
    /// Reading it takes more than it may.
    #[error("it {0}")]
    Exceeded(#[from] Exceeded),
    /// The whole record cannot be read.
    #[error(transparent)]
    Record(#[from] everflow_helm::release::RecordError),
}

/// What keeps a release from being worked on.
#[derive(Debug, Error)]
pub enum Error {
    /// A record cannot be read.
    #[error(
        "release record Secret {secret} cannot be read: {cause}; restore it from a backup, or delete it \
         to go on from the records that are left"
    )]
    UnreadableRecord {
        /// The Secret, as NAMESPACE/NAME.
        secret: String,
        /// Why.
        #[source]
        cause: Unreadable,
    },
    /// A record does not fit into a Secret.
    #[error(
        "the record of release {release} has {size} bytes once compressed, and a Secret holds {limit}; \
         the largest files of the chart are {}; leave what templates do not need out of the package \
         with .helmignore, or split the chart", largest.join(", ")
    )]
    RecordTooLarge {
        /// The release, as NAMESPACE/NAME.vVERSION.
        release: String,
        /// How large it is.
        size: usize,
        /// How large it may be.
        limit: usize,
        /// The largest files of the chart, with their sizes.
        largest: Vec<String>,
    },
    /// Values that a HelmRelease refers to cannot be had.
    #[error(
        "could not resolve{} {} chart values reference '{namespace}/{}' with key '{}': {}",
        if reference.optional { " optional" } else { "" },
        reference.kind, reference.name, key(reference), OfReference { problem, reference }
    )]
    Values {
        /// The reference.
        reference: Box<ValuesReference>,
        /// The namespace of the HelmRelease.
        namespace: String,
        /// What is wrong. It never holds a part of a value.
        problem: ValuesProblem,
    },
    /// The values of the revision before cannot be kept.
    #[error(
        "the values of the revision before cannot be kept: {0}; set upgrade.preserveValues to false"
    )]
    PreserveValues(String),
    /// The version of a chart and the revision of its artifact do not fit together.
    #[error("{0}")]
    ChartVersion(String),
    /// A chart does not render.
    #[error(transparent)]
    Render(#[from] everflow_helm::template::TemplateError),
    /// The manifest of a release does not give objects.
    #[error("unable to build kubernetes objects from release manifest: {0}")]
    Manifest(String),
    /// The custom resource definitions of a chart cannot be read.
    #[error("failed to apply CustomResourceDefinitions: {0}")]
    Definitions(String),
    /// A post-renderer fails, or what it gives cannot be used.
    #[error("{0}")]
    PostRender(String),
    /// A record cannot be written.
    #[error("the record of release {release} cannot be written: {cause}")]
    UnwritableRecord {
        /// The release, as NAMESPACE/NAME.vVERSION.
        release: String,
        /// Why.
        #[source]
        cause: everflow_helm::release::RecordError,
    },
}

/// What is wrong with values that a HelmRelease refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValuesProblem {
    /// There is no such object.
    NoObject,
    /// The object has no such key.
    NoKey,
    /// The data of a Secret are not base64.
    NotBase64,
    /// The text is not YAML; what is wrong with it.
    NotYaml(String),
    /// The text is YAML, but no map; what it is.
    NotAMap(&'static str),
    /// The text cannot be read as `--set` reads values.
    NotSettable,
    /// The values take more than they may.
    Exceeded(Exceeded),
}

impl From<Exceeded> for ValuesProblem {
    fn from(exceeded: Exceeded) -> Self {
        ValuesProblem::Exceeded(exceeded)
    }
}

/// A problem in the words that fit its reference.
struct OfReference<'e> {
    problem: &'e ValuesProblem,
    reference: &'e ValuesReference,
}

impl fmt::Display for OfReference<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.problem {
            ValuesProblem::NoObject => {
                let resource = match self.reference.kind {
                    ConfigKind::ConfigMap => "configmaps",
                    ConfigKind::Secret => "secrets",
                };
                write!(f, "{resource} \"{}\" not found", self.reference.name)
            }
            ValuesProblem::NoKey => f.write_str("key not found"),
            ValuesProblem::NotBase64 => f.write_str("the data of the key are not base64"),
            ValuesProblem::NotYaml(problem) => {
                write!(f, "error converting YAML to JSON: {problem}")
            }
            ValuesProblem::NotAMap(found) => write!(
                f,
                "the document is {found}, and values are a map; set targetPath to use a single value"
            ),
            ValuesProblem::Exceeded(exceeded) => write!(f, "{exceeded}"),
            ValuesProblem::NotSettable => write!(
                f,
                "the value cannot be set at target path '{}' as --set would set it (commas, braces and \
                 brackets have a meaning there); set literal: true to take it as it stands",
                self.reference.target_path.as_deref().unwrap_or_default()
            ),
        }
    }
}
