//! Which collection of the API something belongs to.

use std::fmt;

use everflow_json::Value;
use smol_str::SmolStr;

/// A collection of the API: a kind in one version, and where it is served.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource {
    /// The group, empty for the core group.
    pub group: SmolStr,
    /// The version.
    pub version: SmolStr,
    /// The name in paths.
    pub plural: SmolStr,
    /// The kind.
    pub kind: SmolStr,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
}

impl Resource {
    /// A collection whose objects live in namespaces.
    pub const fn namespaced(
        group: &'static str,
        version: &'static str,
        plural: &'static str,
        kind: &'static str,
    ) -> Self {
        Resource {
            group: SmolStr::new_static(group),
            version: SmolStr::new_static(version),
            plural: SmolStr::new_static(plural),
            kind: SmolStr::new_static(kind),
            namespaced: true,
        }
    }

    /// A collection whose objects belong to the whole cluster.
    pub const fn cluster(
        group: &'static str,
        version: &'static str,
        plural: &'static str,
        kind: &'static str,
    ) -> Self {
        let mut resource = Resource::namespaced(group, version, plural, kind);
        resource.namespaced = false;
        resource
    }

    /// Group and version as manifests have them.
    pub fn api_version(&self) -> String {
        match self.group.is_empty() {
            true => self.version.to_string(),
            false => format!("{}/{}", self.group, self.version),
        }
    }

    /// What those who wait for a change of an object of this kind wait for.
    pub fn wake_on(&self, namespace: &str, name: &str) -> crate::queue::WakeOn {
        let kind = match self.group.is_empty() {
            true => self.kind.clone(),
            false => SmolStr::from(format!("{}.{}", self.kind, self.group)),
        };
        crate::queue::Key::new(kind, namespace, name)
    }

    /// The path of the collection, of one namespace or of all.
    pub fn path(&self, namespace: Option<&str>) -> String {
        let mut path = String::with_capacity(128);
        match self.group.is_empty() {
            true => path.push_str("/api/"),
            false => {
                path.push_str("/apis/");
                path.push_str(&self.group);
                path.push('/');
            }
        }
        path.push_str(&self.version);
        if let Some(namespace) = namespace.filter(|name| self.namespaced && !name.is_empty()) {
            path.push_str("/namespaces/");
            push_encoded(&mut path, namespace);
        }
        path.push('/');
        path.push_str(&self.plural);
        path
    }

    /// The path of an object.
    pub fn object_path(&self, at: &At<'_>) -> String {
        let mut path = self.path(Some(at.namespace));
        path.push('/');
        push_encoded(&mut path, at.name);
        if !at.subresource.is_empty() {
            path.push('/');
            path.push_str(at.subresource);
        }
        path
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group.is_empty() {
            true => f.write_str(&self.plural),
            false => write!(f, "{}.{}", self.plural, self.group),
        }
    }
}

/// Where an object, or a part of it, is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct At<'a> {
    /// The namespace, empty for objects of the whole cluster.
    pub namespace: &'a str,
    /// The name.
    pub name: &'a str,
    /// The part: `status`, `scale`, or empty for the whole.
    pub subresource: &'a str,
}

impl<'a> At<'a> {
    /// The whole object.
    pub fn new(namespace: &'a str, name: &'a str) -> Self {
        At {
            namespace,
            name,
            subresource: "",
        }
    }

    /// Where an object that the server sent is.
    pub fn of(object: &'a Value) -> Self {
        At::new(meta_text(object, "namespace"), meta_text(object, "name"))
    }

    /// Its status.
    #[must_use]
    pub fn status(mut self) -> Self {
        self.subresource = "status";
        self
    }
}

/// A text of an object's metadata, empty when it is not there.
pub fn meta_text<'v>(object: &'v Value, field: &str) -> &'v str {
    object
        .get("metadata")
        .and_then(|metadata| metadata.get(field))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The generation of an object's spec.
pub fn generation(object: &Value) -> i64 {
    object
        .pointer("/metadata/generation")
        .and_then(Value::as_i64)
        .unwrap_or_default()
}

/// The revision of an object or a list, 0 when there is none.
pub fn revision(object: &Value) -> u64 {
    meta_text(object, "resourceVersion").parse().unwrap_or(0)
}

/// An annotation of an object.
pub fn annotation<'v>(object: &'v Value, name: &str) -> Option<&'v str> {
    object
        .get("metadata")?
        .get("annotations")?
        .get(name)?
        .as_str()
}

/// Percent-encodes what must not stand in a path segment or a query value.
pub(crate) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    push_encoded(&mut encoded, text);
    encoded
}

/// The same, at the end of a text.
pub(super) fn push_encoded(encoded: &mut String, text: &str) {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~:".contains(&byte);
    if text.bytes().all(is_plain) {
        encoded.push_str(text);
        return;
    }
    for byte in text.bytes() {
        match is_plain(byte) {
            true => encoded.push(char::from(byte)),
            false => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_api() {
        let pods = Resource::namespaced("", "v1", "pods", "Pod");
        assert_eq!(pods.path(None), "/api/v1/pods");
        assert_eq!(
            pods.object_path(&At::new("a", "b").status()),
            "/api/v1/namespaces/a/pods/b/status"
        );
        let roles = Resource::cluster(
            "rbac.authorization.k8s.io",
            "v1",
            "clusterroles",
            "ClusterRole",
        );
        assert_eq!(
            roles.object_path(&At::new("", "system:a/b")),
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:a%2Fb"
        );
        assert_eq!(roles.to_string(), "clusterroles.rbac.authorization.k8s.io");
    }
}
