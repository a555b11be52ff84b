//! The kinds that controllers are about: Flux's from the one table of `api`, and some of Kubernetes.

use everflow_api::helm::HelmRelease;
use everflow_api::kustomization::Kustomization;
use everflow_api::object::Kind;
use everflow_api::source::{
    Bucket, ExternalArtifact, GitRepository, HelmChart, HelmRepository, OCIRepository,
};
use everflow_dispatch::resources::collection;
use everflow_runtime::client::Resource;

/// Git repositories.
pub const GIT_REPOSITORIES: Resource = collection(GitRepository::INFO);
/// OCI repositories.
pub const OCI_REPOSITORIES: Resource = collection(OCIRepository::INFO);
/// Buckets.
pub const BUCKETS: Resource = collection(Bucket::INFO);
/// Helm repositories.
pub const HELM_REPOSITORIES: Resource = collection(HelmRepository::INFO);
/// Helm charts.
pub const HELM_CHARTS: Resource = collection(HelmChart::INFO);
/// Artifacts that others produce. No controller here reconciles them.
pub const EXTERNAL_ARTIFACTS: Resource = collection(ExternalArtifact::INFO);
/// Kustomizations.
pub const KUSTOMIZATIONS: Resource = collection(Kustomization::INFO);
/// Releases of charts.
pub const HELM_RELEASES: Resource = collection(HelmRelease::INFO);
/// Receivers of webhooks.
pub const RECEIVERS: Resource = everflow_dispatch::resources::RECEIVERS;
/// Secrets.
pub const SECRETS: Resource = Resource::namespaced("", "v1", "secrets", "Secret");
/// ConfigMaps.
pub const CONFIG_MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");
/// Service accounts.
pub const SERVICE_ACCOUNTS: Resource =
    Resource::namespaced("", "v1", "serviceaccounts", "ServiceAccount");
