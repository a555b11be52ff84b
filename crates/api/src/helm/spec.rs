//! What is asked for.

use std::collections::BTreeMap;

use everflow_time::Duration;

use crate::common::{
    Anything, ChartSourceKind, CommonMetadata, ConfigKind, CustomHealthCheck, DURATION,
    DependencyReference, IgnoreRule, Image, KubeConfigReference, LocalObjectReference, Patch,
    ReconcileStrategy, SignatureProvider,
};
use crate::crd::{AGE, APPLIERS, MESSAGE, READY};
use crate::helm::{HelmReleaseStatus, Install, Rollback, Test, Uninstall, Upgrade};

kind! {
    /// A release of a Helm chart.
    HelmRelease in crate::names::group::HELM {
        version: "v2",
        plural: "helmreleases",
        singular: "helmrelease",
        short_names: ["hr"],
        categories: APPLIERS,
        columns: [AGE, READY, MESSAGE],
        spec: HelmReleaseSpec,
        status: HelmReleaseStatus, Some(HelmReleaseStatus::RECORD), true,
    }
}

choice! {
    /// The kinds a finished chart can come from.
    pub enum ChartRefKind {
        /// An artifact in a registry.
        OciRepository = "OCIRepository",
        /// A Helm chart.
        HelmChart = "HelmChart",
        /// An artifact that another controller produces.
        ExternalArtifact = "ExternalArtifact",
    }
}

choice! {
    /// What hooks post-renderers see.
    pub enum PostRenderStrategy {
        /// None.
        NoHooks = "nohooks",
        /// All, together with the manifests.
        Combined = "combined",
        /// All, apart from the manifests.
        Separate = "separate",
    }
}

choice! {
    /// What to do about differences between cluster and release.
    pub enum DriftDetectionMode {
        /// Put them right.
        Enabled = "enabled",
        /// Tell of them.
        Warn = "warn",
        /// Do not look for them.
        Disabled = "disabled",
    }
}

choice! {
    /// How to wait for health.
    pub enum WaitStrategyName {
        /// By the status of all kinds.
        Poller = "poller",
        /// As Helm 3 did.
        Legacy = "legacy",
    }
}

record! {
    /// Which chart, which values and how to release it.
    [Check {
        rule: "(has(self.chart) && !has(self.chartRef)) || (!has(self.chart) && has(self.chartRef))",
        message: "either chart or chartRef must be set",
    }]
    pub struct HelmReleaseSpec {
        /// The HelmChart to create.
        chart "chart": Option<HelmChartTemplate>,
        /// A finished chart.
        chart_ref "chartRef": Option<ChartReference>,
        /// How often to check the release.
        interval "interval": Duration [DURATION],
        /// The cluster to release to: this one by default.
        kube_config "kubeConfig": Option<KubeConfigReference>,
        /// Whether to leave it alone.
        suspend "suspend": bool,
        /// The name of the release: target namespace and name by default.
        release_name "releaseName": Option<String> [MinLength(1), MaxLength(53)],
        /// The namespace to release to: the same by default.
        target_namespace "targetNamespace": Option<String> [MinLength(1), MaxLength(63)],
        /// The namespace for the records of the release: the same by default.
        storage_namespace "storageNamespace": Option<String> [MinLength(1), MaxLength(63)],
        /// Releases that must be ready first.
        depends_on "dependsOn": Vec<DependencyReference>,
        /// How long each operation may take: 5m by default.
        timeout "timeout": Option<Duration> [DURATION],
        /// How many records to keep, 0 for all: 5 by default.
        max_history "maxHistory": Option<i64>,
        /// The ServiceAccount to release as.
        service_account_name "serviceAccountName": Option<String> [MinLength(1), MaxLength(253)],
        /// Whether to keep one client for all steps: true by default.
        persistent_client "persistentClient": Option<bool>,
        /// What to do about differences between cluster and release.
        drift_detection "driftDetection": Option<DriftDetection>,
        /// How to install.
        install "install": Option<Install>,
        /// How to upgrade.
        upgrade "upgrade": Option<Upgrade>,
        /// How to test.
        test "test": Option<Test>,
        /// How to roll back.
        rollback "rollback": Option<Rollback>,
        /// How to uninstall.
        uninstall "uninstall": Option<Uninstall>,
        /// Objects with values; later ones win.
        values_from "valuesFrom": Vec<ValuesReference>,
        /// Values, which win over those from objects.
        values "values": Option<Anything>,
        /// Labels and annotations for all objects.
        common_metadata "commonMetadata": Option<CommonMetadata>,
        /// What to do with the rendered manifests.
        post_renderers "postRenderers": Vec<PostRenderer>,
        /// What hooks post-renderers see: combined by default.
        post_render_strategy "postRenderStrategy": Option<PostRenderStrategy>,
        /// How to wait for health.
        wait_strategy "waitStrategy": Option<WaitStrategy>,
        /// When objects of other kinds are healthy.
        health_check_exprs "healthCheckExprs": Vec<CustomHealthCheck>,
    }
}

impl HelmReleaseSpec {
    /// How long each operation may take.
    pub fn timeout(&self) -> Duration {
        self.timeout.unwrap_or(Duration::from_seconds(300))
    }

    /// How many records to keep; 0 is all.
    pub fn max_history(&self) -> i64 {
        self.max_history.unwrap_or(5)
    }
}

record! {
    /// The HelmChart to create.
    pub struct HelmChartTemplate {
        /// Its metadata.
        metadata "metadata": Option<HelmChartTemplateMetadata>,
        /// Which chart, and from where.
        spec "spec": HelmChartTemplateSpec,
    }
}

record! {
    /// Metadata of the HelmChart to create.
    pub struct HelmChartTemplateMetadata {
        /// Its labels.
        labels "labels": BTreeMap<String, String>,
        /// Its annotations.
        annotations "annotations": BTreeMap<String, String>,
    }
}

record! {
    /// Which chart, and from where.
    pub struct HelmChartTemplateSpec {
        /// Its name in the repository, or its path in another source.
        chart "chart": String [MinLength(1), MaxLength(2048)],
        /// A range of versions, for Helm repositories.
        version "version": Option<String> [Default(r#""*""#)],
        /// Where it comes from.
        source_ref "sourceRef": ChartSourceReference,
        /// How often to look for changes: the interval of the release by default.
        interval "interval": Option<Duration> [DURATION],
        /// When to package it anew.
        reconcile_strategy "reconcileStrategy": Option<ReconcileStrategy> [Default(r#""ChartVersion""#)],
        /// Files with values that take the place of values.yaml.
        values_files "valuesFiles": Vec<String>,
        /// Whether such files may be missing.
        ignore_missing_values_files "ignoreMissingValuesFiles": bool,
        /// Which signatures to ask for, in registries.
        verify "verify": Option<HelmChartTemplateVerification>,
    }
}

record! {
    /// Where a chart comes from.
    pub struct ChartSourceReference {
        /// The API version of the source.
        api_version "apiVersion": Option<String>,
        /// The kind of the source.
        kind "kind": ChartSourceKind,
        /// The name of the source.
        name "name": String [MinLength(1), MaxLength(253)],
        /// The namespace of the source; the same when none is given.
        namespace "namespace": Option<String> [MinLength(1), MaxLength(63)],
    }
}

record! {
    /// Which signatures to ask for.
    pub struct HelmChartTemplateVerification {
        /// What checks them.
        provider "provider": Option<SignatureProvider> [Required, Default(r#""cosign""#)],
        /// The Secret with public keys or certificates.
        secret_ref "secretRef": Option<LocalObjectReference>,
    }
}

record! {
    /// A finished chart.
    pub struct ChartReference {
        /// The API version of the object.
        api_version "apiVersion": Option<String>,
        /// The kind of the object.
        kind "kind": ChartRefKind,
        /// The name of the object.
        name "name": String [MinLength(1), MaxLength(253)],
        /// The namespace of the object; the same when none is given.
        namespace "namespace": Option<String> [MinLength(1), MaxLength(63)],
    }
}

record! {
    /// What to do about differences between cluster and release.
    pub struct DriftDetection {
        /// What to do: disabled by default.
        mode "mode": Option<DriftDetectionMode>,
        /// Fields that are not compared.
        ignore "ignore": Vec<IgnoreRule>,
    }
}

record! {
    /// An object with values, in the same namespace.
    pub struct ValuesReference {
        /// The kind of the object.
        kind "kind": ConfigKind,
        /// The name of the object.
        name "name": String [MinLength(1), MaxLength(253)],
        /// The key of the values: values.yaml by default.
        values_key "valuesKey": Option<String> [MaxLength(253), Pattern(r"^[\-._a-zA-Z0-9]+$")],
        /// Where to put a single value; without it, what is there is a whole file of values.
        target_path "targetPath": Option<String> [
            MaxLength(250),
            Pattern(r"^([a-zA-Z0-9_\-.\\\/]|\[[0-9]{1,5}\])+$"),
        ],
        /// Whether it may be missing.
        optional "optional": bool,
        /// Whether a single value is taken as a text as it stands.
        literal "literal": bool,
    }
}

record! {
    /// What to do with the rendered manifests.
    pub struct PostRenderer {
        /// Patches and images of kustomize.
        kustomize "kustomize": Option<KustomizePostRenderer>,
    }
}

record! {
    /// Patches and images of kustomize.
    pub struct KustomizePostRenderer {
        /// Patches to make.
        patches "patches": Vec<Patch>,
        /// Images to change.
        images "images": Vec<Image>,
    }
}

record! {
    /// How to wait for health.
    pub struct WaitStrategy {
        /// The name of the way.
        name "name": WaitStrategyName,
    }
}
