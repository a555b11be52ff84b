//! Kustomization: `kustomize.toolkit.fluxcd.io/v1`.

use std::collections::BTreeMap;

use everflow_json::Value;
use everflow_time::Duration;

use crate::common::{
    CommonMetadata, ConfigKind, CustomHealthCheck, DURATION, DependencyReference, INT64,
    IgnoreRule, Image, KubeConfigReference, LocalObjectReference, NamespacedObjectKindReference,
    Patch,
};
use crate::condition::{Condition, reconciled};
use crate::crd::{AGE, APPLIERS, MESSAGE, READY};
use crate::error::At;
use crate::history::Snapshot;
use crate::inventory::ResourceInventory;
use crate::wire::Wire as _;

kind! {
    /// Manifests of a source, built with kustomize and applied.
    Kustomization in crate::names::group::KUSTOMIZE {
        version: "v1",
        plural: "kustomizations",
        singular: "kustomization",
        short_names: ["ks"],
        categories: APPLIERS,
        columns: [AGE, READY, MESSAGE],
        spec: KustomizationSpec,
        status: KustomizationStatus, Some(KustomizationStatus::RECORD), true,
    }
}

choice! {
    /// What becomes of the applied objects when the Kustomization is deleted.
    pub enum DeletionPolicy {
        /// They are deleted if prune is on.
        MirrorPrune = "MirrorPrune",
        /// They are deleted.
        Delete = "Delete",
        /// They are deleted, and that is waited for.
        WaitForTermination = "WaitForTermination",
        /// They stay.
        Orphan = "Orphan",
    }
}

choice! {
    /// The kinds of source that manifests can come from.
    pub enum KustomizationSourceKind {
        /// An artifact in a registry.
        OciRepository = "OCIRepository",
        /// A Git repository.
        GitRepository = "GitRepository",
        /// A bucket.
        Bucket = "Bucket",
        /// An artifact that another controller produces.
        ExternalArtifact = "ExternalArtifact",
    }
}

choice! {
    /// What encrypted the manifests.
    pub enum DecryptionProvider {
        /// SOPS.
        Sops = "sops",
    }
}

choice! {
    /// What kustomize writes into annotations.
    pub enum BuildMetadataOption {
        /// Where an object comes from.
        OriginAnnotations = "originAnnotations",
        /// What changed an object.
        TransformerAnnotations = "transformerAnnotations",
    }
}

choice! {
    /// When variables are replaced.
    pub enum SubstituteStrategy {
        /// When there are variables.
        WithVariables = "WithVariables",
        /// Always.
        Always = "Always",
    }
}

record! {
    /// What to build, and how to apply it.
    pub struct KustomizationSpec {
        /// Labels and annotations for all objects.
        common_metadata "commonMetadata": Option<CommonMetadata>,
        /// Kustomizations that must be ready first.
        depends_on "dependsOn": Vec<DependencyReference>,
        /// How to decrypt.
        decryption "decryption": Option<Decryption>,
        /// How often to apply.
        interval "interval": Duration [DURATION],
        /// When to try again after a failure: the interval by default.
        retry_interval "retryInterval": Option<Duration> [DURATION],
        /// The cluster to apply to: this one by default.
        kube_config "kubeConfig": Option<KubeConfigReference>,
        /// The directory in the source: its root by default.
        path "path": Option<String>,
        /// What to do after building.
        post_build "postBuild": Option<PostBuild>,
        /// Whether to delete what is no longer there.
        prune "prune": bool [Required],
        /// What becomes of the objects on deletion: MirrorPrune by default.
        deletion_policy "deletionPolicy": Option<DeletionPolicy>,
        /// Objects whose health to wait for.
        health_checks "healthChecks": Vec<NamespacedObjectKindReference>,
        /// What names begin with.
        name_prefix "namePrefix": Option<String> [MinLength(1), MaxLength(200)],
        /// What names end with.
        name_suffix "nameSuffix": Option<String> [MinLength(1), MaxLength(200)],
        /// Patches to make.
        patches "patches": Vec<Patch>,
        /// Images to change.
        images "images": Vec<Image>,
        /// The ServiceAccount to apply as.
        service_account_name "serviceAccountName": Option<String>,
        /// Where the manifests are.
        source_ref "sourceRef": KustomizationSourceReference,
        /// Whether to leave it alone.
        suspend "suspend": bool,
        /// The namespace to put objects in.
        target_namespace "targetNamespace": Option<String> [MinLength(1), MaxLength(63)],
        /// How long building, applying and waiting may take: the interval by default.
        timeout "timeout": Option<Duration> [DURATION],
        /// Whether to delete and create objects whose fields cannot be changed.
        force "force": bool [Default("false")],
        /// Whether to wait for the health of all objects.
        wait "wait": bool,
        /// What kustomize writes into annotations.
        build_metadata "buildMetadata": Vec<BuildMetadataOption>,
        /// Components to build with, relative to the path.
        components "components": Vec<String>,
        /// Whether components may be missing.
        ignore_missing_components "ignoreMissingComponents": bool,
        /// When objects of other kinds are healthy.
        health_check_exprs "healthCheckExprs": Vec<CustomHealthCheck>,
        /// Fields that are left to others.
        ignore "ignore": Vec<IgnoreRule>,
    }
}

impl KustomizationSpec {
    /// When to try again after a failure.
    pub fn retry_interval(&self) -> Duration {
        self.retry_interval.unwrap_or(self.interval)
    }

    /// How long an attempt may take: at least half a minute, and by default half a minute less than
    /// the interval.
    pub fn timeout(&self) -> Duration {
        const HALF_A_MINUTE: Duration = Duration::from_seconds(30);
        let default = Duration(self.interval.0.saturating_sub(HALF_A_MINUTE.0));
        self.timeout.unwrap_or(default).max(HALF_A_MINUTE)
    }

    /// As [`KustomizationSpec::timeout`], without reading the rest of the spec. `None` when it cannot be read.
    pub fn read_timeout(spec: &Value) -> Option<Duration> {
        let read = |name: &str| {
            let value = spec.get(name).filter(|value| !value.is_null());
            value.map(|value| Duration::read(value, &At::Root).ok())
        };
        let given = Self {
            interval: read("interval")??,
            timeout: match read("timeout") {
                Some(timeout) => Some(timeout?),
                None => None,
            },
            ..Self::default()
        };
        Some(given.timeout())
    }

    /// What becomes of the objects on deletion.
    pub fn deletion_policy(&self) -> DeletionPolicy {
        self.deletion_policy.unwrap_or_default()
    }
}

record! {
    /// How to decrypt.
    pub struct Decryption {
        /// What encrypted.
        provider "provider": DecryptionProvider,
        /// The ServiceAccount to ask key services as.
        service_account_name "serviceAccountName": Option<String>,
        /// The Secret with keys.
        secret_ref "secretRef": Option<LocalObjectReference>,
    }
}

record! {
    /// What to do after building.
    pub struct PostBuild {
        /// When to replace variables: WithVariables by default.
        substitute_strategy "substituteStrategy": Option<SubstituteStrategy>,
        /// Variables.
        substitute "substitute": BTreeMap<String, String>,
        /// Objects with variables; later ones win, those above win over all.
        substitute_from "substituteFrom": Vec<SubstituteReference>,
    }
}

record! {
    /// An object with variables, in the same namespace.
    pub struct SubstituteReference {
        /// The kind of the object.
        kind "kind": ConfigKind,
        /// The name of the object.
        name "name": String [MinLength(1), MaxLength(253)],
        /// Whether it may be missing.
        optional "optional": bool [Default("false")],
    }
}

record! {
    /// Where manifests are.
    pub struct KustomizationSourceReference {
        /// The API version of the source.
        api_version "apiVersion": Option<String>,
        /// The kind of the source.
        kind "kind": KustomizationSourceKind,
        /// The name of the source.
        name "name": String,
        /// The namespace of the source; the same when none is given.
        namespace "namespace": Option<String>,
    }
}

record! {
    /// What is known of the applied manifests.
    pub struct KustomizationStatus {
        /// The last request for an attempt that was heeded.
        last_handled_reconcile_at "lastHandledReconcileAt": Option<String>,
        /// The generation of the spec that was last heeded.
        observed_generation "observedGeneration": i64 [INT64],
        /// How it stands.
        conditions "conditions": Vec<Condition>,
        /// The revision that was last applied.
        last_applied_revision "lastAppliedRevision": Option<String>,
        /// The revision at the origin of what was last applied.
        last_applied_origin_revision "lastAppliedOriginRevision": Option<String>,
        /// The revision that was last tried.
        last_attempted_revision "lastAttemptedRevision": Option<String>,
        /// The objects that were applied.
        inventory "inventory": Option<ResourceInventory>,
        /// What was applied lately, the newest first.
        history "history": Vec<Snapshot>,
    }
}

reconciled!(KustomizationStatus);
