//! Keeps an installation as the FluxInstance of its namespace says, and writes a FluxReport about it.
//!
//! `everflow_install::instance` says what a FluxInstance comes to; this applies it in the cluster, removes what it no
//! longer comes to, and tells how that went. Nothing is uninstalled when the FluxInstance is deleted.
#![forbid(unsafe_code)]

mod apply;
mod controller;
mod report;
mod status;

use everflow_runtime::client::Resource;

pub use controller::InstanceController;

/// FluxInstances.
pub const INSTANCES: Resource = Resource::namespaced(
    "fluxcd.controlplane.io",
    "v1",
    "fluxinstances",
    "FluxInstance",
);
/// FluxReports.
pub const REPORTS: Resource =
    Resource::namespaced("fluxcd.controlplane.io", "v1", "fluxreports", "FluxReport");
/// The name of the one instance, and of its report.
pub const NAME: &str = "flux";
/// Who applies the objects: the same as `everflow install`, so that fields it has left go.
const MANAGER: &str = "flux";
