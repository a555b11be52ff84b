//! The fields of `Chart.yaml`, in the order of Go's structs.

/// Those of a chart's metadata.
pub(crate) const METADATA: [&str; 17] = [
    "name",
    "home",
    "sources",
    "version",
    "description",
    "keywords",
    "maintainers",
    "icon",
    "apiVersion",
    "condition",
    "tags",
    "appVersion",
    "deprecated",
    "annotations",
    "kubeVersion",
    "dependencies",
    "type",
];
/// Those of a maintainer.
pub(crate) const MAINTAINER: [&str; 3] = ["name", "email", "url"];
/// Those of a dependency.
pub(crate) const DEPENDENCY: [&str; 8] = [
    "name",
    "version",
    "repository",
    "condition",
    "tags",
    "enabled",
    "import-values",
    "alias",
];
