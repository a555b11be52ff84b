//! ExternalArtifact.

use crate::common::{Artifact, NamespacedObjectKindReference};
use crate::condition::Condition;
use crate::crd::{AGE, MESSAGE, READY, SOURCES, column};

kind! {
    /// An artifact that another controller produces.
    ExternalArtifact in crate::names::group::SOURCE {
        version: "v1",
        plural: "externalartifacts",
        singular: "externalartifact",
        short_names: ["ea"],
        categories: SOURCES,
        columns: [AGE, READY, MESSAGE, column("Source", ".spec.sourceRef.name")],
        spec: ExternalArtifactSpec,
        status: ExternalArtifactStatus, Some(ExternalArtifactStatus::RECORD), false,
    }
}

record! {
    /// Where the artifact comes from.
    pub struct ExternalArtifactSpec {
        /// The object that it was made for.
        source_ref "sourceRef": Option<NamespacedObjectKindReference>,
    }
}

record! {
    /// What the controller says of it.
    pub struct ExternalArtifactStatus {
        /// What was last produced.
        artifact "artifact": Option<Artifact>,
        /// How it stands.
        conditions "conditions": Vec<Condition>,
    }
}
