//! Manifests: what an artifact consists of.

use std::collections::BTreeMap;

use everflow_json::Value;

use super::name::parse_digest;
use crate::Error;
use crate::archive::Digest;

pub(crate) const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
const DOCKER_OLD: &str = "application/vnd.docker.distribution.manifest.v1+json";
const DOCKER_OLD_SIGNED: &str = "application/vnd.docker.distribution.manifest.v1+prettyjws";

/// All kinds of manifests, for the header `Accept`.
pub(crate) fn acceptable() -> String {
    [
        DOCKER_OLD,
        DOCKER_OLD_SIGNED,
        DOCKER_MANIFEST,
        OCI_MANIFEST,
        OCI_INDEX,
        DOCKER_LIST,
    ]
    .join(",")
}

/// A piece of content by its digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Descriptor {
    /// What it is.
    pub media_type: String,
    /// Its digest.
    pub digest: Digest,
    /// Its size in bytes.
    pub size: u64,
    /// What else is said of it.
    pub annotations: BTreeMap<String, String>,
    /// What kind of artifact it is, when it is one.
    pub artifact_type: String,
    platform: Option<(String, String)>,
}

/// What an artifact consists of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The digest of the manifest itself.
    pub digest: Digest,
    /// Its configuration, when it has one.
    pub config: Option<Descriptor>,
    /// Its content.
    pub layers: Vec<Descriptor>,
    /// What is said of it.
    pub annotations: BTreeMap<String, String>,
}

/// A manifest, or a list of manifests.
#[derive(Debug, Clone)]
pub(crate) enum Document {
    Manifest(Box<Manifest>),
    Index(Vec<Descriptor>),
}

impl Document {
    /// Reads a document; `content_type` is what the registry calls it.
    pub fn parse(bytes: &[u8], content_type: &str, digest: Digest) -> Result<Self, Error> {
        let kind = content_type.split(';').next().unwrap_or_default().trim();
        if matches!(kind, DOCKER_OLD | DOCKER_OLD_SIGNED) {
            return Err(Error::Protocol(format!(
                "unsupported MediaType: {kind:?}, see https://github.com/google/go-containerregistry/issues/377"
            )));
        }
        let whole: Value = everflow_json::from_slice(bytes)
            .map_err(|error| Error::Protocol(format!("the manifest is not valid JSON: {error}")))?;
        if !whole.is_object() {
            return Err(Error::Protocol("the manifest is not an object".to_owned()));
        }
        if matches!(kind, OCI_INDEX | DOCKER_LIST) {
            return Ok(Document::Index(descriptors(&whole, "manifests")?));
        }
        let config = match whole.get("config") {
            None | Some(Value::Null) => None,
            Some(config) => Some(descriptor(config, "config")?),
        };
        Ok(Document::Manifest(Box::new(Manifest {
            digest,
            config,
            layers: descriptors(&whole, "layers")?,
            annotations: annotations(&whole, "annotations")?,
        })))
    }
}

/// Of a list, the first that is for Linux on amd64, or for nothing in particular.
pub(crate) fn pick(index: &[Descriptor]) -> Option<&Descriptor> {
    index.iter().find(|one| match &one.platform {
        None => true,
        Some((os, architecture)) => os == "linux" && architecture == "amd64",
    })
}

fn wrong(what: &str, cause: impl std::fmt::Display) -> Error {
    Error::Protocol(format!("the manifest's {what}: {cause}"))
}

fn descriptors(whole: &Value, field: &str) -> Result<Vec<Descriptor>, Error> {
    match whole.get(field) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(items)) => items
            .iter()
            .enumerate()
            .map(|(at, item)| descriptor(item, &format!("{field}[{at}]")))
            .collect(),
        Some(_) => Err(wrong(field, "must be a list")),
    }
}

fn descriptor(value: &Value, what: &str) -> Result<Descriptor, Error> {
    let text = |name: &str| match value.get(name) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.to_string()),
        Some(_) => Err(wrong(&format!("{what}.{name}"), "must be a string")),
    };
    let digest = text("digest")?;
    let size = match value.get("size") {
        Some(size) => size.as_u64(),
        None => Some(0),
    };
    let platform = match value.get("platform") {
        None | Some(Value::Null) => None,
        Some(platform) => {
            let part = |name: &str| platform.get(name).and_then(Value::as_str);
            Some((
                part("os").unwrap_or_default().to_owned(),
                part("architecture").unwrap_or_default().to_owned(),
            ))
        }
    };
    Ok(Descriptor {
        media_type: text("mediaType")?,
        digest: parse_digest(&digest).map_err(|error| wrong(&format!("{what}.digest"), error))?,
        size: size.ok_or_else(|| wrong(&format!("{what}.size"), "must be a size in bytes"))?,
        annotations: annotations(value, what)?,
        artifact_type: text("artifactType")?,
        platform,
    })
}

fn annotations(value: &Value, what: &str) -> Result<BTreeMap<String, String>, Error> {
    match value.get("annotations") {
        None | Some(Value::Null) => Ok(BTreeMap::new()),
        Some(Value::Object(fields)) => fields
            .iter()
            .map(|(name, value)| match value {
                Value::String(text) => Ok((name.to_string(), text.to_string())),
                _ => Err(wrong(&format!("annotation {name:?}"), "must be a string")),
            })
            .collect(),
        Some(_) => Err(wrong(what, "annotations must be an object")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::{Algorithm, digest_of};

    const HEX: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn parse(text: &str, kind: &str) -> Result<Document, String> {
        let digest = digest_of(Algorithm::Sha256, text.as_bytes());
        Document::parse(text.as_bytes(), kind, digest).map_err(|error| error.to_string())
    }

    #[test]
    fn manifests_are_read() {
        let text = format!(
            r#"{{"schemaVersion":2,"config":{{"mediaType":"c","size":2,"digest":"{HEX}"}},
            "layers":[{{"mediaType":"l","size":5,"digest":"{HEX}"}}],"annotations":{{"a":"b"}}}}"#
        );
        let Document::Manifest(manifest) = parse(&text, OCI_MANIFEST).unwrap() else {
            panic!("an index");
        };
        assert_eq!(manifest.layers[0].size, 5);
        assert_eq!(manifest.config.unwrap().media_type, "c");
        assert_eq!(manifest.annotations["a"], "b");
    }

    #[test]
    fn of_a_list_linux_on_amd64_is_taken() {
        let text = format!(
            r#"{{"manifests":[
            {{"mediaType":"x","size":1,"digest":"{HEX}","platform":{{"os":"linux","architecture":"arm64"}}}},
            {{"mediaType":"y","size":2,"digest":"{HEX}","platform":{{"os":"linux","architecture":"amd64"}}}},
            {{"mediaType":"z","size":3,"digest":"{HEX}"}}]}}"#
        );
        let Document::Index(index) = parse(&text, OCI_INDEX).unwrap() else {
            panic!("a manifest");
        };
        assert_eq!(pick(&index).unwrap().size, 2);
        assert_eq!(pick(&index[..1]), None);
        assert_eq!(pick(&index[2..]).unwrap().size, 3);
    }

    #[test]
    fn garbage_is_named() {
        for (text, words) in [
            ("<html>", "the manifest is not valid JSON"),
            ("[]", "the manifest is not an object"),
            (r#"{"layers":{}}"#, "the manifest's layers: must be a list"),
            (
                r#"{"layers":[{"digest":"sha256:zz"}]}"#,
                "the manifest's layers[0].digest: found non-hex character in hash: z",
            ),
            (
                r#"{"annotations":{"a":1}}"#,
                "the manifest's annotation \"a\": must be a string",
            ),
        ] {
            let error = parse(text, OCI_MANIFEST).unwrap_err();
            assert!(error.starts_with(words), "{error}");
        }
        let size = format!(r#"{{"layers":[{{"digest":"{HEX}","size":-1}}]}}"#);
        let error = parse(&size, OCI_MANIFEST).unwrap_err();
        assert_eq!(
            error,
            "the manifest's layers[0].size: must be a size in bytes"
        );
        assert!(
            parse("{}", DOCKER_OLD)
                .unwrap_err()
                .contains("unsupported MediaType")
        );
    }
}
