//! Requests in the form in which the recordings have them.

use everflow_json::{Map, Value, json};
use everflow_notify::exchange::{Connection, Request};

use crate::otlp;
use crate::symbols::{MTLS, SINK, TLS};

/// The parts of an address.
pub struct Parts<'a> {
    pub scheme: &'a str,
    pub host: &'a str,
    pub path: &'a str,
    pub query: Option<&'a str>,
}

pub fn parts(address: &str) -> Parts<'_> {
    let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
    let (rest, query) = match rest.split_once('?') {
        Some((rest, query)) => (rest, Some(query)),
        None => (rest, None),
    };
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let path = if path.is_empty() { "/" } else { path };
    Parts {
        scheme,
        host,
        path,
        query,
    }
}

/// What the recording sink would have written down.
pub fn recorded_form(request: &Request, connection: &Connection) -> Vec<Value> {
    let parts = parts(request.address.reveal());
    if parts.host == "pubsub.googleapis.com" {
        return vec![as_grpc(&parts, request)];
    }
    let mut out = Map::new();
    out.insert("method".into(), Value::from(request.method.as_str()));
    out.insert("path".into(), Value::from(parts.path));
    if let Some(query) = parts.query {
        out.insert("query".into(), Value::from(query));
    }
    let mut headers = headers(request);
    let proxy = connection
        .proxy
        .as_ref()
        .map(|proxy| proxy.reveal().to_owned());
    let mut all = Vec::new();
    match (&proxy, parts.scheme) {
        (Some(proxy), "https") => {
            let mut own = Map::new();
            own.extend(proxy_authorization(proxy));
            all.push(json!({"method": "CONNECT", "target": format!("{}:443", parts.host), "headers": Value::Object(own)}));
        }
        (Some(proxy), _) => {
            headers.extend(proxy_authorization(proxy));
            out.insert(
                "proxied".into(),
                Value::from(format!("{}://{}", parts.scheme, parts.host)),
            );
        }
        (None, _) => {}
    }
    if !matches!(parts.host, SINK | TLS | MTLS) && !out.contains_key("proxied") {
        out.insert("host".into(), Value::from(parts.host));
    }
    if matches!(parts.host, TLS | MTLS) {
        out.insert("tls".into(), Value::Bool(true));
    }
    if parts.host == MTLS {
        out.insert("client_certificate".into(), Value::from("client-one"));
    }
    let content_type = headers
        .get("content-type")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    out.insert("headers".into(), Value::Object(headers));
    body(&mut out, &content_type, &request.body);
    all.push(Value::Object(out));
    all
}

fn headers(request: &Request) -> Map {
    let all = request.headers.iter();
    all.map(|(name, value)| {
        (
            everflow_json::Text::from(name.as_str()),
            Value::from(String::from_utf8_lossy(value.as_bytes())),
        )
    })
    .collect()
}

fn proxy_authorization(proxy: &str) -> Option<(everflow_json::Text, Value)> {
    use base64::Engine as _;
    let (_, rest) = proxy.split_once("://")?;
    let (pair, _) = rest.split_once('@')?;
    let pair = base64::engine::general_purpose::STANDARD.encode(pair);
    Some((
        "proxy-authorization".into(),
        Value::from(format!("Basic {pair}")),
    ))
}

fn body(out: &mut Map, content_type: &str, body: &[u8]) {
    let text = String::from_utf8_lossy(body).into_owned();
    match content_type {
        _ if body.is_empty() => {}
        "application/x-www-form-urlencoded" => {
            out.insert("form".into(), form(&text));
        }
        "application/x-protobuf" => {
            out.insert("otlp".into(), otlp::decode(body));
        }
        "application/x-sentry-envelope" => {
            out.insert("envelope".into(), envelope(&text));
        }
        _ => {
            if let Ok(value) = everflow_json::text::read(body) {
                out.insert("body".into(), value);
            }
            out.insert("text".into(), Value::from(text));
        }
    }
}

/// What was recorded went over gRPC, and ours over REST: what is the same is the message.
fn as_grpc(parts: &Parts<'_>, request: &Request) -> Value {
    use base64::Engine as _;
    let body = everflow_json::text::read(&request.body).unwrap();
    let topic = parts
        .path
        .trim_start_matches("/v1/")
        .trim_end_matches(":publish");
    let messages = body["messages"].as_array().unwrap().iter().map(|message| {
        let data = base64::engine::general_purpose::STANDARD
            .decode(message["data"].as_str().unwrap())
            .unwrap();
        let body = everflow_json::text::read(&data).unwrap();
        json!({
            "attributes": message["attributes"], "orderingKey": "", "body": body,
            "data": String::from_utf8(data).unwrap(),
        })
    });
    let messages: Vec<Value> = messages.collect();
    let authorization = request.headers["authorization"].to_str().unwrap();
    json!({
        "protocol": "grpc", "path": "/google.pubsub.v1.Publisher/Publish",
        "method": "google.pubsub.v1.Publisher/Publish", "topic": topic, "messages": messages,
        "authority": ["pubsub.googleapis.com:443"], "authorization": authorization,
    })
}

fn form(text: &str) -> Value {
    let decode = |text: &str| {
        let mut out = Vec::new();
        let mut bytes = text.bytes();
        while let Some(byte) = bytes.next() {
            match byte {
                b'+' => out.push(b' '),
                b'%' => {
                    let digits = [bytes.next().unwrap(), bytes.next().unwrap()];
                    let digits = std::str::from_utf8(&digits).unwrap();
                    out.push(u8::from_str_radix(digits, 16).unwrap());
                }
                other => out.push(other),
            }
        }
        String::from_utf8(out).unwrap()
    };
    let pairs = text.split('&').map(|pair| {
        let (name, value) = pair.split_once('=').unwrap();
        (
            everflow_json::Text::from(decode(name)),
            Value::from(decode(value)),
        )
    });
    Value::Object(pairs.collect())
}

/// The lines of an envelope without ids and sizes, as in the recordings.
fn envelope(text: &str) -> Value {
    let lines = text.lines().map(|line| {
        let mut value: Value = everflow_json::from_str(line).unwrap();
        if let Some(map) = value.as_object_mut() {
            // Ids and moments of the run, and which client it is.
            for name in ["event_id", "sent_at", "sdk", "platform"] {
                map.remove(name);
            }
        }
        value
    });
    Value::Array(lines.collect())
}
