//! Services that show what happens beside measurements: Grafana and Datadog.

use super::settings::Settings;
use super::webhook::{Webhook, unsendable};
use crate::Event;
use crate::exchange::{Answer, Exchange, Request};
use crate::json::{Fields, Json};
use crate::url::Url;

/// Grafana: annotations with tags.
pub(super) fn grafana(settings: &Settings, event: &Event) -> Result<Box<dyn Exchange>, String> {
    const CONTEXT: &str = "postMessage failed: ";
    settings.hook("Grafana")?;
    let object = &event.involved;
    let mut tags = vec!["flux".to_owned(), event.reporting_controller.clone()];
    // A colon divides a tag's name from its value.
    let plain = |text: &str| text.replace(':', "|");
    let metadata = event.metadata.iter();
    tags.extend(metadata.map(|(key, value)| format!("{}: {}", plain(key), plain(value))));
    tags.push(format!("kind: {}", object.kind));
    tags.push(format!("name: {}", object.name));
    tags.push(format!("namespace: {}", object.namespace));
    let tags: Vec<Json<'_>> = tags.into_iter().map(Json::from).collect();
    let body = Fields::new()
        .with("when", event.unix_seconds())
        .with("text", object.title())
        .with("tags", tags)
        .done()
        .print();
    let request = Request::post_json(settings.address.clone(), body);
    let (user, password) = (&settings.username, settings.password.reveal());
    let token = settings.token.reveal();
    let signed = if !token.is_empty() {
        super::bearer(request.clone(), token)
    } else if !user.is_empty() && !password.is_empty() {
        super::basic(request.clone(), user, password)
    } else {
        Ok(request.clone())
    };
    Ok(match signed {
        Ok(request) => Box::new(Webhook::new(CONTEXT, request)),
        Err(why) => Box::new(unsendable(CONTEXT, &request, &why)),
    })
}

/// Datadog: events with tags.
pub(super) fn datadog(settings: &Settings, event: &Event) -> Result<Box<dyn Exchange>, String> {
    const CONTEXT: &str = "failed to post event to DataDog: ";
    let token = settings.token.reveal();
    if token.is_empty() {
        return Err("token cannot be empty".to_owned());
    }
    let url = Url::parse(settings.address.reveal())
        .map_err(|cause| format!("failed to parse address {}", settings.parse_error(&cause)))?;
    let object = &event.involved;
    let mut tags = vec![
        format!("flux_reporting_controller:{}", event.reporting_controller),
        format!("flux_reason:{}", event.reason),
        format!("kube_kind:{}", object.kind),
        format!("kube_name:{}", object.name),
        format!("kube_namespace:{}", object.namespace),
    ];
    tags.extend(
        event
            .metadata
            .iter()
            .map(|(key, value)| format!("{key}:{value}")),
    );
    let tags: Vec<Json<'_>> = tags
        .into_iter()
        .map(|tag| Json::from(tag.to_lowercase()))
        .collect();
    let body = Fields::new()
        .with(
            "alert_type",
            if event.is_error() { "error" } else { "info" },
        )
        .with("date_happened", event.unix_seconds())
        .with("source_type_name", "fluxcd")
        .with("tags", tags)
        .with("text", &event.message)
        .with(
            "title",
            format!(
                "Events from the {} {}/{}",
                object.kind, object.name, object.namespace
            ),
        )
        .done()
        .print();
    let address = format!("{}://{}/api/v1/events", url.scheme, url.host);
    let request = Request::post_json(settings.address.with_text(address), body)
        .header("accept", "application/json");
    Ok(match request.clone().secret_header("dd-api-key", token) {
        Ok(request) => Box::new(
            Webhook::new(CONTEXT, request)
                .checked_by(is_taken)
                .without_prefix(),
        ),
        Err(why) => Box::new(unsendable(CONTEXT, &request, &why)),
    })
}

fn is_taken(answer: &Answer) -> Result<(), String> {
    match answer.is_success() {
        true => Ok(()),
        false => Err(answer.status_line()),
    }
}
