//! What is known of a release.

use crate::common::{Elapsed, INT64};
use crate::condition::{Condition, reconciled};
use crate::helm::ReleaseSnapshot;
use crate::inventory::ResourceInventory;

choice! {
    /// What was last done to a release.
    pub enum AttemptedAction {
        /// It was installed.
        Install = "install",
        /// It was upgraded.
        Upgrade = "upgrade",
    }
}

record! {
    /// What is known of the release.
    pub struct HelmReleaseStatus {
        /// The generation of the spec that was last heeded.
        observed_generation "observedGeneration": i64 [INT64],
        /// The digest of the post-renderers of the last release.
        observed_post_renderers_digest "observedPostRenderersDigest": Option<String>,
        /// The digest of the common metadata of the last release.
        observed_common_metadata_digest "observedCommonMetadataDigest": Option<String>,
        /// The generation that was last tried.
        last_attempted_generation "lastAttemptedGeneration": i64 [INT64],
        /// How it stands.
        conditions "conditions": Vec<Condition>,
        /// The HelmChart that was created, as NAMESPACE/NAME.
        helm_chart "helmChart": Option<String>,
        /// The namespace with the records of the release.
        storage_namespace "storageNamespace": Option<String> [MinLength(1), MaxLength(63)],
        /// The releases that were made, the newest first.
        history "history": Vec<ReleaseSnapshot>,
        /// The objects of the release.
        inventory "inventory": Option<ResourceInventory>,
        /// What was last done.
        last_attempted_release_action "lastAttemptedReleaseAction": Option<AttemptedAction>,
        /// How long that took.
        last_attempted_release_action_duration "lastAttemptedReleaseActionDuration": Option<Elapsed>,
        /// Failures in a row.
        failures "failures": i64 [INT64],
        /// Failed installations in a row.
        install_failures "installFailures": i64 [INT64],
        /// Failed upgrades in a row.
        upgrade_failures "upgradeFailures": i64 [INT64],
        /// The revision of the chart that was last tried.
        last_attempted_revision "lastAttemptedRevision": Option<String>,
        /// The digest of that revision, from registries.
        last_attempted_revision_digest "lastAttemptedRevisionDigest": Option<String>,
        /// Not written any more.
        last_attempted_values_checksum "lastAttemptedValuesChecksum": Option<String>,
        /// Not written any more.
        last_release_revision "lastReleaseRevision": i64,
        /// The digest of the values that were last tried.
        last_attempted_config_digest "lastAttemptedConfigDigest": Option<String>,
        /// The last request to forget failures that was heeded.
        last_handled_reset_at "lastHandledResetAt": Option<String>,
        /// The last request for an attempt that was heeded.
        last_handled_reconcile_at "lastHandledReconcileAt": Option<String>,
        /// The last request for a release that was heeded.
        last_handled_force_at "lastHandledForceAt": Option<String>,
    }
}

reconciled!(HelmReleaseStatus);
