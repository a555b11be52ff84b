//! What several kinds share: references, artifacts, selectors.

use std::collections::BTreeMap;

use everflow_json::Value;
use everflow_time::{Duration, Timestamp};

use crate::describe::{Rule, Shape};
use crate::error::{At, FieldError};
use crate::wire::Wire;

/// Durations in milliseconds up to hours.
pub(crate) const DURATION: Rule = Rule::Pattern(r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$");
/// Durations in milliseconds up to minutes.
pub(crate) const SHORT_DURATION: Rule = Rule::Pattern(r"^([0-9]+(\.[0-9]+)?(ms|s|m))+$");
/// Numbers of 64 bits.
pub(crate) const INT64: Rule = Rule::Format("int64");

record! {
    /// A reference to an object in the same namespace.
    pub struct LocalObjectReference {
        /// The name of the object.
        name "name": String,
    }
}

impl LocalObjectReference {
    /// The reference to the object of this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }
}

record! {
    /// A reference to a key of a Secret in the same namespace.
    pub struct SecretKeyReference {
        /// The name of the Secret.
        name "name": String,
        /// The key; value and then value.yaml when none is given.
        key "key": Option<String>,
    }
}

record! {
    /// A reference to an object of any kind.
    pub struct NamespacedObjectKindReference {
        /// The API version of the object.
        api_version "apiVersion": Option<String>,
        /// The kind of the object.
        kind "kind": String,
        /// The name of the object.
        name "name": String,
        /// The namespace of the object; the same when none is given.
        namespace "namespace": Option<String>,
    }
}

record! {
    /// An object of the same kind that must be ready first.
    pub struct DependencyReference {
        /// The name of the object.
        name "name": String,
        /// The namespace of the object; the same when none is given.
        namespace "namespace": Option<String>,
        /// A CEL expression over self and dep that says whether the dependency is ready.
        ready_expr "readyExpr": Option<String>,
    }
}

record! {
    /// How to reach another cluster.
    [
        Check {
            rule: "has(self.configMapRef) || has(self.secretRef)",
            message: EXACTLY_ONE,
        },
        Check {
            rule: "!has(self.configMapRef) || !has(self.secretRef)",
            message: EXACTLY_ONE,
        },
    ]
    pub struct KubeConfigReference {
        /// A ConfigMap with the provider, cluster, address and audiences to get a token for.
        config_map_ref "configMapRef": Option<LocalObjectReference>,
        /// A Secret with a kubeconfig.
        secret_ref "secretRef": Option<SecretKeyReference>,
    }
}

const EXACTLY_ONE: &str =
    "exactly one of spec.kubeConfig.configMapRef or spec.kubeConfig.secretRef must be specified";

record! {
    /// What a source produced.
    pub struct Artifact {
        /// The digest of the file, as ALGORITHM:HEX.
        digest "digest": String [Pattern(r"^[a-z0-9]+(?:[.+_-][a-z0-9]+)*:[a-zA-Z0-9=_-]+$")],
        /// Where the file is in the storage.
        path "path": String,
        /// Where the file can be had over HTTP.
        url "url": String,
        /// Which revision of the source it is.
        revision "revision": String,
        /// When it was last changed.
        last_update_time "lastUpdateTime": Timestamp,
        /// How many bytes the file has.
        size "size": Option<i64> [INT64],
        /// What the source says about it, such as OCI annotations.
        metadata "metadata": BTreeMap<String, String>,
    }
}

record! {
    /// Labels and annotations for all objects.
    pub struct CommonMetadata {
        /// The annotations.
        annotations "annotations": BTreeMap<String, String>,
        /// The labels.
        labels "labels": BTreeMap<String, String>,
    }
}

record! {
    /// Which objects something is for: expressions on their names and selectors on their metadata.
    pub struct Selector {
        /// Their API group.
        group "group": Option<String>,
        /// Their API version.
        version "version": Option<String>,
        /// Their kind.
        kind "kind": Option<String>,
        /// Their namespace.
        namespace "namespace": Option<String>,
        /// Their name.
        name "name": Option<String>,
        /// A selector on their annotations.
        annotation_selector "annotationSelector": Option<String>,
        /// A selector on their labels.
        label_selector "labelSelector": Option<String>,
    }
}

record! {
    /// A strategic merge patch or a JSON patch.
    pub struct Patch {
        /// The patch, as YAML.
        patch "patch": String,
        /// Which objects it is for.
        target "target": Option<Selector>,
    }
}

record! {
    /// A new name, tag or digest for an image.
    pub struct Image {
        /// The image to change.
        name "name": String,
        /// Its new name.
        new_name "newName": Option<String>,
        /// Its new tag.
        new_tag "newTag": Option<String>,
        /// Its digest, instead of a tag.
        digest "digest": Option<String>,
    }
}

record! {
    /// When objects of a kind are healthy, in CEL.
    pub struct CustomHealthCheck {
        /// The API version of the objects.
        api_version "apiVersion": String,
        /// The kind of the objects; the whole group when none is given.
        kind "kind": Option<String>,
        /// True when an object is as asked for.
        current "current": String,
        /// True while work on an object goes on.
        in_progress "inProgress": Option<String>,
        /// True when work on an object has failed.
        failed "failed": Option<String>,
    }
}

record! {
    /// Fields that are not compared.
    pub struct IgnoreRule {
        /// JSON pointers of the fields.
        paths "paths": Vec<String> [Required],
        /// In which objects.
        target "target": Option<Selector>,
    }
}

choice! {
    /// Kinds that hold values or variables.
    pub enum ConfigKind {
        /// A Secret.
        Secret = "Secret",
        /// A ConfigMap.
        ConfigMap = "ConfigMap",
    }
}

choice! {
    /// When a chart from a source other than a Helm repository is packaged anew.
    pub enum ReconcileStrategy {
        /// When its version changes.
        ChartVersion = "ChartVersion",
        /// When the revision of the source changes.
        Revision = "Revision",
    }
}

choice! {
    /// The kinds of source that a chart can come from.
    pub enum ChartSourceKind {
        /// A Helm repository.
        HelmRepository = "HelmRepository",
        /// A Git repository.
        GitRepository = "GitRepository",
        /// A bucket.
        Bucket = "Bucket",
    }
}

choice! {
    /// What checks signatures of OCI artifacts.
    pub enum SignatureProvider {
        /// Cosign.
        Cosign = "cosign",
        /// Notation.
        Notation = "notation",
    }
}

record! {
    /// A kind without a status.
    pub struct NoStatus {}
}

/// Anything at all, such as the values of a release.
pub type Anything = Value;

/// How long something took, in a status. No rule of the server guards these fields, and a status
/// that cannot be read would hold up an object for good: what is no duration is read as zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Elapsed(pub Duration);

impl Wire for Elapsed {
    const SHAPE: Shape = Shape::Text;

    fn read(value: &Value, at: &At<'_>) -> Result<Self, FieldError> {
        String::read(value, at).map(|text| Self(Duration::parse(&text).unwrap_or_default()))
    }

    fn write(&self, exact: bool) -> Option<Value> {
        self.0.write(exact)
    }

    fn is_spelling(&self, value: &Value) -> bool {
        self.0.is_spelling(value)
    }
}
