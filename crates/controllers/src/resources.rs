//! The kinds that controllers are about.

use everflow_runtime::client::Resource;

const SOURCE: &str = everflow_api::names::group::SOURCE;

/// Git repositories.
pub const GIT_REPOSITORIES: Resource =
    Resource::namespaced(SOURCE, "v1", "gitrepositories", "GitRepository");
/// OCI repositories.
pub const OCI_REPOSITORIES: Resource =
    Resource::namespaced(SOURCE, "v1", "ocirepositories", "OCIRepository");
/// Buckets.
pub const BUCKETS: Resource = Resource::namespaced(SOURCE, "v1", "buckets", "Bucket");
/// Helm repositories.
pub const HELM_REPOSITORIES: Resource =
    Resource::namespaced(SOURCE, "v1", "helmrepositories", "HelmRepository");
/// Helm charts.
pub const HELM_CHARTS: Resource = Resource::namespaced(SOURCE, "v1", "helmcharts", "HelmChart");
/// Artifacts that others produce. No controller here reconciles them.
pub const EXTERNAL_ARTIFACTS: Resource =
    Resource::namespaced(SOURCE, "v1", "externalartifacts", "ExternalArtifact");
/// Kustomizations.
pub const KUSTOMIZATIONS: Resource = Resource::namespaced(
    everflow_api::names::group::KUSTOMIZE,
    "v1",
    "kustomizations",
    "Kustomization",
);
/// Secrets.
pub const SECRETS: Resource = Resource::namespaced("", "v1", "secrets", "Secret");
/// ConfigMaps.
pub const CONFIG_MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");
/// Service accounts.
pub const SERVICE_ACCOUNTS: Resource =
    Resource::namespaced("", "v1", "serviceaccounts", "ServiceAccount");
/// Releases of charts.
pub const HELM_RELEASES: Resource = Resource::namespaced(
    everflow_api::names::group::HELM,
    "v2",
    "helmreleases",
    "HelmRelease",
);
/// Receivers of webhooks.
pub const RECEIVERS: Resource = everflow_dispatch::resources::RECEIVERS;
