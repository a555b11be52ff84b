//! Runs one scenario against a fresh server.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use everflow_cluster::auth::User;
use everflow_cluster::env::ManualEnvironment;
use everflow_cluster::rest::watch::Watch;
use everflow_cluster::time::Timestamp;
use everflow_cluster::{ApiServer, Body, Options, Request};
use everflow_json::Value;
use serde_json::value::RawValue;

use crate::compare::{Bindings, short};

const TOKEN: &str = "admin-token";

/// All scenario files in order.
pub fn scenario_files(root: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = Vec::new();
    for area in std::fs::read_dir(root.join("scenarios")).unwrap().flatten() {
        files.extend(
            std::fs::read_dir(area.path())
                .unwrap()
                .flatten()
                .map(|entry| entry.path()),
        );
    }
    files.sort();
    files
}

/// `AREA/NAME`.
pub fn id_of(root: &Path, file: &Path) -> String {
    file.strip_prefix(root.join("scenarios"))
        .unwrap()
        .with_extension("")
        .to_string_lossy()
        .into_owned()
}

/// A request as it was recorded.
pub struct Plain {
    pub method: String,
    /// The path with its query, as sent.
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

/// An answer as a client sees it.
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Content,
}

pub enum Content {
    Full(Vec<u8>),
    Events(Box<dyn Events>),
}

/// An open watch.
pub trait Events {
    /// The lines of the events that are there now; `wanted` of them are expected.
    fn read(&mut self, wanted: usize) -> Vec<u8>;
}

pub trait Transport {
    fn send(&mut self, request: &Plain) -> Reply;
}

/// No transport at all.
pub struct InProcess(pub ApiServer);

impl Transport for InProcess {
    fn send(&mut self, request: &Plain) -> Reply {
        let mut plain = Request::new(&request.method, &request.target, request.body.clone());
        for (name, value) in &request.headers {
            plain = plain.header(name, value);
        }
        let answer = self.0.handle(&plain);
        let body = match answer.body {
            Body::Full(bytes) => Content::Full(bytes.to_vec()),
            Body::Watch(watch) => Content::Events(Box::new(Polled(watch))),
        };
        let headers = answer.headers.iter();
        let headers = headers.map(|(name, value)| (name.to_string(), value.to_string()));
        Reply {
            status: answer.status,
            headers: headers.collect(),
            body,
        }
    }
}

struct Polled(Box<Watch>);

impl Events for Polled {
    fn read(&mut self, _wanted: usize) -> Vec<u8> {
        let mut lines = Vec::new();
        loop {
            let events = self.0.poll();
            if events.is_empty() {
                return lines;
            }
            events
                .iter()
                .for_each(|event| lines.extend_from_slice(&event.line()));
        }
    }
}

struct Replay<'a> {
    root: &'a Path,
    server: ApiServer,
    transport: Box<dyn Transport>,
    env: Arc<ManualEnvironment>,
    bindings: Bindings,
}

/// A map of raw parts, so that bodies are sent exactly as they were recorded.
type Raw<'a> = std::collections::BTreeMap<String, &'a RawValue>;

fn raw(value: &RawValue) -> Raw<'_> {
    everflow_json::from_str(value.get()).unwrap()
}

/// Replays a scenario in process; the error says what differs first.
pub fn replay(root: &Path, file: &Path) -> Result<(), String> {
    replay_through(root, file, &|server| Box::new(InProcess(server)))
}

/// Replays a scenario over a transport.
pub fn replay_through(
    root: &Path,
    file: &Path,
    open: &dyn Fn(ApiServer) -> Box<dyn Transport>,
) -> Result<(), String> {
    let text = std::fs::read_to_string(file).unwrap();
    let whole: Raw<'_> = everflow_json::from_str(&text).unwrap();
    let env = Arc::new(ManualEnvironment::new(
        Timestamp::from_seconds(1_794_740_000),
        7,
    ));
    let user = User {
        name: "admin".into(),
        uid: "admin".into(),
        groups: vec!["system:masters".into()],
        ..User::default()
    };
    let options = Options {
        authorization: true,
        tokens: vec![(TOKEN.into(), user)],
        ..Options::default()
    };
    let server = ApiServer::new(env.clone(), options);
    let strict_time = whole
        .get("strict_time")
        .is_some_and(|flag| flag.get() == "true");
    let mut bindings = Bindings::default();
    bindings.strict_time = strict_time;
    let transport = open(server.clone());
    let mut replay = Replay {
        root,
        server,
        transport,
        env,
        bindings,
    };
    let setup: Vec<&RawValue> = whole.get("setup").map_or(Vec::new(), |list| {
        everflow_json::from_str(list.get()).unwrap()
    });
    for (index, request) in setup.iter().enumerate() {
        let answer = replay.send(&raw(request));
        if answer.status >= 300 && answer.status != 409 {
            return Err(format!(
                "setup {index}: {} {}",
                answer.status,
                short(&body_of(&answer))
            ));
        }
    }
    let steps: Vec<&RawValue> = everflow_json::from_str(whole["steps"].get()).unwrap();
    for (index, step) in steps.iter().enumerate() {
        replay
            .step(&raw(step))
            .map_err(|why| format!("step {index}: {why}"))?;
    }
    check_order(
        &replay.bindings,
        whole.get("rv_order").map(|order| order.get()),
    )
}

fn check_order(bindings: &Bindings, order: Option<&str>) -> Result<(), String> {
    let Some(order) = order else { return Ok(()) };
    let text: String = everflow_json::from_str(order).unwrap();
    let revisions: Vec<(&str, u64)> = text
        .split(" < ")
        .filter_map(|name| Some((name, bindings.get(name)?.parse().ok()?)))
        .collect();
    for pair in revisions.windows(2) {
        if pair[0].1 >= pair[1].1 {
            return Err(format!(
                "revisions out of order: {} is {}, {} is {}",
                pair[0].0, pair[0].1, pair[1].0, pair[1].1
            ));
        }
    }
    Ok(())
}

/// A document with spaces behind its commas and colons, as the recorder sent it: to one kind bytes matter.
fn spaced(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 9 / 8);
    let (mut quoted, mut escaped) = (false, false);
    for c in text.chars() {
        out.push(c);
        match c {
            '"' if !escaped => quoted = !quoted,
            ',' | ':' if !quoted => out.push(' '),
            _ => {}
        }
        escaped = c == '\\' && !escaped;
    }
    out
}

fn body_of(answer: &Reply) -> Value {
    match &answer.body {
        Content::Full(bytes) if bytes.is_empty() => Value::Null,
        Content::Full(bytes) => everflow_json::from_slice(bytes)
            .unwrap_or_else(|_| Value::from(String::from_utf8_lossy(bytes).into_owned())),
        Content::Events(_) => Value::from("a stream of events"),
    }
}

impl Replay<'_> {
    fn request(&self, parts: &Raw<'_>) -> Plain {
        let text = |key: &str| -> String {
            parts.get(key).map_or(String::new(), |value| {
                everflow_json::from_str(value.get()).unwrap()
            })
        };
        let mut body = String::new();
        if let Some(value) = parts.get("body") {
            body = spaced(&self.bindings.fill(value.get()));
        } else if parts.contains_key("body_text") {
            body = self.bindings.fill(&text("body_text"));
        } else if parts.contains_key("body_file") {
            body = std::fs::read_to_string(self.root.join(text("body_file"))).unwrap();
        }
        let has_body = parts.contains_key("body")
            || parts.contains_key("body_text")
            || parts.contains_key("body_file");
        let mut headers: Vec<(String, String)> = Vec::new();
        let mut header =
            |name: &str, value: &str| headers.push((name.to_owned(), value.to_owned()));
        let mut given: Vec<String> = Vec::new();
        if let Some(headers) = parts.get("headers") {
            let headers: Value = everflow_json::from_str(headers.get()).unwrap();
            for (name, value) in headers.as_object().unwrap() {
                given.push(name.to_ascii_lowercase());
                let values = value
                    .as_array()
                    .cloned()
                    .unwrap_or_else(|| vec![value.clone()]);
                for value in values {
                    header(
                        name,
                        &self.bindings.fill(value.as_str().unwrap_or_default()),
                    );
                }
            }
        }
        for (name, value) in [("user-agent", "corpus/1.0"), ("accept", "application/json")] {
            if !given.iter().any(|known| known == name) {
                header(name, value);
            }
        }
        if has_body && !given.iter().any(|known| known == "content-type") {
            header("content-type", "application/json");
        }
        match text("auth").as_str() {
            "none" => {}
            "invalid" => header("authorization", "Bearer nobody-knows-this"),
            _ if given.iter().any(|known| known == "authorization") => {}
            _ => header("authorization", &format!("Bearer {TOKEN}")),
        }
        Plain {
            method: text("method"),
            target: self.bindings.fill(&text("path")),
            headers,
            body,
        }
    }

    fn send(&mut self, parts: &Raw<'_>) -> Reply {
        let request = self.request(parts);
        self.transport.send(&request)
    }

    fn step(&mut self, step: &Raw<'_>) -> Result<(), String> {
        if let Some(seconds) = step.get("sleep_before") {
            let seconds: f64 = everflow_json::from_str(seconds.get()).unwrap();
            self.env.advance_micros((seconds * 1e6) as i64);
        }
        if step.contains_key("control") {
            let revision: String = everflow_json::from_str(step["revision"].get()).unwrap();
            let revision = self
                .bindings
                .fill(&revision)
                .parse()
                .map_err(|_| "control: no revision".to_owned())?;
            self.server.store().compact(revision);
            return Ok(());
        }
        if let Some(watch) = step.get("watch") {
            return self.watch(step, &raw(watch));
        }
        let request = raw(step["request"]);
        let expected: Value = everflow_json::from_str(step["response"].get()).unwrap();
        let answer = self.send(&request);
        self.compare(&expected, &answer).map_err(|why| {
            format!(
                "{} {}: {why}",
                request["method"].get().trim_matches('"'),
                request["path"].get().trim_matches('"')
            )
        })
    }

    fn compare(&mut self, expected: &Value, answer: &Reply) -> Result<(), String> {
        let found = body_of(answer);
        if expected["status"].as_u64() != Some(u64::from(answer.status)) {
            return Err(format!(
                "expected {} {}, found {} {}",
                expected["status"],
                short(
                    expected
                        .get("body")
                        .or(expected.get("body_text"))
                        .unwrap_or(&Value::Null)
                ),
                answer.status,
                short(&found)
            ));
        }
        if let Some(body) = expected.get("body") {
            self.bindings.value(body, &found, "")?;
        } else if let Some(text) = expected.get("body_text").and_then(Value::as_str) {
            let Content::Full(bytes) = &answer.body else {
                return Err("expected a text, found a stream".into());
            };
            self.bindings.text(text, &String::from_utf8_lossy(bytes))?;
        }
        for name in [
            "content-type",
            "warning",
            "location",
            "allow",
            "retry-after",
        ] {
            let wanted: Vec<String> = match expected.pointer(&format!("/headers/{name}")) {
                Some(Value::Array(list)) => list
                    .iter()
                    .filter_map(Value::as_str)
                    .map(str::to_owned)
                    .collect(),
                Some(Value::String(text)) => vec![text.to_string()],
                _ => Vec::new(),
            };
            let found: Vec<&str> = answer
                .headers
                .iter()
                .filter(|(known, _)| known == name)
                .map(|(_, value)| value.as_str())
                .collect();
            let same = wanted.len() == found.len()
                && wanted
                    .iter()
                    .zip(&found)
                    .all(|(wanted, found)| self.bindings.text(wanted, found).is_ok());
            if !same {
                return Err(format!(
                    "header {name}: expected {wanted:?}, found {found:?}"
                ));
            }
        }
        Ok(())
    }

    fn watch(&mut self, step: &Raw<'_>, request: &Raw<'_>) -> Result<(), String> {
        let expected: Value = everflow_json::from_str(step["response"].get()).unwrap();
        let mut answer = self.send(request);
        self.compare(&expected, &answer)
            .map_err(|why| format!("watch {}: {why}", request["path"].get()))?;
        let during: Vec<&RawValue> = step.get("during").map_or(Vec::new(), |list| {
            everflow_json::from_str(list.get()).unwrap()
        });
        for (index, inner) in during.iter().enumerate() {
            self.step(&raw(inner))
                .map_err(|why| format!("during {index}: {why}"))?;
        }
        let wanted: Vec<Value> = step.get("events").map_or(Vec::new(), |list| {
            everflow_json::from_str(list.get()).unwrap()
        });
        let lines = match &mut answer.body {
            Content::Events(events) => events.read(wanted.len()),
            Content::Full(_) => Vec::new(),
        };
        let found: Vec<Value> = everflow_json::Deserializer::from_slice(&lines)
            .into_iter::<Value>()
            .flatten()
            .collect();
        for (index, (wanted, found)) in wanted.iter().zip(&found).enumerate() {
            self.bindings
                .value(wanted, found, &format!("event{index}"))?;
        }
        if wanted.len() != found.len() {
            return Err(format!(
                "expected {} events, found {}: {}",
                wanted.len(),
                found.len(),
                short(&Value::Array(found))
            ));
        }
        Ok(())
    }
}
