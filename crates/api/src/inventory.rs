//! Inventories: which objects belong to a Kustomization or a release.

use std::fmt;
use std::str::FromStr;

use everflow_json::Value;

use crate::error::ApiError;

record! {
    /// One object of an inventory.
    pub struct ResourceRef {
        /// The object, as NAMESPACE_NAME_GROUP_KIND.
        id "id": String,
        /// The version of the object's API.
        version "v": String,
    }
}

record! {
    /// The objects that were applied.
    pub struct ResourceInventory {
        /// One entry for each object.
        entries "entries": Vec<ResourceRef> [Required],
    }
}

/// The identity of an object in an inventory.
///
/// ```
/// use everflow_api::inventory::ObjectId;
///
/// let id: ObjectId = "_system__node_rbac.authorization.k8s.io_ClusterRole".parse()?;
/// assert_eq!(id.name, "system:node");
/// assert_eq!(id.to_string(), "_system__node_rbac.authorization.k8s.io_ClusterRole");
/// # Ok::<(), everflow_api::error::ApiError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ObjectId {
    /// The namespace; empty for objects of the whole cluster.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The API group; empty for the core.
    pub group: String,
    /// The kind.
    pub kind: String,
}

impl ObjectId {
    /// Of an object; what it does not say is empty.
    pub fn of(object: &Value) -> Self {
        let text = |value: Option<&'_ Value>| -> String {
            let text = value.and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let api_version = object.get("apiVersion").and_then(Value::as_str);
        let api_version = api_version.unwrap_or_default();
        let metadata = object.get("metadata");
        let of_metadata = |field: &str| text(metadata.and_then(|metadata| metadata.get(field)));
        ObjectId {
            namespace: of_metadata("namespace"),
            name: of_metadata("name"),
            group: api_version
                .split_once('/')
                .map_or("", |(group, _)| group)
                .to_owned(),
            kind: text(object.get("kind")),
        }
    }

    /// As Flux names objects in messages: `Deployment/team/app`.
    pub fn subject(&self) -> String {
        match self.namespace.as_str() {
            "" => format!("{}/{}", self.kind, self.name),
            namespace => format!("{}/{namespace}/{}", self.kind, self.name),
        }
    }

    /// Names of roles and bindings may have colons, which stand as two underscores in an id.
    fn may_have_colons(&self) -> bool {
        self.group == "rbac.authorization.k8s.io"
            && matches!(
                self.kind.as_str(),
                "Role" | "ClusterRole" | "RoleBinding" | "ClusterRoleBinding"
            )
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            namespace,
            name,
            group,
            kind,
        } = self;
        match self.may_have_colons() {
            true => write!(f, "{namespace}_{}_{group}_{kind}", name.replace(':', "__")),
            false => write!(f, "{namespace}_{name}_{group}_{kind}"),
        }
    }
}

impl FromStr for ObjectId {
    type Err = ApiError;

    fn from_str(id: &str) -> Result<Self, ApiError> {
        let parts = || {
            let (namespace, rest) = id.split_once('_')?;
            let (rest, kind) = rest.rsplit_once('_')?;
            let (name, group) = rest.rsplit_once('_')?;
            Some(ObjectId {
                namespace: namespace.to_owned(),
                name: name.replace("__", ":"),
                group: group.to_owned(),
                kind: kind.to_owned(),
            })
        };
        parts().ok_or_else(|| ApiError::InvalidId { id: id.to_owned() })
    }
}

impl ResourceRef {
    /// The entry for an object.
    pub fn new(id: &ObjectId, version: impl Into<String>) -> Self {
        Self {
            id: id.to_string(),
            version: version.into(),
            ..Self::default()
        }
    }

    /// Which object it is.
    ///
    /// # Errors
    /// When the id has another form.
    pub fn object_id(&self) -> Result<ObjectId, ApiError> {
        self.id.parse()
    }
}
