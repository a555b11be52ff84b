//! The services of the recordings: what answers, and with what.

use std::collections::BTreeMap;

use everflow_json::{Value, json};
use everflow_notify::exchange::{Answer, Connection, Request, Unreachable};

use crate::symbols::{DEAD, MTLS, Symbols, TLS};
use crate::wire::{Parts, parts};

/// What becomes of a request.
pub enum Reaction {
    Answer(Answer),
    Unreachable(Unreachable),
    /// It is answered, but after so many seconds.
    Late(i64, Answer),
}

/// A service.
#[derive(Default)]
pub struct StandIn {
    api: String,
    rules: Vec<Rule>,
    /// What was posted, by the path it was posted to; the newest last.
    posted: BTreeMap<String, Vec<Value>>,
    next_id: u64,
}

struct Rule {
    method: Option<String>,
    path: Option<String>,
    answers: Vec<Value>,
    hits: usize,
}

impl StandIn {
    pub fn new(scenario: &Value, symbols: &Symbols<'_>) -> Self {
        let rules = scenario["answers"].as_array().into_iter().flatten();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        StandIn {
            api: scenario["api"].as_str().unwrap_or_default().to_owned(),
            rules: rules
                .map(|rule| Rule {
                    method: text(&rule["method"]),
                    path: text(&rule["path"]),
                    answers: symbols.fill(&rule["answers"]).as_array().unwrap().clone(),
                    hits: 0,
                })
                .collect(),
            ..StandIn::default()
        }
    }

    /// What becomes of a request, and whether the sink saw it.
    pub fn react(
        &mut self,
        request: &Request,
        connection: &Connection,
        keys: &crate::keys::Keys,
    ) -> (Reaction, bool) {
        let parts = parts(request.address.reveal());
        let unreachable = |message: &str, is_final| {
            let message = message.to_owned();
            (
                Reaction::Unreachable(Unreachable { message, is_final }),
                false,
            )
        };
        let proxy = connection.proxy.as_ref().map(|proxy| proxy.reveal());
        if parts.host == DEAD || proxy.is_some_and(|proxy| proxy.contains(DEAD)) {
            return unreachable("dial tcp: connect: connection refused", false);
        }
        let tls = connection.tls.as_ref();
        let ca = tls.and_then(|tls| tls.ca.as_deref());
        if matches!(parts.host, TLS | MTLS) && ca.is_some_and(|ca| ca != keys.ca.as_bytes()) {
            let why =
                "tls: failed to verify certificate: x509: certificate signed by unknown authority";
            let why = format!("Post {:?}: {why}", request.address.reveal());
            return unreachable(&why, true);
        }
        if parts.host == MTLS && tls.is_none_or(|tls| tls.client.is_none()) {
            return unreachable("remote error: tls: certificate required", false);
        }
        (self.answer(request, &parts), true)
    }

    fn answer(&mut self, request: &Request, parts: &Parts<'_>) -> Reaction {
        let method = request.method.as_str();
        let rule = self.rules.iter_mut().find(|rule| {
            rule.method.as_deref().is_none_or(|wanted| wanted == method)
                && rule
                    .path
                    .as_deref()
                    .is_none_or(|wanted| match wanted.strip_suffix('$') {
                        Some(end) => parts.path.ends_with(end),
                        None => parts.path.contains(wanted),
                    })
        });
        if let Some(rule) = rule {
            let last = rule.answers.len() - 1;
            let wanted = rule.answers[rule.hits.min(last)].clone();
            rule.hits += 1;
            return reaction(&wanted);
        }
        let (status, body) = self.api_answer(method, parts, &request.body);
        Reaction::Answer(Answer {
            status,
            retry_after: None,
            body: body.to_string().into_bytes(),
        })
    }

    fn api_answer(&mut self, method: &str, parts: &Parts<'_>, body: &[u8]) -> (u16, Value) {
        let body: Value = everflow_json::text::read(body).unwrap_or_default();
        let path = parts.path;
        match self.api.as_str() {
            "github" => self.github(method, path, body),
            "gitlab" => self.gitlab(method, parts, body),
            "gitea" => self.gitea(method, path, body),
            "bitbucket" => self.bitbucket(method, path, body, "/statuses/build"),
            "bitbucketserver" => self.bitbucket_server(method, parts, body),
            "azuredevops" => self.azure(method, path, body),
            _ if path.ends_with("/topics/absent:publish") => {
                let message = "Resource not found (resource=absent).";
                (
                    404,
                    json!({"error": {"code": 404, "message": message, "status": "NOT_FOUND"}}),
                )
            }
            _ => (200, json!({})),
        }
    }

    fn remember(&mut self, path: &str, value: Value) {
        self.posted.entry(path.to_owned()).or_default().push(value);
    }

    fn newest_first(&self, path: &str) -> Value {
        let posted = self.posted.get(path).into_iter().flatten();
        Value::Array(posted.rev().cloned().collect())
    }

    fn github(&mut self, method: &str, path: &str, body: Value) -> (u16, Value) {
        if path.ends_with("/access_tokens") {
            return (
                201,
                json!({"token": "ghs_app", "expires_at": "2030-01-01T00:00:00Z"}),
            );
        }
        if path.ends_with("/user") {
            return (200, json!({"login": "fluxbot"}));
        }
        match (method, path.rsplit_once("/statuses")) {
            ("GET", Some((commit, _))) => {
                let sha = commit.rsplit('/').next().unwrap_or_default();
                (200, self.newest_first(sha))
            }
            ("POST", Some((_, sha))) => {
                self.remember(sha.trim_start_matches('/'), body.clone());
                (201, body)
            }
            _ => self.comments(
                method,
                path,
                body,
                100,
                |id, body| json!({"id": id, "body": body["body"], "user": {"login": "fluxbot"}}),
            ),
        }
    }

    fn gitea(&mut self, method: &str, path: &str, body: Value) -> (u16, Value) {
        if path.ends_with("/version") {
            return (200, json!({"version": "1.24.0"}));
        }
        if path.ends_with("/user") {
            return (200, json!({"login": "fluxbot", "username": "fluxbot"}));
        }
        match (method, path.rsplit_once("/statuses")) {
            ("GET", Some((commit, _))) => {
                let sha = commit.rsplit('/').next().unwrap_or_default();
                let listed = self.newest_first(sha);
                let listed = listed.as_array().unwrap().iter();
                let listed = listed.map(|one| {
                    json!({"status": one["state"], "description": one["description"], "context": one["context"]})
                });
                (200, Value::Array(listed.collect()))
            }
            ("POST", Some((_, sha))) => {
                self.remember(sha.trim_start_matches('/'), body.clone());
                (201, body)
            }
            _ => self.comments(method, path, body, 300, |id, body| {
                json!({"id": id, "body": body["body"], "user": {"login": "fluxbot", "username": "fluxbot"}})
            }),
        }
    }

    /// Comments: listed and made below a collection, changed by their id.
    fn comments(
        &mut self,
        method: &str,
        path: &str,
        body: Value,
        first_id: u64,
        shape: fn(u64, &Value) -> Value,
    ) -> (u16, Value) {
        match method {
            "GET" => {
                let listed = self.posted.get(path).cloned().unwrap_or_default();
                (200, Value::Array(listed))
            }
            "POST" => {
                // The recorded stand-in of Gitea gave all comments the same id.
                let id = first_id + if self.api == "gitea" { 0 } else { self.next_id };
                self.next_id += 1;
                let made = shape(id, &body);
                self.remember(path, made.clone());
                (201, made)
            }
            _ => {
                let id: u64 = path
                    .rsplit('/')
                    .next()
                    .unwrap_or_default()
                    .parse()
                    .unwrap_or_default();
                let all = self.posted.values_mut().flatten();
                for one in all.filter(|one| one["id"].as_u64() == Some(id)) {
                    *one = shape(id, &body);
                }
                (200, shape(id, &body))
            }
        }
    }

    fn gitlab(&mut self, method: &str, parts: &Parts<'_>, body: Value) -> (u16, Value) {
        let path = parts.path;
        if path.ends_with("/user") {
            return (200, json!({"id": 1, "username": "fluxbot"}));
        }
        match (method, path.rsplit_once("/statuses")) {
            ("GET", Some((commit, _))) => {
                let sha = commit.rsplit('/').next().unwrap_or_default();
                let name = parts.query.unwrap_or_default().replace("%2F", "/");
                let name = name.strip_prefix("name=").unwrap_or_default();
                let all = self.newest_first(sha);
                let latest = all.as_array().unwrap().iter().find(|one| one["name"].as_str() == Some(name));
                (200, Value::Array(latest.cloned().into_iter().collect()))
            }
            ("POST", Some((_, sha))) => {
                let sha = sha.trim_start_matches('/');
                let made = json!({
                    "sha": sha, "status": body["state"], "name": body["name"], "description": body["description"],
                });
                self.remember(sha, made.clone());
                (201, made)
            }
            _ => self.comments(method, path, body, 200, |id, body| {
                json!({"id": id, "body": body["body"], "author": {"username": "fluxbot"}})
            }),
        }
    }

    fn bitbucket(&mut self, method: &str, path: &str, body: Value, marker: &str) -> (u16, Value) {
        let (commit, key) = path.rsplit_once(marker).unwrap_or((path, ""));
        match method {
            "POST" => {
                let key = body["key"].as_str().unwrap_or_default();
                self.remember(&format!("{commit}/{key}"), body.clone());
                (201, body)
            }
            _ => match self
                .posted
                .get(&format!("{commit}{key}"))
                .and_then(|all| all.last())
            {
                Some(found) => (200, found.clone()),
                None => (404, json!({"type": "error"})),
            },
        }
    }

    fn bitbucket_server(&mut self, method: &str, parts: &Parts<'_>, body: Value) -> (u16, Value) {
        let key = match method {
            "POST" => body["key"].as_str().unwrap_or_default().to_owned(),
            _ => parts
                .query
                .unwrap_or_default()
                .trim_start_matches("key=")
                .to_owned(),
        };
        let place = format!("{}/{key}", parts.path);
        match method {
            "POST" => {
                self.remember(&place, body);
                (204, Value::Null)
            }
            _ => match self.posted.get(&place).and_then(|all| all.last()) {
                Some(found) => (200, found.clone()),
                None => (404, json!({"errors": []})),
            },
        }
    }

    fn azure(&mut self, method: &str, path: &str, body: Value) -> (u16, Value) {
        match method {
            "POST" => {
                self.remember(path, body.clone());
                (201, body)
            }
            _ => {
                let listed = self.newest_first(path);
                let count = listed.as_array().map_or(0, Vec::len);
                (200, json!({"count": count, "value": listed}))
            }
        }
    }
}

fn reaction(wanted: &Value) -> Reaction {
    if wanted["close"].as_bool() == Some(true) {
        let message = "EOF".to_owned();
        return Reaction::Unreachable(Unreachable {
            message,
            is_final: false,
        });
    }
    let body = match &wanted["body"] {
        Value::String(text) => text.to_string(),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    let status = wanted["status"].as_u64().unwrap_or(200) as u16;
    // No answer of this status has a body, whatever the rule says.
    let body = if status == 304 { String::new() } else { body };
    let answer = Answer {
        status,
        retry_after: wanted["headers"]["Retry-After"].as_str().map(str::to_owned),
        body: body.into_bytes(),
    };
    match wanted["sleep"].as_f64() {
        Some(seconds) => Reaction::Late(seconds.ceil() as i64, answer),
        None => Reaction::Answer(answer),
    }
}
