//! OpenAPI documents and the fingerprints of discovery.

use base64::Engine as _;
use sha2::{Digest as _, Sha256, Sha512};

use crate::rest::request::{Answer, Request};
use crate::server_core::ApiServer;
use crate::status::ApiResult;

/// Answers `/openapi/...`.
pub fn answer(_server: &ApiServer, _request: &Request, _parts: &[&str]) -> ApiResult<Answer> {
    Ok(Answer::text(404, "404 page not found\n"))
}

/// A fingerprint of a document in upper-case hex.
pub fn digest(bytes: &[u8]) -> String {
    Sha512::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02X}"))
        .collect()
}

/// The fingerprint of a group, version and kind.
pub fn storage_hash(group: &str, version: &str, kind: &str) -> String {
    let text = format!("{group}/{version}/{kind}");
    let hash = Sha256::digest(text.as_bytes());
    base64::engine::general_purpose::STANDARD.encode(&hash[..8])
}
