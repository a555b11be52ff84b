//! What an installation has beside its Deployments, and what of an older one is left.

use everflow_api::inventory::ObjectId;
use everflow_json::Value;
use everflow_runtime::Error;
use everflow_runtime::client::{At, DeleteOptions, Resource, Selection, meta_text};

use super::verb::DEPLOYMENTS;
use crate::exit::Failure;
use crate::flux::connection::Session;
use crate::flux::say;

pub const RBAC: &str = "rbac.authorization.k8s.io";

/// What an installation has beside its Deployments, in the namespace and in the cluster.
pub const PARTS: [Resource; 10] = [
    Resource::namespaced(
        "policy",
        "v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
    ),
    Resource::namespaced("", "v1", "services", "Service"),
    Resource::namespaced(
        "networking.k8s.io",
        "v1",
        "networkpolicies",
        "NetworkPolicy",
    ),
    Resource::namespaced("", "v1", "serviceaccounts", "ServiceAccount"),
    Resource::namespaced("", "v1", "resourcequotas", "ResourceQuota"),
    Resource::namespaced(RBAC, "v1", "rolebindings", "RoleBinding"),
    Resource::namespaced(RBAC, "v1", "roles", "Role"),
    Resource::cluster(RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding"),
    Resource::cluster(RBAC, "v1", "clusterroles", "ClusterRole"),
    Resource::namespaced("monitoring.coreos.com", "v1", "podmonitors", "PodMonitor"),
];

/// The labels of an installation in a namespace, whatever made it.
pub fn of_instance(namespace: &str) -> String {
    let part_of = everflow_install::PART_OF_FLUX;
    format!("{part_of},app.kubernetes.io/instance={namespace}")
}

/// Deletes what an earlier installation had and this one has not: rights above all.
pub async fn delete_leftovers(
    session: &Session,
    namespace: &str,
    objects: &[Value],
) -> Result<(), Failure> {
    let failed = |what: &str, error: &Error| {
        let told = session.told_of(error);
        Failure::Work(format!("{what}: {told}"))
    };
    let kept: Vec<String> = objects
        .iter()
        .map(|object| ObjectId::of(object).subject())
        .collect();
    let admins = format!("cluster-reconciler-{namespace}");
    for resource in PARTS.iter().chain([&DEPLOYMENTS]) {
        let selection = Selection::labelled(of_instance(namespace));
        let listed = session.client.list_all(resource, None, &selection).await;
        let found = match listed {
            Ok(list) => list.items,
            // A kind that is not there has no objects.
            Err(Error::NotFound(_)) => continue,
            Err(error) => return Err(failed(&format!("cannot list {}", resource.plural), &error)),
        };
        // What Flux made under names of its own is not ours to delete, but for its cluster-admins.
        let is_ours = |object: &&Value| {
            let labels = &object["metadata"]["labels"];
            labels["app.kubernetes.io/name"] == everflow_install::DEPLOYMENT
                || resource.kind == "ClusterRoleBinding" && meta_text(object, "name") == admins
        };
        for object in found.iter().filter(is_ours) {
            let at = At::of(object);
            let subject = match at.namespace {
                "" => format!("{}/{}", resource.kind, at.name),
                namespace => format!("{}/{namespace}/{}", resource.kind, at.name),
            };
            if kept.contains(&subject) {
                continue;
            }
            let options = DeleteOptions::uid(meta_text(object, "uid"));
            match session.client.delete(resource, at, &options).await {
                Ok(_) => say::plain(&format!("{subject} deleted")),
                Err(Error::NotFound(_)) => {}
                Err(error) => return Err(failed(&format!("{subject} deletion failed"), &error)),
            }
        }
    }
    Ok(())
}
