//! Requests and answers, and what a path means.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use smol_str::SmolStr;

use super::request_body::RequestBody;
use super::watch::Watch;
use crate::auth::User;
use crate::status::{ApiError, ApiResult};
use crate::store::Stored;

/// A request, free of any transport. Its texts are mostly short, and watches keep copies of them.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The HTTP method.
    pub method: SmolStr,
    /// The decoded path.
    pub path: SmolStr,
    /// The decoded query parameters in order.
    pub query: Vec<(SmolStr, SmolStr)>,
    /// Headers with lower-case names, in order.
    pub headers: Vec<(SmolStr, SmolStr)>,
    /// The body.
    pub body: RequestBody,
    /// Who asks, when the transport already knows (client certificate or in-process client).
    pub user: Option<Arc<User>>,
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
            method: method.into(),
            path: percent_decode(path, false).into(),
            query: parse_query(query),
            headers: Vec::new(),
            body: RequestBody::from(body),
            user: None,
            certificate_refused: false,
            in_process: false,
        }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers
            .push((name.to_ascii_lowercase().into(), value.into()));
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
    pub headers: Vec<(SmolStr, SmolStr)>,
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
                .map(|(name, value)| (SmolStr::new_static(name), value.into())),
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
    let mut text = everflow_json::text::to_vec(value);
    text.push(b'\n');
    text.into()
}

/// What a path below `/api` or `/apis` names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The verb as authorization sees it.
    pub verb: &'static str,
    /// The API group.
    pub group: SmolStr,
    /// The API version.
    pub version: SmolStr,
    /// The namespace, empty when there is none.
    pub namespace: SmolStr,
    /// The plural name.
    pub resource: SmolStr,
    /// The object's name, empty for collections.
    pub name: SmolStr,
    /// The subresource.
    pub subresource: SmolStr,
    /// Whether the old `/watch/` prefix was used.
    pub watch_prefix: bool,
    /// Path parts after the subresource.
    pub extra: Vec<SmolStr>,
    /// Whether the path names a namespace itself (or one of its subresources).
    pub names_namespace: bool,
}

/// Splits a path into what it names; `None` for paths that are not of resources.
pub fn target(request: &Request) -> ApiResult<Option<Target>> {
    let mut parts = words(request.path.trim_matches('/'), b'/');
    let mut target = Target::default();
    let head = match parts.next() {
        Some("api") => parts.next().zip(parts.next()),
        Some("apis") => {
            target.group = parts.next().unwrap_or_default().into();
            parts.next().zip(parts.next())
        }
        _ => None,
    };
    let Some((version, mut first)) = head else {
        return Ok(None);
    };
    target.version = version.into();
    target.verb = match request.method.as_str() {
        "POST" => "create",
        "GET" | "HEAD" => "get",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "",
    };
    if first == "watch" {
        first = parts.next().ok_or_else(ApiError::no_such_resource)?;
        target.watch_prefix = true;
        target.verb = "watch";
    }
    let (mut second, mut third) = (parts.next(), parts.next());
    if first == "namespaces"
        && let Some(namespace) = second
        && (target.group.is_empty() || third.is_some())
    {
        target.namespace = namespace.into();
        match third {
            Some(resource) if !matches!(resource, "status" | "finalize") => {
                first = resource;
                (second, third) = (parts.next(), parts.next());
            }
            _ => target.names_namespace = true,
        }
    }
    target.resource = first.into();
    target.name = second.unwrap_or_default().into();
    target.subresource = third.unwrap_or_default().into();
    target.extra = parts.map(SmolStr::from).collect();
    if target.name.is_empty() {
        match target.verb {
            "get" if wants_watch(request) => target.verb = "watch",
            "get" => target.verb = "list",
            "delete" => target.verb = "deletecollection",
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
pub fn parse_query(query: &str) -> Vec<(SmolStr, SmolStr)> {
    words(query, b'&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (key, value) = cut(pair, b'=').unwrap_or((pair, ""));
            let (key, value) = (percent_decode(key, true), percent_decode(value, true));
            (key.into(), value.into())
        })
        .collect()
}

/// The parts of a text between marks, as [`str::split`] has them. Paths and queries are short: looking at one byte after
/// the other finds the marks sooner than a search that is made for long texts.
pub fn words(text: &str, mark: u8) -> impl Iterator<Item = &str> + Clone {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let (word, after) = match cut(text, mark) {
            Some((word, after)) => (word, Some(after)),
            None => (text, None),
        };
        rest = after;
        Some(word)
    })
}

/// What stands before and behind the first mark, an ASCII character.
fn cut(text: &str, mark: u8) -> Option<(&str, &str)> {
    let at = text.bytes().position(|byte| byte == mark)?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}

/// Undoes percent escapes.
pub fn percent_decode(text: &str, plus: bool) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    // Many bytes are looked at together where none of them ends the search.
    let escapes = bytes.iter().fold(false, |found, byte| {
        found | (*byte == b'%') | (*byte == b'+')
    });
    if !escapes {
        return Cow::Borrowed(text);
    }
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
    Cow::Owned(String::from_utf8_lossy(&decoded).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_that_split_finds() {
        for text in ["", "/", "a", "a/b", "/a//b/", "ä/ö", "a/b/c/d/e/f"] {
            let split: Vec<&str> = text.split('/').collect();
            assert_eq!(words(text, b'/').collect::<Vec<_>>(), split, "{text}");
        }
    }

    #[test]
    fn paths_name_collections_objects_and_their_parts() {
        let named = |method: &str, path: &str| {
            let target = target(&Request::new(method, path, "")).unwrap()?;
            let Target {
                verb,
                group,
                namespace,
                resource,
                name,
                subresource,
                extra,
                ..
            } = target;
            let mut text = format!("{verb} {group}|{namespace}|{resource}|{name}|{subresource}");
            extra
                .iter()
                .for_each(|part| text.push_str(&format!("|{part}")));
            Some(text)
        };
        for (method, path, expected) in [
            ("GET", "/api/v1/pods", "list ||pods||"),
            ("GET", "/api/v1/pods?watch=1", "watch ||pods||"),
            ("GET", "/api/v1/watch/pods", "watch ||pods||"),
            ("GET", "/api/v1/namespaces/a", "get |a|namespaces|a|"),
            (
                "PUT",
                "/api/v1/namespaces/a/status",
                "update |a|namespaces|a|status",
            ),
            ("POST", "/api/v1/namespaces/a/pods/", "create |a|pods||"),
            (
                "PATCH",
                "/apis/apps/v1/namespaces/a/deployments/b/scale",
                "patch apps|a|deployments|b|scale",
            ),
            (
                "DELETE",
                "/apis/apps/v1/namespaces/a/deployments",
                "deletecollection apps|a|deployments||",
            ),
            (
                "GET",
                "/apis/apps/v1/namespaces/a",
                "get apps||namespaces|a|",
            ),
            (
                "GET",
                "/api/v1/namespaces/a/pods/b/proxy/c/d",
                "get |a|pods|b|proxy|c|d",
            ),
        ] {
            assert_eq!(named(method, path).as_deref(), Some(expected), "{path}");
        }
        for path in [
            "/",
            "/api/v1",
            "/apis/apps/v1",
            "/version",
            "/openapi/v3/apis/apps",
        ] {
            assert_eq!(named("GET", path), None, "{path}");
        }
        assert!(target(&Request::new("GET", "/api/v1/watch", "")).is_err());
    }
}
