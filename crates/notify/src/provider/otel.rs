//! OpenTelemetry: a span for each event, sent as OTLP over HTTP. Events about the same revision share a trace.

use std::collections::BTreeMap;

use everflow_time::Timestamp;
use http::Method;
use sha2::{Digest as _, Sha256};

use super::Outgoing;
use super::settings::Settings;
use super::webhook::{Immediate, Webhook, unsendable};
use crate::Event;
use crate::exchange::{Exchange, Outcome, Request};
use crate::metadata::REVISION;

const CONTEXT: &str = "failed to export trace: ";
const DEFAULT_PATH: &str = "/v1/traces";
const SCHEMA: &str = "https://opentelemetry.io/schemas/1.34.0";
const SCOPE: &str = "flux:notification-controller";
/// Sampled; the parent is known to be a remote one.
const FLAGS: u32 = 0x301;
const KIND_INTERNAL: u64 = 1;
const STATUS_OK: u64 = 1;
const STATUS_ERROR: u64 = 2;

pub(super) fn otel(
    settings: &Settings,
    outgoing: &Outgoing<'_>,
) -> Result<Box<dyn Exchange>, String> {
    let address = endpoint(settings)?;
    if outgoing.event.involved.kind == "HelmRepository" {
        let why = "HelmRepositories take no part in traces";
        return Ok(Box::new(Immediate(Outcome::Skipped(why))));
    }
    let body = trace(outgoing);
    let mut request = Request::new(Method::POST, settings.address.with_text(address))
        .body("application/x-protobuf", body);
    for (name, value) in headers(settings) {
        request = match request.clone().secret_header(&name, &value) {
            Ok(request) => request,
            Err(why) => return Ok(Box::new(unsendable(CONTEXT, &request, &why))),
        };
    }
    Ok(Box::new(Webhook::new(CONTEXT, request)))
}

fn endpoint(settings: &Settings) -> Result<String, String> {
    let url = settings.hook("OTLP endpoint")?;
    if url.host.is_empty() {
        return Err(format!(
            "invalid OTLP endpoint URL {}: it names no host",
            settings.address
        ));
    }
    let scheme = if url.scheme == "https" {
        "https"
    } else {
        "http"
    };
    let path = super::join_path(&format!("/{}", url.path.trim()), "");
    let path = if path == "/" { DEFAULT_PATH } else { &path };
    Ok(format!("{scheme}://{}{path}", url.host))
}

/// The headers of the Secret, with the credentials unless they are among them.
fn headers(settings: &Settings) -> BTreeMap<String, String> {
    use base64::Engine as _;
    let mut headers = settings.headers.reveal().clone();
    let has_own = headers
        .keys()
        .any(|name| name.eq_ignore_ascii_case("authorization"));
    let token = settings.token_or_password();
    if !has_own && !token.is_empty() {
        let value = match settings.username.as_str() {
            "" => format!("Bearer {token}"),
            user => {
                let pair = format!("{user}:{token}");
                let pair = base64::engine::general_purpose::STANDARD.encode(pair);
                format!("Basic {pair}")
            }
        };
        headers.insert("authorization".to_owned(), value);
    }
    headers
}

/// What makes events parts of one trace.
fn revision(event: &Event) -> String {
    let value = |key| event.metadata.get(key);
    match (value("app-version"), value("oci-digest")) {
        (Some(version), Some(digest)) => format!("{version}@{digest}"),
        _ => value(REVISION)
            .cloned()
            .unwrap_or_else(|| "unknown".to_owned()),
    }
}

fn nanos(at: Timestamp) -> u64 {
    let seconds = u64::try_from(at.seconds).unwrap_or_default();
    seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(u64::from(at.nanos))
}

/// The request: one resource with one scope with one span.
fn trace(outgoing: &Outgoing<'_>) -> Vec<u8> {
    let Outgoing { event, alert, .. } = outgoing;
    let object = &event.involved;
    let now = outgoing.context.now;
    let trace_id = Sha256::digest(format!("{}:{}", alert.uid, revision(event)));
    let mut span = Message::default();
    span.bytes(1, &trace_id[..16]);
    span.bytes(2, &outgoing.context.random[..8]);
    span.text(
        5,
        &format!("{}: {}/{}", object.kind, object.namespace, object.name),
    );
    span.number(6, KIND_INTERNAL);
    span.fixed64(7, nanos(event.timestamp.unwrap_or(now)));
    span.fixed64(8, nanos(now));
    let own = [
        ("object.uid", &object.uid),
        ("object.kind", &object.kind),
        ("object.name", &object.name),
        ("object.namespace", &object.namespace),
    ];
    let metadata = event
        .metadata
        .iter()
        .map(|(key, value)| (key.as_str(), value));
    for (key, value) in own.into_iter().chain(metadata) {
        span.bytes(9, &attribute(key, value));
    }
    let mut status = Message::default();
    if event.is_error() {
        status.text(2, &event.message);
    }
    status.number(
        3,
        if event.is_error() {
            STATUS_ERROR
        } else {
            STATUS_OK
        },
    );
    span.bytes(15, &status.0);
    span.fixed32(16, FLAGS);

    let mut scope = Message::default();
    scope.text(1, SCOPE);
    let mut scope_spans = Message::default();
    scope_spans.bytes(1, &scope.0);
    scope_spans.bytes(2, &span.0);
    let mut resource = Message::default();
    let service = format!("{}/{}", alert.namespace, alert.name);
    for (key, value) in [
        ("service.instance.id", &alert.uid),
        ("service.name", &service),
        ("service.namespace", &alert.namespace),
    ] {
        resource.bytes(1, &attribute(key, value));
    }
    let mut resource_spans = Message::default();
    resource_spans.bytes(1, &resource.0);
    resource_spans.bytes(2, &scope_spans.0);
    resource_spans.text(3, SCHEMA);
    let mut request = Message::default();
    request.bytes(1, &resource_spans.0);
    request.0
}

fn attribute(key: &str, value: &str) -> Vec<u8> {
    let mut content = Message::default();
    content.text(1, value);
    let mut pair = Message::default();
    pair.text(1, key);
    pair.bytes(2, &content.0);
    pair.0
}

/// A protobuf message, field by field.
#[derive(Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(&mut self, field: u64, value: u64) {
        self.varint(field << 3);
        self.varint(value);
    }

    fn fixed64(&mut self, field: u64, value: u64) {
        self.varint(field << 3 | 1);
        self.0.extend(value.to_le_bytes());
    }

    fn fixed32(&mut self, field: u64, value: u32) {
        self.varint(field << 3 | 5);
        self.0.extend(value.to_le_bytes());
    }

    fn bytes(&mut self, field: u64, value: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend(value);
    }

    fn text(&mut self, field: u64, value: &str) {
        self.bytes(field, value.as_bytes());
    }
}
