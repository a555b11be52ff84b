//! A TUF repository of our own.

use std::collections::BTreeMap;

use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair as _};

use super::{hash, hex};

/// Signs what the root of trust is, and who may say so.
pub struct TestMirror {
    key: Ed25519KeyPair,
    /// The version of the timestamp, the snapshot and the targets.
    pub version: u64,
    /// Until when all but the root count.
    pub expires: String,
    /// Until when the root counts.
    pub root_expires: String,
    first: Vec<u8>,
}

fn key() -> Ed25519KeyPair {
    let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap()
}

fn id(key: &Ed25519KeyPair) -> String {
    hex(&hash(key.public_key().as_ref()))
}

/// An envelope around text with sorted keys and without spaces, which is what is signed.
fn envelope(signed: &str, keys: &[&Ed25519KeyPair]) -> Vec<u8> {
    let signatures: Vec<String> = keys
        .iter()
        .map(|key| {
            let signature = key.sign(signed.as_bytes());
            format!(
                r#"{{"keyid":"{}","sig":"{}"}}"#,
                id(key),
                hex(signature.as_ref())
            )
        })
        .collect();
    format!(
        r#"{{"signatures":[{}],"signed":{signed}}}"#,
        signatures.join(",")
    )
    .into_bytes()
}

fn root(version: u64, expires: &str, key: &Ed25519KeyPair) -> String {
    let id = id(key);
    let role = format!(r#"{{"keyids":["{id}"],"threshold":1}}"#);
    format!(
        r#"{{"_type":"root","consistent_snapshot":true,"expires":"{expires}","keys":{{"{id}":{{"keytype":"ed25519","keyval":{{"public":"{}"}},"scheme":"ed25519"}}}},"roles":{{"root":{role},"snapshot":{role},"targets":{role},"timestamp":{role}}},"spec_version":"1.0.31","version":{version}}}"#,
        hex(key.public_key().as_ref())
    )
}

impl Default for TestMirror {
    fn default() -> Self {
        Self::new()
    }
}

impl TestMirror {
    /// A new one, with keys of its own.
    pub fn new() -> Self {
        let key = key();
        let expires = "2999-01-01T00:00:00Z".to_owned();
        let first = envelope(&root(1, "2020-01-01T00:00:00Z", &key), &[&key]);
        TestMirror {
            key,
            version: 1,
            root_expires: expires.clone(),
            expires,
            first,
        }
    }

    /// The first root, which has expired: what counts is the newest that it leads to.
    pub fn first(&self) -> &[u8] {
        &self.first
    }

    /// All files by path, with this as the root of trust.
    pub fn files(&self, trusted_root: &str) -> BTreeMap<String, Vec<u8>> {
        self.signed_by(trusted_root, &self.key)
    }

    /// The same, but timestamps, snapshots and targets are signed by a stranger.
    pub fn forged(&self, trusted_root: &str) -> BTreeMap<String, Vec<u8>> {
        self.signed_by(trusted_root, &key())
    }

    fn signed_by(&self, trusted_root: &str, key: &Ed25519KeyPair) -> BTreeMap<String, Vec<u8>> {
        let (version, expires) = (self.version, &self.expires);
        let digest = hex(&hash(trusted_root.as_bytes()));
        let head = |kind: &str| format!(r#""_type":"{kind}","expires":"{expires}","#);
        let targets = format!(
            r#"{{{}"spec_version":"1.0.31","targets":{{"trusted_root.json":{{"hashes":{{"sha256":"{digest}"}},"length":{}}}}},"version":{version}}}"#,
            head("targets"),
            trusted_root.len()
        );
        let snapshot = format!(
            r#"{{{}"meta":{{"targets.json":{{"version":{version}}}}},"spec_version":"1.0.31","version":{version}}}"#,
            head("snapshot")
        );
        let timestamp = format!(
            r#"{{{}"meta":{{"snapshot.json":{{"version":{version}}}}},"spec_version":"1.0.31","version":{version}}}"#,
            head("timestamp")
        );
        let newest = root(2, &self.root_expires, &self.key);
        BTreeMap::from([
            ("2.root.json".to_owned(), envelope(&newest, &[&self.key])),
            ("timestamp.json".to_owned(), envelope(&timestamp, &[key])),
            (
                format!("{version}.snapshot.json"),
                envelope(&snapshot, &[key]),
            ),
            (
                format!("{version}.targets.json"),
                envelope(&targets, &[key]),
            ),
            (
                format!("targets/{digest}.trusted_root.json"),
                trusted_root.as_bytes().to_vec(),
            ),
        ])
    }
}
