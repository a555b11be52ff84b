//! Which workloads others cannot do without: a list as data, which labels extend.

use everflow_json::Value;

use crate::selector::labels_of;

/// A label on a workload, or on its pods, that gives it a role: the name of one below, or words of
/// one's own for what it does.
pub const LABEL: &str = "audit.everflow.dev/role";

/// What a workload does for all others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Role {
    /// Its name.
    pub name: String,
    /// What the node that it runs on carries.
    pub carries: String,
    /// Whether delivery cannot work without it.
    pub delivers: Delivery,
}

/// What delivery has to do with a role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// It is delivery.
    Is,
    /// Delivery needs it to reach the API server, or what is to be delivered.
    Needs,
    /// Delivery goes on without it for a while.
    GoesOn,
}

/// Name, what it carries, what delivery has to do with it, and the names of workloads.
type Known = (
    &'static str,
    &'static str,
    Delivery,
    &'static [&'static str],
);

/// The list.
const KNOWN: &[Known] = &[
    (
        "gitops",
        "GitOps",
        Delivery::Is,
        &[
            "everflow",
            "source-controller",
            "kustomize-controller",
            "helm-controller",
            "notification-controller",
            "flux-operator",
            "argocd-application-controller",
            "argocd-repo-server",
        ],
    ),
    (
        "identity",
        "workload identity",
        Delivery::GoesOn,
        &[
            "spire-server",
            "azure-wi-webhook-controller-manager",
            "pod-identity-webhook",
        ],
    ),
    (
        "network",
        "the network's operator",
        Delivery::Needs,
        &[
            "cilium-operator",
            "tigera-operator",
            "calico-kube-controllers",
            "calico-typha",
            "antrea-controller",
            "kube-ovn-controller",
        ],
    ),
    (
        "dns",
        "DNS",
        Delivery::Needs,
        &["coredns", "kube-dns", "rke2-coredns-rke2-coredns"],
    ),
    (
        "admission",
        "admission",
        Delivery::Needs,
        &[
            "kyverno-admission-controller",
            "gatekeeper-controller-manager",
            "opa",
        ],
    ),
    (
        "certificates",
        "certificates",
        Delivery::GoesOn,
        &[
            "cert-manager",
            "cert-manager-webhook",
            "cert-manager-cainjector",
            "step-issuer",
        ],
    ),
    (
        "git",
        "the Git server",
        Delivery::Needs,
        &[
            "gitea",
            "forgejo",
            "gitlab-webservice-default",
            "harbor-core",
            "zot",
        ],
    ),
    (
        "secrets",
        "secrets",
        Delivery::GoesOn,
        &[
            "external-secrets",
            "vault",
            "openbao",
            "sealed-secrets-controller",
            "sealed-secrets",
        ],
    ),
];

/// The role of that name, or one of one's own.
fn named(name: &str) -> Role {
    let known = KNOWN.iter().find(|(known, ..)| *known == name);
    match known {
        Some((name, carries, delivers, _)) => Role {
            name: (*name).to_owned(),
            carries: (*carries).to_owned(),
            delivers: *delivers,
        },
        None => Role {
            name: name.to_owned(),
            // Values of labels have no spaces.
            carries: name.replace(['_', '-'], " "),
            delivers: Delivery::GoesOn,
        },
    }
}

/// The role of a workload, if it has one: by its label, else by its names.
pub fn of(workload: &Value) -> Option<Role> {
    let template = workload.pointer("/spec/template").unwrap_or(&Value::Null);
    let labelled = [workload, template]
        .iter()
        .find_map(|object| Some(labels_of(object).get(LABEL)?.as_str()?.to_owned()));
    if let Some(name) = labelled.filter(|name| !name.is_empty()) {
        return Some(named(&name));
    }
    let own = workload.pointer("/metadata/name").and_then(Value::as_str);
    let labels = labels_of(workload);
    let by_label = ["app.kubernetes.io/name", "k8s-app", "app"]
        .iter()
        .filter_map(|label| labels.get(label)?.as_str());
    // The name first: a chart gives all its workloads the same label.
    let mut names = own.into_iter().chain(by_label);
    names.find_map(|name| {
        let (role, ..) = KNOWN.iter().find(|(.., names)| names.contains(&name))?;
        Some(named(role))
    })
}

/// The role of whatever answers a webhook that must not fail.
pub fn admission() -> Role {
    named("admission")
}
