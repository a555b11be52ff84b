//! What identifies an object.

use std::collections::HashMap;
use std::fmt;
use std::sync::OnceLock;

use smol_str::SmolStr;

/// The namespace that stands for "has none and can have none".
pub const NOT_A_NAMESPACE: &str = "_non_namespaceable_";
const DEFAULT_NAMESPACE: &str = "default";

/// Group, version and kind; in selectors an empty part fits anything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Gvk {
    /// API group; empty for the core group.
    pub group: SmolStr,
    /// API version.
    pub version: SmolStr,
    /// Kind.
    pub kind: SmolStr,
}

impl Gvk {
    /// Splits `group/version`.
    pub fn new(api_version: &str, kind: &str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Gvk {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
        }
    }

    /// `group/version`, or the version alone.
    pub fn api_version(&self) -> SmolStr {
        if self.group.is_empty() {
            return self.version.clone();
        }
        smol_str::format_smolstr!("{}/{}", self.group, self.version)
    }

    /// True when every part that the selector has is the same.
    pub fn is_selected_by(&self, selector: &Gvk) -> bool {
        let fits = |wanted: &SmolStr, have: &SmolStr| wanted.is_empty() || wanted == have;
        fits(&selector.kind, &self.kind)
            && fits(&selector.group, &self.group)
            && fits(&selector.version, &self.version)
    }

    /// The key that field specs are ordered by.
    pub fn sort_key(&self) -> (i32, String) {
        (kind_rank(&self.kind), self.sort_text())
    }

    /// `group_version_kind` with marks for empty parts.
    pub fn sort_text(&self) -> String {
        format!(
            "{}_{}_{}",
            or(&self.group, "~G"),
            or(&self.version, "~V"),
            or(&self.kind, "~K")
        )
    }
}

fn or<'a>(text: &'a str, empty: &'a str) -> &'a str {
    if text.is_empty() { empty } else { text }
}

impl fmt::Display for Gvk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{}.{}",
            or(&self.kind, "[noKind]"),
            or(&self.version, "[noVer]"),
            or(&self.group, "[noGrp]")
        )
    }
}

/// Kinds that come first in the legacy order.
pub const ORDER_FIRST: [&str; 22] = [
    "Namespace",
    "ResourceQuota",
    "StorageClass",
    "CustomResourceDefinition",
    "ServiceAccount",
    "PodSecurityPolicy",
    "Role",
    "ClusterRole",
    "RoleBinding",
    "ClusterRoleBinding",
    "ConfigMap",
    "Secret",
    "Endpoints",
    "Service",
    "LimitRange",
    "PriorityClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Deployment",
    "StatefulSet",
    "CronJob",
    "PodDisruptionBudget",
];
/// Kinds that come last in the legacy order.
pub const ORDER_LAST: [&str; 2] = [
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];

fn kind_rank(kind: &str) -> i32 {
    if let Some(index) = ORDER_FIRST.iter().position(|first| *first == kind) {
        return index as i32 - ORDER_FIRST.len() as i32;
    }
    match ORDER_LAST.iter().position(|last| *last == kind) {
        Some(index) => 1 + index as i32,
        None => 0,
    }
}

/// The identity of an object: its type, name and namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ResId {
    /// Type.
    pub gvk: Gvk,
    /// Name.
    pub name: SmolStr,
    /// Namespace as written; may be empty.
    pub namespace: SmolStr,
    /// The kind is known to have no namespace.
    pub cluster_scoped: bool,
}

impl ResId {
    /// The namespace the object is in once defaults are filled in.
    pub fn effective_namespace(&self) -> &str {
        if self.cluster_scoped {
            NOT_A_NAMESPACE
        } else if self.namespace.is_empty() {
            DEFAULT_NAMESPACE
        } else {
            &self.namespace
        }
    }

    /// Same type, name and effective namespace.
    pub fn same_object(&self, other: &ResId) -> bool {
        self.name == other.name
            && self.gvk == other.gvk
            && self.effective_namespace() == other.effective_namespace()
    }

    /// True when every part that the selector has is the same.
    pub fn is_selected_by(&self, selector: &ResId) -> bool {
        (selector.name.is_empty() || selector.name == self.name)
            && (selector.namespace.is_empty()
                || selector.effective_namespace() == self.effective_namespace())
            && self.gvk.is_selected_by(&selector.gvk)
    }
}

impl fmt::Display for ResId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}/{}.{}",
            self.gvk,
            or(&self.name, "[noName]"),
            or(&self.namespace, "[noNs]")
        )
    }
}

/// Where objects of a kind live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In a namespace.
    Namespaced,
    /// In none.
    Cluster,
}

/// The scope of a built-in kind.
pub fn builtin_scope(api_version: &str, kind: &str) -> Option<Scope> {
    static SCOPES: OnceLock<HashMap<(&'static str, &'static str), Scope>> = OnceLock::new();
    let scopes = SCOPES.get_or_init(|| {
        let mut scopes = HashMap::new();
        for line in include_str!("../data/scopes.txt").lines() {
            let mut words = line.split_ascii_whitespace();
            if let (Some(version), Some(kind), Some(scope)) =
                (words.next(), words.next(), words.next())
                && version != "#"
            {
                let scope = match scope {
                    "cluster" => Scope::Cluster,
                    _ => Scope::Namespaced,
                };
                scopes.insert((version, kind), scope);
            }
        }
        scopes
    });
    scopes.get(&(api_version, kind)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_print_like_kustomize() {
        let mut id = ResId {
            gvk: Gvk::new("apps/v1", "Deployment"),
            name: "web".into(),
            ..ResId::default()
        };
        assert_eq!(id.to_string(), "Deployment.v1.apps/web.[noNs]");
        assert_eq!(id.effective_namespace(), "default");
        id.namespace = "shop".into();
        assert_eq!(id.to_string(), "Deployment.v1.apps/web.shop");
        assert_eq!(builtin_scope("v1", "Namespace"), Some(Scope::Cluster));
        assert_eq!(builtin_scope("v1", "ConfigMap"), Some(Scope::Namespaced));
        assert_eq!(builtin_scope("example.com/v1", "Thing"), None);
    }
}
