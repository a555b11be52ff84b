//! Records in Secrets and ConfigMaps: JSON, gzip, base64.

use std::io::{Read, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everflow_json::{Map, Value, json};
use everflow_limits::{Budget, Exceeded};

use super::{Release, go_order};

/// What a record may weigh unpacked; helm itself cannot store more than a fraction of this.
const MAX_RECORD_BYTES: u64 = 256 * 1024 * 1024;
/// What a value in JSON takes beside its text, in bytes.
const VALUE: usize = 64;
/// How much is unpacked between two looks at the budget.
const PIECE: u64 = 1024 * 1024;
const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b, 0x08];
/// Labels that helm sets itself.
const SYSTEM_LABELS: [&str; 6] = [
    "name",
    "owner",
    "status",
    "version",
    "createdAt",
    "modifiedAt",
];

/// Why an object holds no release.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// There is no `data.release`.
    #[error("the object has no key \"release\" in its data: it is not a Helm release record")]
    NoData,
    /// The text is not base64.
    #[error("the release record is not base64: {0}")]
    Base64(#[from] base64::DecodeError),
    /// The bytes cannot be unpacked.
    #[error("the release record cannot be unpacked: {0}")]
    Gzip(#[from] std::io::Error),
    /// The bytes are not JSON.
    #[error("the release record is not JSON: {0}")]
    Json(#[from] everflow_json::Error),
    /// The JSON is not a release.
    #[error("the release record is not a JSON object")]
    NotARecord,
    /// The record is far larger than any release.
    #[error("the release record is larger than {MAX_RECORD_BYTES} bytes unpacked")]
    TooLarge,
    /// Reading it takes more than it may.
    #[error("the release record {0}")]
    Exceeded(#[from] Exceeded),
}

/// The name of the object that holds a revision.
pub fn object_name(release: &str, version: i64) -> String {
    format!("sh.helm.release.v1.{release}.v{version}")
}

/// The record's text: base64 of gzip of JSON.
pub fn encode(release: &Release) -> Result<String, RecordError> {
    let text = go_order::release_text(release);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(text.as_bytes())?;
    Ok(STANDARD.encode(gzip.finish()?))
}

/// A release from a record's text; records without gzip are taken, too.
pub fn decode(text: &str) -> Result<Release, RecordError> {
    decode_within(text, &Budget::unlimited())
}

fn decode_within(text: &str, budget: &Budget) -> Result<Release, RecordError> {
    let mut held = budget.hold(text.len())?;
    let mut bytes = STANDARD.decode(text.trim())?;
    if bytes.starts_with(GZIP_MAGIC) {
        let mut gzip = flate2::read::GzDecoder::new(bytes.as_slice()).take(MAX_RECORD_BYTES + 1);
        let mut unpacked = Vec::new();
        loop {
            let read = gzip.by_ref().take(PIECE).read_to_end(&mut unpacked)?;
            if read == 0 {
                break;
            }
            // The list may have grown to twice what it holds.
            held.grow(2 * read)?;
        }
        if unpacked.len() as u64 > MAX_RECORD_BYTES {
            return Err(RecordError::TooLarge);
        }
        bytes = unpacked;
    }
    // The texts of the tree; what is left of its values goes by the marks that begin them.
    held.grow(json_takes(&bytes))?;
    Release::from_json(everflow_json::from_slice(&bytes)?)
}

/// What reading JSON may take. Marks within texts count too.
fn json_takes(json: &[u8]) -> usize {
    let begins_value = |byte: &&u8| matches!(**byte, b',' | b'[' | b'{' | b':');
    json.len() + json.iter().filter(begins_value).count() * VALUE
}

/// The Secret that holds the release.
pub fn to_secret(release: &Release) -> Result<Value, RecordError> {
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(release),
        "type": "helm.sh/release.v1",
        // The API server wants base64 of what is base64 already.
        "data": {"release": STANDARD.encode(encode(release)?)},
    }))
}

/// The ConfigMap that holds the release.
pub fn to_config_map(release: &Release) -> Result<Value, RecordError> {
    Ok(json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(release),
        "data": {"release": encode(release)?},
    }))
}

/// A release from its Secret or ConfigMap, with the user's labels.
pub fn from_object(object: &Value) -> Result<Release, RecordError> {
    from_object_within(object, &Budget::unlimited())
}

/// The same for a record that others may have written: a Secret of a mebibyte can unpack to a thousand times that.
pub fn from_object_within(object: &Value, budget: &Budget) -> Result<Release, RecordError> {
    let text = object
        .pointer("/data/release")
        .and_then(Value::as_str)
        .ok_or(RecordError::NoData)?;
    let mut release = match object["kind"].as_str() {
        Some("ConfigMap") => decode_within(text, budget)?,
        _ => {
            let inner = STANDARD.decode(text)?;
            decode_within(&String::from_utf8_lossy(&inner), budget)?
        }
    };
    if let Some(Value::Object(labels)) = object.pointer("/metadata/labels") {
        release.labels = labels
            .iter()
            .filter(|(key, _)| !SYSTEM_LABELS.contains(&key.as_str()))
            .filter_map(|(key, value)| Some((key.to_string(), value.as_str()?.to_owned())))
            .collect();
    }
    Ok(release)
}

fn metadata(release: &Release) -> Value {
    let mut labels: Map = release
        .labels
        .iter()
        .map(|(key, value)| (key.clone(), json!(value)))
        .collect();
    labels.insert("name".into(), json!(release.name));
    labels.insert("owner".into(), json!("helm"));
    labels.insert("status".into(), json!(release.info.status));
    labels.insert("version".into(), json!(release.version.to_string()));
    json!({
        "name": object_name(&release.name, release.version),
        "namespace": release.namespace,
        "labels": labels,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::release::Info;

    fn release() -> Release {
        Release {
            name: "web".to_owned(),
            namespace: "prod".to_owned(),
            version: 3,
            info: Info {
                status: "deployed".to_owned(),
                last_deployed: "2026-01-02T03:04:05.678901234Z".to_owned(),
                ..Info::default()
            },
            chart: json!({"metadata": {"name": "web", "version": "1.0.0"}}),
            manifest: "a: <b>\n".to_owned(),
            labels: [("team".to_owned(), "x".to_owned())].into(),
            ..Release::default()
        }
    }

    #[test]
    fn records_survive_both_kinds_of_objects() {
        for object in [
            to_secret(&release()).unwrap(),
            to_config_map(&release()).unwrap(),
        ] {
            assert_eq!(object["metadata"]["name"], "sh.helm.release.v1.web.v3");
            assert_eq!(object["metadata"]["labels"]["status"], "deployed");
            assert_eq!(from_object(&object).unwrap(), release());
        }
    }

    #[test]
    fn unknown_fields_survive() {
        let mut json = release().to_json();
        json["future"] = json!({"a": 1});
        json["info"]["resources"] = json!({});
        assert_eq!(Release::from_json(json.clone()).unwrap().to_json(), json);
    }

    #[test]
    fn garbage_is_refused_with_a_reason() {
        assert!(matches!(
            from_object(&json!({"kind": "Secret"})),
            Err(RecordError::NoData)
        ));
        assert!(matches!(decode("***"), Err(RecordError::Base64(_))));
        assert!(matches!(
            decode(&STANDARD.encode("[]")),
            Err(RecordError::NotARecord)
        ));
    }
}
