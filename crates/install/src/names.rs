//! What the objects of an installation are called.

use everflow_json::{Value, json};

use crate::options::Options;

/// The version of this program, as labels have it.
pub const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));
/// The Deployment.
pub const DEPLOYMENT: &str = "everflow";
/// Its container, called as Flux's are.
pub const CONTAINER: &str = "manager";
/// The account that the pods run as.
pub const SERVICE_ACCOUNT: &str = "everflow";
/// The account that a FluxInstance's sync applies as when tenants are locked down, as Flux calls it.
pub const PLATFORM_ADMIN: &str = "kustomize-controller";
/// The label that selects the pods.
pub const PODS: &str = "app";
/// What selects everything of Flux, and of this program in its place.
pub const PART_OF_FLUX: &str = "app.kubernetes.io/part-of=flux";

/// The labels of all objects of an installation.
pub(crate) fn labels(options: &Options) -> Value {
    json!({
        "app.kubernetes.io/name": DEPLOYMENT,
        "app.kubernetes.io/instance": options.namespace,
        "app.kubernetes.io/part-of": "flux",
        "app.kubernetes.io/version": VERSION,
    })
}

/// Metadata of an object in the namespace.
pub(crate) fn namespaced(options: &Options, name: &str) -> Value {
    json!({"name": name, "namespace": options.namespace, "labels": labels(options)})
}

/// Metadata of an object of the cluster.
pub(crate) fn of_cluster(options: &Options, name: &str) -> Value {
    json!({"name": name, "labels": labels(options)})
}

/// A name that is Flux's and this installation's: objects of the cluster end with the namespace.
pub(crate) fn with_namespace(options: &Options, name: &str) -> String {
    format!("{name}-{}", options.namespace)
}
