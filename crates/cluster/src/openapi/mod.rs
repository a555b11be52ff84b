//! OpenAPI documents and the fingerprints of discovery.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use base64::Engine as _;
use bytes::Bytes;
use everflow_json::{Value, json};
use everflow_schema::openapi::{custom_resources_v3, documents};
use sha2::{Digest as _, Sha256, Sha512};

use crate::rest::request::{Answer, Body, Request};
use crate::server_core::ApiServer;
use crate::status::ApiResult;

type Document = (Bytes, String);

/// The text and fingerprint of a built-in document, made once.
fn built_in(path: &str) -> Option<Document> {
    static MADE: OnceLock<Mutex<BTreeMap<String, Document>>> = OnceLock::new();
    let made = MADE.get_or_init(Mutex::default);
    let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = made.get(path) {
        return Some(known.clone());
    }
    let value = if path == "v2" {
        documents().v2()?
    } else {
        documents().v3(path)?
    };
    let text = Bytes::from(everflow_json::to_vec(&value).unwrap_or_default());
    let entry = (text.clone(), digest(&text));
    made.insert(path.to_owned(), entry.clone());
    Some(entry)
}

/// The group versions of custom resources as paths.
fn custom_paths(server: &ApiServer) -> Vec<(String, String, String)> {
    let mut found: Vec<(String, String, String)> = Vec::new();
    for resource in server
        .registry()
        .all()
        .filter(|resource| resource.is_custom())
    {
        let path = format!("apis/{}/{}", resource.group, resource.version);
        if !found.iter().any(|(known, _, _)| *known == path) {
            found.push((path, resource.group.clone(), resource.version.clone()));
        }
    }
    found
}

fn custom(server: &ApiServer, group: &str, version: &str) -> Document {
    let definitions = server.store().list(crate::crd::TABLE, "", None, 0).items;
    let value = custom_resources_v3(
        definitions.iter().map(|stored| &*stored.value),
        group,
        version,
    );
    let text = Bytes::from(everflow_json::to_vec(&value).unwrap_or_default());
    let hash = digest(&text);
    (text, hash)
}

fn wants_json(request: &Request) -> bool {
    let accept = request.all_headers("accept").join(",");
    accept.is_empty() || accept.contains("application/json") || accept.contains("*/*")
}

fn with_tag(request: &Request, media: &str, (text, hash): Document) -> Answer {
    let tag = format!("\"{hash}\"");
    let matched = request
        .all_headers("if-none-match")
        .iter()
        .any(|given| given.contains(&hash));
    let mut answer = if matched {
        Answer::new(304, media, Bytes::new())
    } else {
        Answer::new(200, media, text)
    };
    answer.headers.push(("etag".into(), tag.into()));
    answer.headers.push(("vary".into(), "Accept".into()));
    answer
}

/// Answers `/openapi/...`.
pub fn answer(server: &ApiServer, request: &Request, parts: &[&str]) -> ApiResult<Answer> {
    let nothing = || Answer {
        status: 404,
        headers: Vec::new(),
        body: Body::Full(Bytes::new()),
        object: None,
    };
    match parts {
        ["v2"] => match built_in("v2") {
            Some(document) if wants_json(request) => {
                Ok(with_tag(request, "application/json", document))
            }
            Some(_) => Ok(Answer::new(406, "text/plain; charset=utf-8", Bytes::new())),
            None => Ok(nothing()),
        },
        ["v3"] => {
            let mut paths = everflow_json::Map::new();
            for path in documents().v3_paths() {
                if let Some((_, hash)) = built_in(path) {
                    paths.insert(
                        path.into(),
                        json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={hash}")}),
                    );
                }
            }
            for (path, group, version) in custom_paths(server) {
                let (_, hash) = custom(server, &group, &version);
                paths.insert(
                    path.clone().into(),
                    json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={hash}")}),
                );
            }
            let text = Bytes::from(
                everflow_json::to_vec(&json!({"paths": Value::Object(paths)})).unwrap_or_default(),
            );
            let hash = digest(&text);
            Ok(with_tag(request, "text/plain; charset=utf-8", (text, hash)))
        }
        ["v3", rest @ ..] => {
            let path = rest.join("/");
            let known = built_in(&path).or_else(|| {
                custom_paths(server)
                    .into_iter()
                    .find(|(known, _, _)| *known == path)
                    .map(|(_, group, version)| custom(server, &group, &version))
            });
            match known {
                Some(document) if wants_json(request) => {
                    Ok(with_tag(request, "application/json", document))
                }
                Some(_) => Ok(Answer::new(406, "text/plain; charset=utf-8", Bytes::new())),
                None => Ok(nothing()),
            }
        }
        _ => Ok(Answer::text(404, "404 page not found\n")),
    }
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
