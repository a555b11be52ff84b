//! HelmChart.

use everflow_time::Duration;

use crate::common::{
    Artifact, ChartSourceKind, DURATION, INT64, LocalObjectReference, ReconcileStrategy,
    SignatureProvider,
};
use crate::condition::Condition;
use crate::crd::{AGE, MESSAGE, READY, SOURCES, column};
use crate::source::OIDCIdentityMatch;

kind! {
    /// A Helm chart.
    HelmChart in crate::names::group::SOURCE {
        version: "v1",
        plural: "helmcharts",
        singular: "helmchart",
        short_names: ["hc"],
        categories: SOURCES,
        columns: [
            column("Chart", ".spec.chart"),
            column("Version", ".spec.version"),
            column("Source Kind", ".spec.sourceRef.kind"),
            column("Source Name", ".spec.sourceRef.name"),
            AGE,
            READY,
            MESSAGE,
        ],
        spec: HelmChartSpec,
        status: HelmChartStatus, Some(HelmChartStatus::RECORD), true,
    }
}

record! {
    /// Which chart, and from where.
    [Check {
        rule: "!has(self.verify) || self.sourceRef.kind == 'HelmRepository'",
        message: "spec.verify is only supported when spec.sourceRef.kind is 'HelmRepository'",
    }]
    pub struct HelmChartSpec {
        /// Its name in the repository, or its path in another source.
        chart "chart": String,
        /// A range of versions, for Helm repositories.
        version "version": Option<String> [Default(r#""*""#)],
        /// Where it comes from.
        source_ref "sourceRef": LocalHelmChartSourceReference,
        /// How often to look for changes.
        interval "interval": Duration [DURATION],
        /// When to package it anew.
        reconcile_strategy "reconcileStrategy": Option<ReconcileStrategy> [Default(r#""ChartVersion""#)],
        /// Files with values that take the place of values.yaml.
        values_files "valuesFiles": Vec<String>,
        /// Whether such files may be missing.
        ignore_missing_values_files "ignoreMissingValuesFiles": bool,
        /// Whether to leave it alone.
        suspend "suspend": bool,
        /// Which signatures to ask for, in registries.
        verify "verify": Option<HelmChartVerification>,
    }
}

impl HelmChartSpec {
    /// The range of versions.
    pub fn version(&self) -> &str {
        self.version.as_deref().unwrap_or("*")
    }

    /// When to package it anew.
    pub fn reconcile_strategy(&self) -> ReconcileStrategy {
        self.reconcile_strategy.unwrap_or_default()
    }
}

record! {
    /// Where a chart comes from, in the same namespace.
    pub struct LocalHelmChartSourceReference {
        /// The API version of the source.
        api_version "apiVersion": Option<String>,
        /// The kind of the source.
        kind "kind": ChartSourceKind,
        /// The name of the source.
        name "name": String,
    }
}

record! {
    /// Which signatures to ask for.
    pub struct HelmChartVerification {
        /// What checks them.
        provider "provider": Option<SignatureProvider> [Required, Default(r#""cosign""#)],
        /// The Secret with public keys or certificates.
        secret_ref "secretRef": Option<LocalObjectReference>,
        /// The identities that may have signed without keys.
        match_oidc_identity "matchOIDCIdentity": Vec<OIDCIdentityMatch>,
    }
}

record! {
    /// What is known of the chart.
    pub struct HelmChartStatus {
        /// The generation of the spec that was last heeded.
        observed_generation "observedGeneration": i64 [INT64],
        /// The revision of the source it was made from.
        observed_source_artifact_revision "observedSourceArtifactRevision": Option<String>,
        /// Its name.
        observed_chart_name "observedChartName": Option<String>,
        /// The files with values that there were.
        observed_values_files "observedValuesFiles": Vec<String>,
        /// How it stands.
        conditions "conditions": Vec<Condition>,
        /// Where the newest chart can be had.
        url "url": Option<String>,
        /// What was last produced.
        artifact "artifact": Option<Artifact>,
        /// The last request for an attempt that was heeded.
        last_handled_reconcile_at "lastHandledReconcileAt": Option<String>,
    }
}
