//! `everflow create tenant`

use everflow_json::{Map, Value, json};
use everflow_runtime::client::{At, Patch, Resource, WriteOptions};

use super::{Creation, named, print_export, work};
use crate::exit::Failure;
use crate::flux::suspend::MANAGER;
use crate::flux::{in_runtime, say};

/// The label of all that belongs to a tenant.
const TENANT: &str = "toolkit.fluxcd.io/tenant";
const RBAC: &str = "rbac.authorization.k8s.io";

/// `everflow create tenant`
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The name of the tenant
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The namespaces of the tenant
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    with_namespace: Vec<String>,
    /// The role that the tenant's service account gets in them
    #[arg(long, value_name = "NAME", default_value = "cluster-admin")]
    cluster_role: String,
    /// The name of the service account; by default that of the tenant
    #[arg(long, value_name = "NAME", default_value = "")]
    with_service_account: String,
    /// The namespaces exist already
    #[arg(long)]
    skip_namespace: bool,
}

/// What one namespace of a tenant has.
struct Place {
    what: &'static str,
    resource: Resource,
    object: Value,
}

pub fn run(args: &Args, creation: &Creation<'_>) -> Result<(), Failure> {
    let tenant = named(&args.name)?;
    if args.cluster_role.is_empty() {
        return Err(work("cluster-role is required"));
    }
    if args.with_namespace.is_empty() {
        return Err(work("with-namespace is required"));
    }
    let mut labels = creation.labels()?;
    labels.insert(TENANT.into(), json!(tenant));
    let places: Vec<Place> = args
        .with_namespace
        .iter()
        .flat_map(|namespace| places(args, tenant, namespace, &labels))
        .collect();
    if creation.common.export {
        return places
            .iter()
            .try_for_each(|place| print_export(&place.object));
    }
    in_runtime(async {
        let session = creation.connection.open()?;
        for place in &places {
            let at = At::of(&place.object);
            say::action(&format!("applying {} {}", place.what, at.name));
            let patch = Patch::Apply(place.object.clone());
            let by = WriteOptions::by(MANAGER).force();
            session
                .client
                .patch(&place.resource, at, &patch, &by)
                .await
                .map_err(|error| work(error.to_string()))?;
        }
        say::success("tenant setup completed");
        Ok(())
    })
}

fn places(args: &Args, tenant: &str, namespace: &str, labels: &Map) -> Vec<Place> {
    let account = match args.with_service_account.as_str() {
        "" => tenant,
        account => account,
    };
    let metadata = |name: &str| json!({"name": name, "namespace": namespace, "labels": labels});
    let binding = json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": "RoleBinding",
        "metadata": metadata(&format!("{tenant}-reconciler")),
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": args.cluster_role},
        "subjects": [
            {"apiGroup": RBAC, "kind": "User", "name": format!("gotk:{namespace}:reconciler")},
            {"kind": "ServiceAccount", "name": account, "namespace": namespace},
        ],
    });
    let mut places = Vec::new();
    if !args.skip_namespace {
        places.push(Place {
            what: "namespace",
            resource: Resource::cluster("", "v1", "namespaces", "Namespace"),
            object: json!({
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": namespace, "labels": labels},
            }),
        });
    }
    places.push(Place {
        what: "service account",
        resource: Resource::namespaced("", "v1", "serviceaccounts", "ServiceAccount"),
        object: json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": metadata(account),
        }),
    });
    places.push(Place {
        what: "role binding",
        resource: Resource::namespaced(RBAC, "v1", "rolebindings", "RoleBinding"),
        object: binding,
    });
    places
}
