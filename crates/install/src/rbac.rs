//! What the pods may do: as little as works, and cluster-admin where they apply in their own name, as Flux.

use everflow_json::{Value, json};

use crate::names::{SERVICE_ACCOUNT, namespaced, of_cluster, with_namespace};
use crate::options::Options;

const GROUPS: [&str; 7] = [
    "source.toolkit.fluxcd.io",
    "kustomize.toolkit.fluxcd.io",
    "helm.toolkit.fluxcd.io",
    "notification.toolkit.fluxcd.io",
    "image.toolkit.fluxcd.io",
    "source.extensions.fluxcd.io",
    "fluxcd.controlplane.io",
];

pub(crate) fn service_accounts(options: &Options) -> Vec<Value> {
    let account = |name: &str| {
        json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": namespaced(options, name),
        })
    };
    let mut accounts = vec![account(SERVICE_ACCOUNT)];
    if options.multitenant && !options.platform_admin.is_empty() {
        accounts.push(account(&options.platform_admin));
    }
    accounts
}

pub(crate) fn roles(options: &Options) -> Vec<Value> {
    let mut objects = vec![
        cluster_role(options, "crd-controller", controller_rules(options)),
        viewers(
            options,
            "flux-view",
            &["view", "edit", "admin"],
            &["get", "list", "watch"],
        ),
        viewers(
            options,
            "flux-edit",
            &["edit", "admin"],
            &["create", "delete", "deletecollection", "patch", "update"],
        ),
        cluster_binding(options, "crd-controller", None, SERVICE_ACCOUNT),
    ];
    let admin = match options.multitenant {
        false => Some(SERVICE_ACCOUNT),
        true => Some(options.platform_admin.as_str()).filter(|name| !name.is_empty()),
    };
    if let Some(account) = admin {
        objects.push(cluster_binding(
            options,
            "cluster-reconciler",
            Some("cluster-admin"),
            account,
        ));
    }
    objects.extend(own_namespace(options));
    objects.extend(api_servers(options));
    objects
}

/// What the engine does in its own name, whoever applies.
fn controller_rules(options: &Options) -> Value {
    let mut rules = vec![
        json!({"apiGroups": GROUPS, "resources": ["*"],
            "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"]}),
        json!({"apiGroups": [""], "resources": ["namespaces", "secrets", "configmaps", "serviceaccounts"],
            "verbs": ["get", "list", "watch"]}),
        json!({"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]}),
    ];
    if options.multitenant {
        // Objects are applied in the names of accounts; what was applied is watched in the engine's own.
        rules.push(
            json!({"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["impersonate"]}),
        );
        rules.push(
            json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}),
        );
    }
    json!(rules)
}

fn cluster_role(options: &Options, name: &str, rules: Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": of_cluster(options, &with_namespace(options, name)),
        "rules": rules,
    })
}

/// Whoever may see or edit a namespace may do so with the Flux objects in it.
fn viewers(options: &Options, name: &str, of: &[&str], verbs: &[&str]) -> Value {
    let rules = json!([{"apiGroups": GROUPS, "resources": ["*"], "verbs": verbs}]);
    let mut role = cluster_role(options, name, rules);
    for name in of {
        let label = format!("rbac.authorization.k8s.io/aggregate-to-{name}");
        role["metadata"]["labels"][label.as_str()] = json!("true");
    }
    role
}

fn cluster_binding(options: &Options, name: &str, role: Option<&str>, account: &str) -> Value {
    let full = with_namespace(options, name);
    let role = role.unwrap_or(&full);
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": of_cluster(options, &full),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": options.namespace}],
    })
}

fn role(mut metadata: Value, namespace: &str, rules: Value) -> Value {
    metadata["namespace"] = json!(namespace);
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": metadata,
        "rules": rules,
    })
}

fn binding(options: &Options, mut metadata: Value, namespace: &str) -> Value {
    metadata["namespace"] = json!(namespace);
    let name = metadata["name"].clone();
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": options.namespace}],
    })
}

/// Leases, and what replicas tell one another.
fn own_namespace(options: &Options) -> [Value; 2] {
    let metadata = namespaced(options, SERVICE_ACCOUNT);
    let rules = json!([
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
            "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["configmaps"],
            "resourceNames": ["everflow-api-endpoints", "everflow-notifications-told"],
            "verbs": ["get", "update", "patch"]},
    ]);
    [
        role(metadata.clone(), &options.namespace, rules),
        binding(options, metadata, &options.namespace),
    ]
}

/// The API servers' own addresses.
fn api_servers(options: &Options) -> [Value; 2] {
    let name = with_namespace(options, "everflow-api-endpoints");
    let metadata = namespaced(options, &name);
    let rules = json!([{"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"],
        "resourceNames": ["kubernetes"], "verbs": ["get"]}]);
    [
        role(metadata.clone(), "default", rules),
        binding(options, metadata, "default"),
    ]
}
