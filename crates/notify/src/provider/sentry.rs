//! Sentry: errors as events, all else that is worth knowing as a transaction without length.

use http::Method;

use super::settings::Settings;
use super::webhook::{Immediate, Webhook, unsendable};
use super::{Outgoing, hex};
use crate::Event;
use crate::event::{ERROR, INFO};
use crate::exchange::{Exchange, Outcome, Request};
use crate::json::{Fields, Json};
use crate::url::Url;

const CONTEXT: &str = "";
const CLIENT: &str = "everflow";

/// A data source name: where to send to, and the key.
struct Dsn {
    envelopes: String,
    key: String,
}

impl Dsn {
    fn read(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("[Sentry] DsnParseError: {why}");
        if text.is_empty() {
            return Err("DSN cannot be empty".to_owned());
        }
        let url = Url::parse(text).map_err(|cause| wrong(&format!("invalid url: {cause}")))?;
        if !matches!(url.scheme.as_str(), "http" | "https") {
            return Err(wrong("invalid scheme"));
        }
        let key = url
            .user_and_password()
            .map(|(user, _)| user)
            .unwrap_or_default();
        if key.is_empty() {
            return Err(wrong("empty username"));
        }
        if url.host.is_empty() {
            return Err(wrong("empty host"));
        }
        let (prefix, project) = url.path.rsplit_once('/').unwrap_or(("", ""));
        if project.is_empty() {
            return Err(wrong("empty project id"));
        }
        let (scheme, host) = (&url.scheme, &url.host);
        Ok(Dsn {
            envelopes: format!("{scheme}://{host}{prefix}/api/{project}/envelope/"),
            key,
        })
    }
}

pub(super) fn sentry(
    settings: &Settings,
    outgoing: &Outgoing<'_>,
) -> Result<Box<dyn Exchange>, String> {
    let dsn = Dsn::read(settings.address.reveal())?;
    let event = outgoing.event;
    let (kind, payload) = match event.severity.as_str() {
        INFO => ("transaction", transaction(settings, outgoing)),
        ERROR => ("event", error_event(settings, outgoing)),
        _ => {
            let why = "Sentry is told of info and error events only";
            return Ok(Box::new(Immediate(Outcome::Skipped(why))));
        }
    };
    let payload = payload.print();
    let header = Fields::new()
        .with("event_id", event_id(outgoing))
        .with("sent_at", outgoing.context.now.rfc3339())
        .with("dsn", settings.address.reveal())
        .with("sdk", sdk());
    let length = i64::try_from(payload.len()).unwrap_or(i64::MAX);
    let item = Fields::new().with("type", kind).with("length", length);
    let body = format!(
        "{}\n{}\n{payload}\n",
        header.done().print(),
        item.done().print()
    );
    let request = Request::new(Method::POST, settings.address.with_text(dsn.envelopes))
        .body("application/x-sentry-envelope", body.into_bytes());
    let auth = format!(
        "Sentry sentry_version=7, sentry_client={CLIENT}, sentry_key={}",
        dsn.key
    );
    Ok(
        match request.clone().secret_header("x-sentry-auth", &auth) {
            Ok(request) => Box::new(Webhook::new(CONTEXT, request)),
            Err(why) => Box::new(unsendable(CONTEXT, &request, &why)),
        },
    )
}

fn sdk<'a>() -> Json<'a> {
    Fields::new().with("name", CLIENT).done()
}

fn event_id(outgoing: &Outgoing<'_>) -> String {
    hex(&outgoing.context.random[..16])
}

fn title(event: &Event) -> String {
    let object = &event.involved;
    format!("{}: {}/{}", object.kind, object.namespace, object.name)
}

/// What events and transactions have in common.
fn common<'a>(settings: &'a Settings, outgoing: &Outgoing<'a>, server: &'a str) -> Fields<'a> {
    let event = outgoing.event;
    Fields::new()
        .with_some("environment", &settings.channel)
        .with("event_id", event_id(outgoing))
        .with_some("message", &event.message)
        .with("platform", "other")
        .with("sdk", sdk())
        .with_some("server_name", server)
        .with("timestamp", event.rfc3339())
        .with("transaction", title(event))
}

fn error_event<'a>(settings: &'a Settings, outgoing: &Outgoing<'a>) -> Json<'a> {
    let event = outgoing.event;
    let contexts = Fields::new().with("metadata", &event.metadata);
    common(settings, outgoing, &event.reporting_controller)
        .with("level", ERROR)
        .with("contexts", contexts)
        .done()
}

fn transaction<'a>(settings: &'a Settings, outgoing: &Outgoing<'a>) -> Json<'a> {
    let event = outgoing.event;
    let random = &outgoing.context.random;
    let (trace_id, span_id) = (hex(&random[16..32]), hex(&random[8..16]));
    let object = &event.involved;
    let mut tags = event.metadata.clone();
    let own = [
        ("flux_involved_object_kind", &object.kind),
        ("flux_involved_object_namespace", &object.namespace),
        ("flux_involved_object_name", &object.name),
        ("flux_reporting_controller", &event.reporting_controller),
        ("flux_reporting_instance", &event.reporting_instance),
        ("flux_reason", &event.reason),
    ];
    for (name, value) in own {
        tags.entry(name.to_owned()).or_insert_with(|| value.clone());
    }
    let printed = Json::Map(&tags).print();
    let span = Fields::new()
        .with("trace_id", trace_id.clone())
        .with("span_id", span_id.clone())
        .with("op", "event")
        .with("start_timestamp", event.rfc3339())
        .with("timestamp", event.rfc3339())
        .with("origin", "manual")
        .with("tags", Json::Printed(printed.clone()));
    let trace = Fields::new()
        .with("op", "event")
        .with("span_id", span_id)
        .with("trace_id", trace_id);
    common(settings, outgoing, &outgoing.context.host_name)
        .with("level", INFO)
        .with("type", "transaction")
        .with("start_timestamp", event.rfc3339())
        .with("spans", vec![span.done()])
        .with("tags", Json::Printed(printed))
        .with("contexts", Fields::new().with("trace", trace))
        .done()
}

#[cfg(test)]
mod tests {
    use super::Dsn;

    #[test]
    fn data_source_names_are_read() {
        let dsn = Dsn::read("https://key@h:9000/prefix/42").map(|dsn| (dsn.envelopes, dsn.key));
        let expected = (
            "https://h:9000/prefix/api/42/envelope/".to_owned(),
            "key".to_owned(),
        );
        assert_eq!(dsn, Ok(expected));
        for (text, why) in [
            ("ftp://key@h/1", "invalid scheme"),
            ("http://h/1", "empty username"),
            ("http://key@h/", "empty project id"),
            ("http://key@h", "empty project id"),
        ] {
            let refused = Dsn::read(text).err();
            assert_eq!(
                refused,
                Some(format!("[Sentry] DsnParseError: {why}")),
                "{text}"
            );
        }
    }
}
