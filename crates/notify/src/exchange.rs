//! Talking to a provider as data: what to do next, what came back, how it ended.

use std::fmt;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use crate::Secret;
use crate::address::Address;
use crate::failure::{Failure, Retry, Stage};
use crate::provider::nats::Publish;
use crate::provider::pubsub::ServiceAccount;
use crate::secret::CUT;

/// How much of a foreign answer is shown in messages.
const SHOWN: usize = 1_024;
/// Shorter parts of a header with several are names and numbers.
const SHORTEST_PART: usize = 16;

/// Whom to trust, and who we are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// The only certificates (PEM) to trust; the system's when there are none.
    pub ca: Option<Vec<u8>>,
    /// Our own certificate chain and key (PEM).
    pub client: Option<(Vec<u8>, Secret<Vec<u8>>)>,
}

/// How a provider is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// Through this proxy; as the environment says when there is none.
    pub proxy: Option<Address>,
    /// With these certificates.
    pub tls: Option<Tls>,
    /// How long all of it may take.
    pub timeout: Duration,
}

/// A request over HTTP. Headers with secrets are marked as sensitive.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// Where to.
    pub address: Address,
    /// The headers, but for those that every client sets.
    pub headers: HeaderMap,
    /// The body.
    pub body: Vec<u8>,
}

impl Request {
    pub(crate) fn new(method: Method, address: Address) -> Self {
        Request {
            method,
            address,
            headers: HeaderMap::new(),
            body: Vec::new(),
        }
    }

    /// A POST of JSON.
    pub(crate) fn post_json(address: Address, body: String) -> Self {
        Request::new(Method::POST, address).json(body)
    }

    pub(crate) fn json(self, body: String) -> Self {
        self.body("application/json", body.into_bytes())
    }

    pub(crate) fn body(mut self, content_type: &'static str, body: Vec<u8>) -> Self {
        self.headers.insert(
            http::header::CONTENT_TYPE,
            HeaderValue::from_static(content_type),
        );
        self.body = body;
        self
    }

    pub(crate) fn header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.insert(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
        self
    }

    /// A header whose value is not to be shown.
    pub(crate) fn secret_header(mut self, name: &str, value: &str) -> Result<Self, String> {
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| format!("net/http: invalid header field name {name:?}"))?;
        // What stands around the value does not count on the wire.
        let Ok(mut value) = HeaderValue::from_bytes(value.trim_matches([' ', '\t']).as_bytes())
        else {
            let shown = go_header_name(name.as_str());
            return Err(format!(
                "net/http: invalid header field value for {shown:?}"
            ));
        };
        value.set_sensitive(true);
        self.headers.insert(name, value);
        Ok(self)
    }

    /// What a careless server that repeats the request would show: the values of headers that are not to be shown, and
    /// what stands in them behind the scheme.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let headers = self.headers.values().filter(|value| value.is_sensitive());
        let texts = headers.filter_map(|value| value.to_str().ok());
        let parts = texts.flat_map(|text| match text.split_once(' ') {
            Some((_, credentials)) => credentials
                .split([' ', '&', ','])
                .map(|part| part.split_once('=').map_or(part, |(_, value)| value))
                .filter(|part| part.len() >= SHORTEST_PART)
                .chain([credentials])
                .collect::<Vec<_>>(),
            None if text == "Bearer" => Vec::new(),
            None => vec![text],
        });
        parts.map(str::to_owned).collect()
    }

    /// `METHOD ADDRESS`, without secrets.
    pub fn shown(&self) -> String {
        format!("{} {}", self.method, self.address)
    }
}

/// `X-Api-Key` for `x-api-key`.
fn go_header_name(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut is_first = true;
    for char in name.chars() {
        match is_first {
            true => out.push(char.to_ascii_uppercase()),
            false => out.push(char),
        }
        is_first = char == '-';
    }
    out
}

/// Credentials of a GitHub App that are exchanged for a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GithubApp {
    /// The id of the app.
    pub app_id: String,
    /// Its key (PEM).
    pub private_key: Secret<Vec<u8>>,
    /// Where it is installed, by id.
    pub installation_id: Option<String>,
    /// Where it is installed, by owner.
    pub installation_owner: Option<String>,
    /// The API's address; that of github.com when there is none.
    pub base_url: Option<String>,
    /// Whether the short name of the app is wanted too.
    pub wants_slug: bool,
    /// The proxy to go through, also when the API itself is reached without.
    pub proxy: Option<Address>,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Send this request; [`Reply::Answer`] or [`Reply::Unreachable`] comes back.
    Send(Box<Request>),
    /// Get a token from GitHub, with the certificates of the [`Connection`]; [`Reply::Token`] or [`Reply::Unreachable`] comes back.
    GithubToken(Box<GithubApp>),
    /// Have a token signed; [`Reply::Token`] or [`Reply::Unreachable`] comes back.
    GoogleToken(Box<ServiceAccount>),
    /// Publish this over NATS; [`Reply::Published`] or [`Reply::Unreachable`] comes back.
    Nats(Box<Publish>),
    /// Nothing: this is how it ended.
    Done(Outcome),
}

/// An answer over HTTP.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The header `Retry-After`.
    pub retry_after: Option<String>,
    /// The body, as far as it was read.
    pub body: Vec<u8>,
}

impl Answer {
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The body for a message: as much as fits, without control characters.
    pub(crate) fn shown(&self) -> String {
        shown(&self.body)
    }

    /// `403 Forbidden`.
    pub(crate) fn status_line(&self) -> String {
        let reason = StatusCode::from_u16(self.status).ok();
        match reason.and_then(|status| status.canonical_reason()) {
            Some(reason) => format!("{} {reason}", self.status),
            None => self.status.to_string(),
        }
    }

    /// The body as JSON; `null` when it is none.
    pub(crate) fn json(&self) -> everflow_json::Value {
        everflow_json::text::read(&self.body).unwrap_or_default()
    }

    /// Whether the same request may succeed in a while.
    pub(crate) fn is_transient(&self) -> bool {
        self.status == 429 || self.status >= 500 && self.status != 501
    }

    /// Soon, after the pause that the service asks for.
    pub(crate) fn retry_soon(&self) -> Retry {
        Retry::Soon(self.pause())
    }

    /// Later, where the service has trouble of its own or the credentials may yet be put right.
    pub(crate) fn retry_later(&self) -> Retry {
        match self.is_transient() || matches!(self.status, 203 | 401 | 403 | 407 | 408 | 425) {
            true => Retry::Later,
            false => Retry::Never,
        }
    }

    /// How long the service wants to be left alone, where it says so in seconds.
    fn pause(&self) -> Option<Duration> {
        let is_heeded = matches!(self.status, 429 | 503);
        let text = self.retry_after.as_deref().filter(|_| is_heeded)?;
        text.trim().parse().ok().map(Duration::from_secs)
    }
}

fn shown(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(4 * SHOWN)]);
    let plain = |char: &char| !char.is_control() || matches!(char, '\n' | '\t');
    let mut out: String = text.chars().filter(plain).take(SHOWN).collect();
    if out.len() < text.len() && text.chars().filter(plain).count() > SHOWN {
        out.push(CUT);
    }
    out
}

/// Why there was no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreachable {
    /// In words.
    pub message: String,
    /// Whether trying again soon is of no use: the certificate is not trusted, the address is none.
    pub is_final: bool,
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// An answer.
    Answer(Answer),
    /// No answer.
    Unreachable(Unreachable),
    /// A token.
    Token {
        /// The token.
        token: Secret<String>,
        /// The short name of the GitHub App, if it was wanted.
        slug: Option<String>,
    },
    /// The server of NATS took the message.
    Published,
}

/// How a delivery ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The provider took it.
    Delivered,
    /// There was nothing to send, and why.
    Skipped(&'static str),
    /// It was not taken.
    Failed(Failure),
}

/// What a reply means for a request to a webhook: an answer that is not among the lasting failures, or how it ended.
pub(crate) fn check_reply(
    context: &str,
    request: &Request,
    reply: Reply,
) -> Result<Answer, Failure> {
    let failure = |cause, retry| Failure {
        stage: Stage::Send,
        context: format!("{context}failed to execute request: "),
        cause,
        request: request.shown(),
        retry,
    };
    match reply {
        Reply::Answer(answer) if answer.is_transient() => Err(failure(
            format!(
                "{} was answered with status code {}: {}",
                request.shown(),
                answer.status,
                answer.shown()
            ),
            answer.retry_soon(),
        )),
        Reply::Answer(answer) => Ok(answer),
        Reply::Unreachable(why) if why.is_final => Err(failure(
            format!(
                "{} giving up after 1 attempt(s): {}",
                request.shown(),
                why.message
            ),
            Retry::Never,
        )),
        Reply::Unreachable(why) => Err(failure(
            format!("{}: {}", request.shown(), why.message),
            Retry::Soon(None),
        )),
        Reply::Token { .. } | Reply::Published => Err(unexpected()),
    }
}

/// What a reply means for a request to an API.
pub(crate) fn check_api_reply(
    context: &str,
    request: &Request,
    reply: Reply,
) -> Result<Answer, Failure> {
    match reply {
        Reply::Answer(answer) => Ok(answer),
        Reply::Unreachable(why) => Err(Failure {
            stage: Stage::Send,
            context: context.to_owned(),
            cause: format!("{}: {}", request.shown(), why.message),
            request: request.shown(),
            retry: match why.is_final {
                true => Retry::Never,
                false => Retry::Soon(None),
            },
        }),
        Reply::Token { .. } | Reply::Published => Err(unexpected()),
    }
}

/// The caller handed in a reply to something that was not asked for.
pub(crate) fn unexpected() -> Failure {
    Failure::never("a reply came that does not belong to the request")
}

/// One way of talking to a provider.
pub(crate) trait Exchange: fmt::Debug + Send {
    /// The first thing to do.
    fn start(&mut self) -> Step;
    /// What to do after a reply.
    fn next(&mut self, reply: Reply) -> Step;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_with_a_line_break_is_refused_and_values_are_not_shown() {
        let request = Request::new(Method::POST, Address::open("http://h"));
        let refused = request
            .clone()
            .secret_header("x-api-key", "a\n")
            .unwrap_err();
        assert_eq!(
            refused,
            "net/http: invalid header field value for \"X-Api-Key\""
        );
        assert!(request.clone().secret_header("x y", "a").is_err());
        let request = request
            .secret_header("Authorization", "Bearer hunter2")
            .unwrap();
        assert!(!format!("{request:?}").contains("hunter2"));
    }

    #[test]
    fn long_answers_are_cut_and_control_characters_left_out() {
        let answer = Answer {
            body: format!("a\u{1b}\n{}", "x".repeat(2 * SHOWN)).into_bytes(),
            ..Answer::default()
        };
        let shown = answer.shown();
        assert!(
            shown.starts_with("a\nx") && shown.ends_with("x…"),
            "{shown}"
        );
        assert_eq!(shown.chars().count(), SHOWN + 1);
    }
}
