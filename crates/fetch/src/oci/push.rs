//! Brings artifacts to registries.
//!
//! Content is sent in one piece and is in memory: what people push are directories of manifests. What the
//! registry already has is not sent again.

use std::collections::BTreeMap;
use std::io::Read as _;

use ::http::{HeaderName, Method, StatusCode, header};
use bytes::Bytes;
use everflow_json::{Value, json};
use flate2::read::GzDecoder;

use super::answer::refusal;
use super::name::Target;
use super::session::Session;
use super::{OciClient, manifest};
use crate::archive::{Algorithm, Digest, digest_of, digest_reader};
use crate::http::Request;
use crate::{Deadline, Error, Url};

/// The media type of a configuration of Flux.
const CONFIG: &str = "application/vnd.cncf.flux.config.v1+json";
/// The media type of content of Flux.
const CONTENT: &str = "application/vnd.cncf.flux.content.v1.tar+gzip";
/// The largest layer that is pushed.
pub const LARGEST_PUSH: u64 = 1 << 30;

/// An artifact to be pushed.
#[derive(Debug, Clone)]
pub struct NewArtifact {
    layer: Bytes,
    /// The digest of the layer before it was compressed.
    unpacked: Digest,
    created: String,
    annotations: BTreeMap<String, String>,
}

impl NewArtifact {
    /// An artifact of one layer, a gzipped tar archive; `created` is as RFC 3339 has moments, and the
    /// annotations are what is said of it.
    ///
    /// # Errors
    /// The layer is no such archive, or too large.
    pub fn new(
        layer: Bytes,
        created: String,
        annotations: BTreeMap<String, String>,
    ) -> Result<Self, Error> {
        let too_large = || Error::TooLarge {
            what: "the artifact".to_owned(),
            limit: LARGEST_PUSH,
        };
        if layer.len() as u64 > LARGEST_PUSH {
            return Err(too_large());
        }
        // One byte more than may be there tells that there is too much.
        let mut reader = GzDecoder::new(&layer[..]).take(LARGEST_PUSH + 1);
        let unpacked = digest_reader(Algorithm::Sha256, &mut reader).map_err(Error::archive_io)?;
        if reader.limit() == 0 {
            return Err(too_large());
        }
        Ok(NewArtifact {
            layer,
            unpacked,
            created,
            annotations,
        })
    }

    fn config(&self) -> Bytes {
        let config = json!({
            "architecture": "",
            "config": {},
            "created": self.created,
            "history": [{"created": self.created}],
            "os": "",
            "rootfs": {"type": "layers", "diff_ids": [self.unpacked.as_str()]},
        });
        Bytes::from(config.to_string())
    }

    fn manifest(&self, config: &Bytes) -> Bytes {
        let descriptor = |kind: &str, content: &Bytes| {
            let digest = digest_of(Algorithm::Sha256, content);
            json!({"mediaType": kind, "size": content.len(), "digest": digest.as_str()})
        };
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": manifest::OCI_MANIFEST,
            "config": descriptor(CONFIG, config),
            "layers": [descriptor(CONTENT, &self.layer)],
            "annotations": self.annotations,
        });
        Bytes::from(manifest.to_string())
    }
}

impl OciClient {
    /// Pushes an artifact under a tag; the digest of its manifest.
    ///
    /// # Errors
    /// In the registry's words.
    pub async fn push(
        &self,
        tag: &str,
        artifact: &NewArtifact,
        deadline: &Deadline,
    ) -> Result<Digest, Error> {
        let session = self.session(deadline).await?;
        let config = artifact.config();
        for blob in [&artifact.layer, &config] {
            upload(session, blob, deadline).await?;
        }
        let document = artifact.manifest(&config);
        put_manifest(session, tag, manifest::OCI_MANIFEST, document, deadline).await
    }

    /// Gives the manifest that a name stands for another tag; its digest.
    ///
    /// # Errors
    /// In the registry's words.
    pub async fn tag(
        &self,
        target: &Target,
        tag: &str,
        deadline: &Deadline,
    ) -> Result<Digest, Error> {
        let (bytes, kind, _) = self.document(target, deadline).await?;
        let session = self.session(deadline).await?;
        let kind = match kind.is_empty() {
            true => declared_type(&bytes).unwrap_or_else(|| manifest::OCI_MANIFEST.to_owned()),
            false => kind,
        };
        put_manifest(session, tag, &kind, Bytes::from(bytes), deadline).await
    }
}

fn declared_type(manifest: &[u8]) -> Option<String> {
    let whole: Value = everflow_json::from_slice(manifest).ok()?;
    whole["mediaType"].as_str().map(str::to_owned)
}

/// Sends a blob, unless the registry has it.
async fn upload(session: &Session, content: &Bytes, deadline: &Deadline) -> Result<(), Error> {
    let digest = digest_of(Algorithm::Sha256, content);
    let known = session.url("blobs", digest.as_str())?;
    match session.ask(Method::HEAD, &known, "", deadline).await {
        Ok(_) => return Ok(()),
        Err(error @ (Error::Deadline(_) | Error::Lost)) => return Err(error),
        // Whatever keeps it from being found, the upload will say more.
        Err(_) => {}
    }
    let start = session.url("blobs", "uploads/")?;
    let begun = session
        .submit(&Method::POST, &start, "", &Bytes::new(), deadline)
        .await?;
    if begun.status != StatusCode::ACCEPTED {
        return Err(refusal(&Method::POST, begun).await);
    }
    let location = begun.header(header::LOCATION).map(str::to_owned);
    let location = location.ok_or_else(|| {
        Error::Protocol(format!(
            "POST {start}: the registry names no place for the content"
        ))
    })?;
    let from = begun.url.clone();
    begun.body.read_some(4096).await;
    let mut place = session.follow(&from, &location)?;
    let digest = super::session::encoded(digest.as_str());
    place.query = Some(match place.query.take() {
        Some(query) if !query.is_empty() => format!("{query}&digest={digest}"),
        _ => format!("digest={digest}"),
    });
    let kind = "application/octet-stream";
    let sent = session
        .submit(&Method::PUT, &place, kind, content, deadline)
        .await?;
    created(Method::PUT, sent).await
}

async fn put_manifest(
    session: &Session,
    tag: &str,
    kind: &str,
    document: Bytes,
    deadline: &Deadline,
) -> Result<Digest, Error> {
    let digest = digest_of(Algorithm::Sha256, &document);
    let url = session.url("manifests", tag)?;
    let sent = session
        .submit(&Method::PUT, &url, kind, &document, deadline)
        .await?;
    created(Method::PUT, sent).await?;
    Ok(digest)
}

async fn created(method: Method, response: crate::http::Response) -> Result<(), Error> {
    match response.status {
        StatusCode::CREATED | StatusCode::OK | StatusCode::ACCEPTED | StatusCode::NO_CONTENT => {
            response.body.read_some(4096).await;
            Ok(())
        }
        _ => Err(refusal(&method, response).await),
    }
}

/// A request with a body, to the registry or where it said.
pub(super) fn request(method: &Method, url: &Url, kind: &str, body: &Bytes) -> Request {
    let mut request = Request::get(url).with_method(method.clone());
    request.body = body.clone();
    if !kind.is_empty() {
        let name = HeaderName::from_static("content-type");
        request = request.with_header(name, kind);
    }
    request
}
