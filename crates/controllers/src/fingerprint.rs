//! What tells requesters apart in the keys of whatever is shared between objects.
//!
//! Two objects may share work only where everything that could make a difference between those who ask is the
//! same: namespace, contents of Secrets, CA, proxy, user and password, the text of a kubeconfig, the
//! account. Secrets go into keys as digests, never as text.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everflow_api::view;
use everflow_json::Value;

/// A digest of all that a requester has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 32]);

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl AsRef<[u8]> for Fingerprint {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Takes a fingerprint, part by part.
#[derive(Debug, Clone)]
pub(crate) struct Parts(blake3::Hasher);

impl Parts {
    /// Of what, so that fingerprints of different things differ.
    pub(crate) fn of(what: &str) -> Self {
        Parts(blake3::Hasher::new()).and(what)
    }

    /// One more part. Where one ends and the next begins matters.
    pub(crate) fn and(mut self, part: impl AsRef<[u8]>) -> Self {
        let part = part.as_ref();
        self.0.update(&(part.len() as u64).to_le_bytes());
        self.0.update(part);
        self
    }

    /// A part that may be missing, which is something else than an empty one.
    pub(crate) fn maybe(self, part: Option<impl AsRef<[u8]>>) -> Self {
        match part {
            None => self.and("-"),
            Some(part) => self.and("+").and(part),
        }
    }

    pub(crate) fn done(&self) -> Fingerprint {
        Fingerprint(self.0.finalize().into())
    }
}

impl Fingerprint {
    /// The fingerprint of a Secret, as it is written in a file or as the API server gives it: namespace,
    /// name and contents.
    pub fn of_secret(secret: &Value) -> Self {
        let mut contents: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
        for (key, value) in secret["data"].as_object().into_iter().flatten() {
            let text = value.as_str().unwrap_or_default();
            let bytes = STANDARD.decode(text.trim_end());
            contents.insert(key, bytes.unwrap_or_else(|_| text.as_bytes().to_vec()));
        }
        for (key, value) in secret["stringData"].as_object().into_iter().flatten() {
            let text = value.as_str().unwrap_or_default();
            contents.insert(key, text.as_bytes().to_vec());
        }
        let namespace = match view::namespace(secret) {
            "" => "default",
            namespace => namespace,
        };
        let parts = Parts::of("Secret").and(namespace).and(view::name(secret));
        let parts = contents
            .iter()
            .fold(parts, |parts, (key, bytes)| parts.and(key).and(bytes));
        parts.done()
    }
}

/// Which other clusters `spec.kubeConfig` may lead to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum RemoteClusters {
    /// All: in a cluster those who may create Secrets decide.
    #[default]
    Allowed,
    /// Only those whose kubeconfig is in one of these very Secrets: the same namespace, name and contents.
    OnlyFrom(BTreeSet<Fingerprint>),
    /// None.
    Refused,
}

impl RemoteClusters {
    /// Those of a world on somebody's machine: the kubeconfigs that were given by hand, and none without
    /// the network.
    pub fn given(secrets: BTreeSet<Fingerprint>, offline: bool) -> Self {
        if offline {
            return RemoteClusters::Refused;
        }
        RemoteClusters::OnlyFrom(secrets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everflow_json::json;

    fn secret(namespace: &str, name: &str, contents: Value) -> Value {
        let mut secret = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"namespace": namespace, "name": name}});
        for (key, value) in contents.as_object().unwrap() {
            secret[key] = value.clone();
        }
        secret
    }

    #[test]
    fn fingerprint_depends_on_part_boundaries() {
        let of = |parts: &[&str]| {
            let begun = Parts::of("x");
            parts.iter().fold(begun, |all, part| all.and(part)).done()
        };
        assert_ne!(of(&["ab", "c"]), of(&["a", "bc"]));
        assert_ne!(of(&["a"]), of(&["a", ""]));
        let missing = Parts::of("x").maybe(None::<&str>).done();
        assert_ne!(missing, Parts::of("x").maybe(Some("")).done());
    }

    #[test]
    fn secrets_are_told_apart_by_namespace_name_and_contents() {
        let written = secret("a", "kc", json!({"stringData": {"value": "text"}}));
        let served = secret("a", "kc", json!({"data": {"value": "dGV4dA=="}}));
        let of = Fingerprint::of_secret;
        assert_eq!(of(&written), of(&served));
        for other in [
            secret("b", "kc", json!({"data": {"value": "dGV4dA=="}})),
            secret("a", "other", json!({"data": {"value": "dGV4dA=="}})),
            secret("a", "kc", json!({"data": {"value": "dGV4dB=="}})),
            secret("a", "kc", json!({"data": {"value.yaml": "dGV4dA=="}})),
            secret(
                "a",
                "kc",
                json!({"data": {"value": "dGV4dA==", "more": ""}}),
            ),
        ] {
            assert_ne!(of(&other), of(&served), "{other}");
        }
        let nowhere = secret("", "kc", json!({"data": {}}));
        assert_eq!(of(&nowhere), of(&secret("default", "kc", json!({}))));
    }
}
