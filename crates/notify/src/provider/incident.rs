//! Services that keep incidents: Opsgenie, PagerDuty and incident.io.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use super::settings::Settings;
use super::webhook::{Immediate, Webhook, unsendable};
use crate::Event;
use crate::event::INFO;
use crate::exchange::{Exchange, Outcome, Request};
use crate::git::status::description;
use crate::json::{Fields, Json};

/// These services are told how something ended, not that work goes on.
const PROGRESSING: Outcome = Outcome::Skipped("the event only tells that work goes on");

/// Opsgenie. Alerts with the same alias are one alert to it.
pub(super) fn opsgenie(settings: &Settings, event: &Event) -> Result<Box<dyn Exchange>, String> {
    const CONTEXT: &str = "postMessage failed: ";
    settings.hook("Opsgenie hook")?;
    let token = settings.token.reveal();
    if token.is_empty() {
        return Err("empty Opsgenie apikey/token".to_owned());
    }
    let object = &event.involved;
    let source = format!("{}/{}/{}", settings.uid, object.path(), event.reason);
    let mut details = event.metadata.clone();
    details.insert("severity".to_owned(), event.severity.clone());
    let body = Fields::new()
        .with("message", format!("{}/{}", object.kind, object.name))
        .with("alias", super::hex(&Sha256::digest(source)))
        .with("description", &event.message)
        .with("details", &details)
        .done()
        .print();
    let request = Request::post_json(settings.address.clone(), body);
    Ok(
        match request
            .clone()
            .secret_header("authorization", &format!("GenieKey {token}"))
        {
            Ok(request) => Box::new(Webhook::new(CONTEXT, request)),
            Err(why) => Box::new(unsendable(CONTEXT, &request, &why)),
        },
    )
}

/// PagerDuty: an incident for errors, which anything else resolves, and a change beside it for what is good to know.
pub(super) fn pagerduty(settings: &Settings, event: &Event) -> Result<Box<dyn Exchange>, String> {
    let url = settings.hook("PagerDuty endpoint")?;
    if event.is_progressing() {
        return Ok(Box::new(Immediate(PROGRESSING)));
    }
    let post = |path: &str, body: Fields<'_>| {
        let address = format!("{}://{}{path}", url.scheme, url.host);
        Request::post_json(settings.address.with_text(address), body.done().print())
    };
    let action = if event.is_error() {
        "trigger"
    } else {
        "resolve"
    };
    let mut incident = Fields::new()
        .with("routing_key", &settings.channel)
        .with("event_action", action)
        .with_some("dedup_key", &event.involved.uid);
    if event.is_error() {
        let payload = pagerduty_payload(event)
            .with("severity", "error")
            .with("timestamp", event.rfc3339())
            .with_some("component", &event.involved.name)
            .with_some("group", &event.involved.kind)
            .with("custom_details", pagerduty_details(event));
        incident = incident.with("payload", payload);
    }
    let webhook = Webhook::new("failed sending event: ", post("/v2/enqueue", incident));
    if event.severity != INFO {
        return Ok(Box::new(webhook));
    }
    let payload = pagerduty_payload(event)
        .with("timestamp", event.rfc3339())
        .with("custom_details", pagerduty_details(event));
    let change = Fields::new()
        .with("routing_key", &settings.channel)
        .with("payload", payload);
    let change = post("/v2/change/enqueue", change);
    Ok(Box::new(
        webhook.then("failed sending change event: ", change),
    ))
}

fn pagerduty_payload(event: &Event) -> Fields<'_> {
    let name = event.involved.lower_name().to_lowercase();
    Fields::new()
        .with("summary", format!("{}: {name}", description(event)))
        .with("source", format!("Flux {}", event.reporting_controller))
}

fn pagerduty_details(event: &Event) -> Json<'_> {
    Fields::new()
        .with("message", &event.message)
        .with("metadata", &event.metadata)
        .done()
}

/// incident.io: an alert for errors, which anything else about the same object resolves.
pub(super) fn incident_io(settings: &Settings, event: &Event) -> Result<Box<dyn Exchange>, String> {
    const CONTEXT: &str = "postMessage failed: ";
    settings.hook("incident.io alert source")?;
    let token = settings.token.reveal();
    if token.is_empty() {
        return Err("empty incident.io API token".to_owned());
    }
    if event.is_progressing() {
        return Ok(Box::new(Immediate(PROGRESSING)));
    }
    let mut metadata = event.metadata.clone();
    let own: BTreeMap<String, String> = [
        ("severity", &event.severity),
        ("reason", &event.reason),
        ("reportingController", &event.reporting_controller),
    ]
    .into_iter()
    .filter(|(name, value)| *name != "reportingController" || !value.is_empty())
    .map(|(name, value)| (name.to_owned(), value.clone()))
    .collect();
    metadata.extend(own);
    let status = if event.is_error() {
        "firing"
    } else {
        "resolved"
    };
    let body = Fields::new()
        .with(
            "title",
            format!("{}: {}", event.involved.title(), event.reason),
        )
        .with("status", status)
        .with("deduplication_key", &event.involved.uid)
        .with_some("description", &event.message)
        .with("metadata", &metadata)
        .done()
        .print();
    let request = Request::post_json(settings.address.clone(), body);
    Ok(match super::bearer(request.clone(), token) {
        Ok(request) => Box::new(Webhook::new(CONTEXT, request)),
        Err(why) => Box::new(unsendable(CONTEXT, &request, &why)),
    })
}
