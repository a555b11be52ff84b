//! Microsoft Teams: adaptive cards, and the old cards for connectors.

use super::settings::Settings;
use super::webhook::Webhook;
use crate::Event;
use crate::exchange::{Exchange, Request};
use crate::json::{Fields, Json};
use crate::metadata::SUMMARY;

/// Hosts of connectors end like this.
const CONNECTORS: &str = ".webhook.office.com";

pub(super) fn teams(settings: &Settings, event: &Event) -> Result<Box<dyn Exchange>, String> {
    let url = settings.hook("MS Teams webhook")?;
    let body = match url.host_name().ends_with(CONNECTORS) {
        true => connector_card(event),
        false => adaptive_card(event),
    };
    let request = Request::post_json(settings.address.clone(), body.print());
    Ok(Box::new(Webhook::new("postMessage failed: ", request)))
}

fn connector_card(event: &Event) -> Json<'_> {
    let title = event.involved.title();
    let facts = event
        .metadata
        .iter()
        .map(|(name, value)| Fields::new().with("name", name).with("value", value).done());
    let section = Fields::new()
        .with("activityTitle", &event.message)
        .with("activitySubtitle", title.clone())
        .with("facts", facts.collect::<Vec<_>>());
    let color = if event.is_error() { "FF0000" } else { "0076D7" };
    Fields::new()
        .with("@type", "MessageCard")
        .with("@context", "http://schema.org/extensions")
        .with("themeColor", color)
        .with("summary", title)
        .with("sections", vec![section.done()])
        .done()
}

fn adaptive_card(event: &Event) -> Json<'_> {
    let title = Fields::new()
        .with("type", "TextBlock")
        .with("text", event.involved.title())
        .with("size", "large")
        .with("weight", "bolder")
        .with("wrap", true);
    let color = if event.is_error() { "attention" } else { "" };
    let message = Fields::new()
        .with("type", "TextBlock")
        .with_some("text", &event.message)
        .with_some("color", color)
        .with("wrap", true);
    let mut facts = Fields::new().with("type", "FactSet");
    let listed = facts_of(event);
    if !listed.is_empty() {
        facts = facts.with("facts", listed);
    }
    let container = Fields::new()
        .with("type", "Container")
        .with("items", vec![title.done(), message.done(), facts.done()]);
    let content = Fields::new()
        .with(
            "$schema",
            "http://adaptivecards.io/schemas/adaptive-card.json",
        )
        .with("type", "AdaptiveCard")
        .with("version", "1.4")
        .with("body", vec![container.done()])
        .with("msteams", Fields::new().with("width", "Full"));
    let attachment = Fields::new()
        .with("contentType", "application/vnd.microsoft.card.adaptive")
        .with("content", content);
    Fields::new()
        .with("type", "message")
        .with("attachments", vec![attachment.done()])
        .done()
}

/// The summary comes first.
fn facts_of(event: &Event) -> Vec<Json<'_>> {
    let summary = event.metadata.get_key_value(SUMMARY);
    let others = event.metadata.iter().filter(|(key, _)| *key != SUMMARY);
    let all = summary.into_iter().chain(others);
    all.map(|(title, value)| {
        Fields::new()
            .with("title", title)
            .with("value", value)
            .done()
    })
    .collect()
}
