//! An OCI registry in memory, as plain as the one of the recording.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everflow_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::net::{Answer, Asked};
use super::scenario::Push;

/// What is in the registry.
#[derive(Debug, Default)]
pub struct Registry {
    blobs: BTreeMap<String, Vec<u8>>,
    manifests: BTreeMap<String, Vec<u8>>,
    tags: BTreeMap<String, BTreeMap<String, String>>,
}

pub fn digest(bytes: &[u8]) -> String {
    let sum = Sha256::digest(bytes);
    let hex: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

impl Registry {
    /// Pushes an artifact as scenarios describe them.
    pub fn push(&mut self, namespace: &str, push: &Push) {
        let repository = push.repo.as_deref().unwrap_or(namespace).to_owned();
        let text = |value: &Value| everflow_json::to_string(value).unwrap();
        let mut blob = |media_type: &str, bytes: Vec<u8>| {
            let sum = digest(&bytes);
            let size = bytes.len();
            self.blobs.insert(sum.clone(), bytes);
            format!(
                r#"{{"mediaType":{},"size":{size},"digest":"{sum}"}}"#,
                text(&media_type.into())
            )
        };
        let config_type = push
            .config_media_type
            .as_deref()
            .unwrap_or("application/vnd.cncf.flux.config.v1+json");
        let config = match &push.config {
            Value::Null => "{}".to_owned(),
            Value::String(text) => text.to_string(),
            other => text(other),
        };
        let config = blob(config_type, config.into_bytes());
        let layers: Vec<String> = push
            .layers
            .iter()
            .map(|layer| {
                let bytes = STANDARD.decode(layer["base64"].as_str().unwrap()).unwrap();
                blob(layer["mediaType"].as_str().unwrap(), bytes)
            })
            .collect();
        let mut manifest = format!(
            r#"{{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{config},"layers":[{}]"#,
            layers.join(",")
        );
        if !push.annotations.0.is_empty() {
            let entries = push.annotations.0.iter();
            let entries: Vec<String> = entries
                .map(|(key, value)| format!("{}:{value}", text(&key.as_str().into())))
                .collect();
            manifest.push_str(&format!(r#","annotations":{{{}}}"#, entries.join(",")));
        }
        manifest.push('}');
        let sum = digest(manifest.as_bytes());
        self.manifests.insert(sum.clone(), manifest.into_bytes());
        let tags = self.tags.entry(repository).or_default();
        for tag in &push.tags {
            tags.insert(tag.clone(), sum.clone());
        }
    }

    /// Lets tags point to what another one points to.
    pub fn retag(&mut self, namespace: &str, push: &Map) {
        let repository = push
            .get("repo")
            .and_then(Value::as_str)
            .unwrap_or(namespace);
        let tags = self.tags.get_mut(repository).unwrap();
        let sum = tags[push["of"].as_str().unwrap()].clone();
        for tag in push["tags"].as_array().unwrap() {
            tags.insert(tag.as_str().unwrap().to_owned(), sum.clone());
        }
    }

    fn refuse(status: u16, code: &str, message: &str) -> Answer {
        let body = json!({"errors": [{"code": code, "message": message}]});
        Answer::new(status, "application/json", body.to_string().into_bytes())
    }

    pub fn answer(&self, asked: &Asked) -> Answer {
        let (path, _) = asked.target.split_once('?').unwrap_or((&asked.target, ""));
        if path.contains("/hang/") {
            return Answer::Hang;
        }
        let Some(rest) = path.strip_prefix("/v2/") else {
            return Answer::status(404);
        };
        if rest.starts_with("private/") && !asked.is_signed_in() {
            return Self::refuse(401, "UNAUTHORIZED", "authentication required")
                .with("Www-Authenticate", "Basic realm=\"reg\"");
        }
        if rest.is_empty() {
            return Answer::new(200, "application/json", b"{}".to_vec());
        }
        if let Some(repository) = rest.strip_suffix("/tags/list") {
            return match self.tags.get(repository) {
                None => Self::refuse(404, "NAME_UNKNOWN", "Unknown name"),
                Some(tags) => {
                    let names: Vec<&String> = tags.keys().collect();
                    let body = json!({"name": repository, "tags": names}).to_string();
                    Answer::new(200, "application/json", body.into_bytes())
                }
            };
        }
        if let Some((repository, reference)) = rest.split_once("/manifests/") {
            let Some(tags) = self.tags.get(repository) else {
                return Self::refuse(404, "NAME_UNKNOWN", "Unknown name");
            };
            let sum = tags.get(reference).map_or(reference, String::as_str);
            return match self.manifests.get(sum) {
                None => Self::refuse(404, "MANIFEST_UNKNOWN", "Unknown manifest"),
                Some(manifest) => Answer::new(
                    200,
                    "application/vnd.oci.image.manifest.v1+json",
                    manifest.clone(),
                )
                .with("Docker-Content-Digest", sum),
            };
        }
        if let Some((_, sum)) = rest.split_once("/blobs/") {
            return match self.blobs.get(sum) {
                None => Self::refuse(404, "BLOB_UNKNOWN", "Unknown blob"),
                Some(blob) => Answer::new(200, "application/octet-stream", blob.clone()),
            };
        }
        Answer::status(404)
    }
}
