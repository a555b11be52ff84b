//! Names that Flux gives to annotations, labels, finalizers, field managers and groups.

/// The finalizer of every kind that is reconciled.
pub const FINALIZER: &str = "finalizers.fluxcd.io";

/// API groups.
pub mod group {
    /// Sources.
    pub const SOURCE: &str = "source.toolkit.fluxcd.io";
    /// Kustomizations.
    pub const KUSTOMIZE: &str = "kustomize.toolkit.fluxcd.io";
    /// Helm releases.
    pub const HELM: &str = "helm.toolkit.fluxcd.io";
    /// Alerts, providers and receivers.
    pub const NOTIFICATION: &str = "notification.toolkit.fluxcd.io";
    /// The prefix of annotations that are copied into the metadata of events.
    pub const EVENT: &str = "event.toolkit.fluxcd.io";
}

/// Annotations on objects of Flux.
pub mod annotation {
    /// Any new value asks for an attempt at once.
    pub const REQUESTED_AT: &str = "reconcile.fluxcd.io/requestedAt";
    /// With the value of [`REQUESTED_AT`]: release even when nothing changed.
    pub const FORCE_AT: &str = "reconcile.fluxcd.io/forceAt";
    /// With the value of [`REQUESTED_AT`]: forget the failures that were counted.
    pub const RESET_AT: &str = "reconcile.fluxcd.io/resetAt";
    /// On applied objects: `disabled` keeps them from being decrypted.
    pub const DECRYPT: &str = "kustomize.toolkit.fluxcd.io/decrypt";
    /// On applied objects: `disabled` keeps variables in them from being replaced.
    pub const SUBSTITUTE: &str = "kustomize.toolkit.fluxcd.io/substitute";
    /// On applied objects: `disabled` leaves them alone.
    pub const RECONCILE: &str = "kustomize.toolkit.fluxcd.io/reconcile";
    /// On applied objects: `disabled` keeps them from being pruned.
    pub const PRUNE: &str = "kustomize.toolkit.fluxcd.io/prune";
    /// On applied objects: `enabled` deletes and creates them when a field cannot be changed.
    pub const FORCE: &str = "kustomize.toolkit.fluxcd.io/force";
    /// On applied objects: `Merge`, `IfNotPresent` or `Ignore`.
    pub const SERVER_SIDE_APPLY: &str = "kustomize.toolkit.fluxcd.io/ssa";
    /// On objects of a release: `disabled` takes them out of the search for drift.
    pub const DRIFT_DETECTION: &str = "helm.toolkit.fluxcd.io/driftDetection";
    /// The value that switches something off.
    pub const DISABLED: &str = "disabled";
    /// The value that switches something on.
    pub const ENABLED: &str = "enabled";
}

/// Labels.
pub mod label {
    /// The Kustomization that an object belongs to.
    pub const KUSTOMIZATION_NAME: &str = "kustomize.toolkit.fluxcd.io/name";
    /// The namespace of the Kustomization that an object belongs to.
    pub const KUSTOMIZATION_NAMESPACE: &str = "kustomize.toolkit.fluxcd.io/namespace";
    /// The HelmRelease that an object belongs to.
    pub const HELM_RELEASE_NAME: &str = "helm.toolkit.fluxcd.io/name";
    /// The namespace of the HelmRelease that an object belongs to.
    pub const HELM_RELEASE_NAMESPACE: &str = "helm.toolkit.fluxcd.io/namespace";
    /// The shard that an object belongs to.
    pub const SHARD: &str = "sharding.fluxcd.io/key";
    /// On ConfigMaps and Secrets: with the value [`WATCH_ENABLED`], a change of them is heeded at once.
    pub const WATCH: &str = "reconcile.fluxcd.io/watch";
    /// The value of [`WATCH`].
    pub const WATCH_ENABLED: &str = "Enabled";
}

/// Who writes which fields.
pub mod manager {
    /// Sources and their status.
    pub const SOURCE: &str = "source-controller";
    /// Objects that a Kustomization applies.
    pub const KUSTOMIZE: &str = "kustomize-controller";
    /// Kustomizations and their status.
    pub const KUSTOMIZATION_STATUS: &str = "gotk-kustomize-controller";
    /// Everything around a HelmRelease.
    pub const HELM: &str = "helm-controller";
    /// Receivers, alerts and providers.
    pub const NOTIFICATION: &str = "notification-controller";
}

/// Types of conditions.
pub mod condition {
    /// All is as asked for.
    pub const READY: &str = "Ready";
    /// Work is going on or will be tried again.
    pub const RECONCILING: &str = "Reconciling";
    /// It cannot succeed without a change.
    pub const STALLED: &str = "Stalled";
    /// What was applied is healthy.
    pub const HEALTHY: &str = "Healthy";
    /// The artifact of the source is stored.
    pub const ARTIFACT_IN_STORAGE: &str = "ArtifactInStorage";
    /// The stored artifact is older than the source.
    pub const ARTIFACT_OUTDATED: &str = "ArtifactOutdated";
    /// The signature of the source was verified, or not.
    pub const SOURCE_VERIFIED: &str = "SourceVerified";
    /// The source could not be fetched.
    pub const FETCH_FAILED: &str = "FetchFailed";
    /// The artifact could not be built.
    pub const BUILD_FAILED: &str = "BuildFailed";
    /// The artifact could not be stored.
    pub const STORAGE_OPERATION_FAILED: &str = "StorageOperationFailed";
    /// An included source has no artifact.
    pub const INCLUDE_UNAVAILABLE: &str = "IncludeUnavailable";
    /// The last release succeeded, or not.
    pub const RELEASED: &str = "Released";
    /// The tests of the release succeeded, or not.
    pub const TEST_SUCCESS: &str = "TestSuccess";
    /// A failed release was rolled back or uninstalled, or not.
    pub const REMEDIATED: &str = "Remediated";
    /// The cluster differs from the release.
    pub const DRIFTED: &str = "Drifted";
}

/// The key of an OCI annotation in the metadata of an artifact that names the revision at the origin.
pub const ORIGIN_REVISION: &str = "org.opencontainers.image.revision";
/// The key of an OCI annotation in the metadata of an artifact that names the origin.
pub const ORIGIN_SOURCE: &str = "org.opencontainers.image.source";
