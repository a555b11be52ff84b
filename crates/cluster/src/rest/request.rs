//! Requests and answers, and what a path means.

use std::sync::Arc;

use bytes::Bytes;

use super::sent::Sent;
use super::watch::Watch;
use crate::auth::User;
use crate::status::{ApiError, ApiResult};
use crate::store::Stored;

/// A request, free of any transport.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The HTTP method.
    pub method: String,
    /// The decoded path.
    pub path: String,
    /// The decoded query parameters in order.
    pub query: Vec<(String, String)>,
    /// Headers with lower-case names, in order.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Sent,
    /// Who asks, when the transport already knows (client certificate or in-process client).
    pub user: Option<User>,
    /// Whether the client showed a certificate that this server does not accept.
    pub certificate_refused: bool,
    /// Whether who asks is in the same process and takes objects as they are.
    pub in_process: bool,
}

impl Request {
    /// A request from a method, a path with query, and a body.
    pub fn new(method: &str, target: &str, body: impl Into<Bytes>) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Request {
            method: method.to_owned(),
            path: percent_decode(path, false),
            query: parse_query(query),
            headers: Vec::new(),
            body: Sent::from(body),
            user: None,
            certificate_refused: false,
            in_process: false,
        }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers
            .push((name.to_ascii_lowercase(), value.to_owned()));
        self
    }

    /// The first value of a header.
    pub fn first_header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// All values of a header.
    pub fn all_headers(&self, name: &str) -> Vec<&str> {
        self.headers
            .iter()
            .filter(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
            .collect()
    }

    /// The first value of a query parameter.
    pub fn param(&self, name: &str) -> Option<&str> {
        self.query
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// All values of a query parameter.
    pub fn params(&self, name: &str) -> Vec<&str> {
        self.query
            .iter()
            .filter(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
            .collect()
    }

    /// The media type of the body without parameters, lower case.
    pub fn content_type(&self) -> String {
        let raw = self.first_header("content-type").unwrap_or_default();
        raw.split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .to_ascii_lowercase()
    }
}

/// The body of an answer.
#[derive(Debug)]
pub enum Body {
    /// All of it.
    Full(Bytes),
    /// A stream of watch events.
    Watch(Box<Watch>),
}

/// An answer, free of any transport.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status code.
    pub status: u16,
    /// Headers in order.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Body,
    /// The object that the answer is, for those in the same process; the body is empty then.
    pub object: Option<Arc<Stored>>,
}

impl Answer {
    /// An answer with a body of some media type.
    pub fn new(status: u16, media_type: &str, body: impl Into<Bytes>) -> Self {
        Answer {
            status,
            headers: vec![("content-type".into(), media_type.into())],
            body: Body::Full(body.into()),
            object: None,
        }
    }

    /// An answer with an object that is read as it is stored; its text is made only where it is wanted.
    pub fn stored(
        request: &Request,
        status: u16,
        stored: &Arc<Stored>,
        text: impl FnOnce() -> Bytes,
    ) -> Self {
        if !request.in_process {
            return Self::new(status, "application/json", text());
        }
        let mut answer = Self::new(status, "application/json", Bytes::new());
        answer.object = Some(stored.clone());
        answer
    }

    /// A plain text answer.
    pub fn text(status: u16, text: &str) -> Self {
        let mut answer = Self::new(status, "text/plain; charset=utf-8", text.to_owned());
        answer
            .headers
            .push(("x-content-type-options".into(), "nosniff".into()));
        answer
    }

    /// A JSON answer.
    pub fn json(status: u16, value: &everflow_json::Value) -> Self {
        Self::new(status, "application/json", json_line(value))
    }

    /// A failure as JSON.
    pub fn failure(error: &ApiError) -> Self {
        let mut answer = Self::json(error.code, &error.to_value());
        answer.headers.extend(
            error
                .headers
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone())),
        );
        answer
    }

    /// The first value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }
}

/// A value as JSON on a line of its own, as the real server writes it.
pub fn json_line(value: &everflow_json::Value) -> Bytes {
    let mut text = Vec::with_capacity(512);
    everflow_json::text::write(value, &mut text);
    text.push(b'\n');
    text.into()
}

/// What a path below `/api` or `/apis` names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The verb as authorization sees it.
    pub verb: String,
    /// The API group.
    pub group: String,
    /// The API version.
    pub version: String,
    /// The namespace, empty when there is none.
    pub namespace: String,
    /// The plural name.
    pub resource: String,
    /// The object's name, empty for collections.
    pub name: String,
    /// The subresource.
    pub subresource: String,
    /// Whether the old `/watch/` prefix was used.
    pub watch_prefix: bool,
    /// Path parts after the subresource.
    pub extra: Vec<String>,
    /// Whether the path names a namespace itself (or one of its subresources).
    pub names_namespace: bool,
}

/// Splits a path into what it names; `None` for paths that are not of resources.
pub fn target(request: &Request) -> ApiResult<Option<Target>> {
    let mut parts: Vec<&str> = request.path.trim_matches('/').split('/').collect();
    if parts.len() < 3 {
        return Ok(None);
    }
    let mut target = Target::default();
    match parts.remove(0) {
        "api" => {}
        "apis" => {
            if parts.len() < 3 {
                return Ok(None);
            }
            target.group = parts.remove(0).to_owned();
        }
        _ => return Ok(None),
    }
    target.version = parts.remove(0).to_owned();
    if parts[0] == "watch" {
        if parts.len() < 2 {
            return Err(ApiError::no_such_resource());
        }
        parts.remove(0);
        target.watch_prefix = true;
        target.verb = "watch".into();
    } else {
        target.verb = match request.method.as_str() {
            "POST" => "create",
            "GET" | "HEAD" => "get",
            "PUT" => "update",
            "PATCH" => "patch",
            "DELETE" => "delete",
            _ => "",
        }
        .to_owned();
    }
    if parts[0] == "namespaces" && parts.len() > 1 && target.group.is_empty()
        || parts[0] == "namespaces" && parts.len() > 2
    {
        target.namespace = parts[1].to_owned();
        if parts.len() > 2 && !matches!(parts[2], "status" | "finalize") {
            parts.drain(..2);
        } else {
            target.names_namespace = true;
        }
    }
    target.resource = parts[0].to_owned();
    target.name = parts
        .get(1)
        .map_or(String::new(), |name| (*name).to_owned());
    target.subresource = parts.get(2).map_or(String::new(), |sub| (*sub).to_owned());
    target.extra = parts
        .iter()
        .skip(3)
        .map(|part| (*part).to_owned())
        .collect();
    if target.name.is_empty() {
        match target.verb.as_str() {
            "get" => {
                target.verb = if wants_watch(request) {
                    "watch".into()
                } else {
                    "list".into()
                }
            }
            "delete" => target.verb = "deletecollection".into(),
            _ => {}
        }
    }
    Ok(Some(target))
}

/// Whether the query asks for a watch; anything but false, 0 and empty does.
pub fn wants_watch(request: &Request) -> bool {
    match request.param("watch") {
        None => false,
        Some(text) => !matches!(text.to_ascii_lowercase().as_str(), "false" | "0"),
    }
}

/// Reads a query string; broken escapes are kept as they are.
pub fn parse_query(query: &str) -> Vec<(String, String)> {
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (percent_decode(key, true), percent_decode(value, true))
        })
        .collect()
}

/// Undoes percent escapes.
pub fn percent_decode(text: &str, plus: bool) -> String {
    let escaped = text.contains('%') || (plus && text.contains('+'));
    if !escaped {
        return text.to_owned();
    }
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = |index: usize| {
            bytes
                .get(index)
                .and_then(|byte| char::from(*byte).to_digit(16))
        };
        match (bytes[at], hex(at + 1), hex(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                decoded.push((high * 16 + low) as u8);
                at += 3;
            }
            (b'+', _, _) if plus => {
                decoded.push(b' ');
                at += 1;
            }
            (byte, _, _) => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}
