//! Services that show cards: Google Chat, Lark and Zoom.

use super::settings::Settings;
use super::webhook::{Webhook, unsendable};
use crate::Event;
use crate::exchange::{Exchange, Request};
use crate::json::{Fields, Json};
use crate::url::{pairs, query};

const CONTEXT: &str = "postMessage failed: ";

/// Google Chat.
pub(super) fn google_chat(settings: &Settings, event: &Event) -> Result<Box<dyn Exchange>, String> {
    settings.hook("Google Chat hook")?;
    let header = Fields::new()
        .with("title", event.involved.title())
        .with("subtitle", &event.reporting_controller)
        .with("imageUrl", Json::Null)
        .with("imageStyle", Json::Null);
    let text = match event.is_error() {
        true => format!("<font color=\"#ff0000\">{}</font>", event.message),
        false => event.message.clone(),
    };
    let message = Fields::new()
        .with("textParagraph", Fields::new().with("text", text))
        .with("keyValue", Json::Null);
    let mut sections = vec![section(vec![message.done()])];
    if !event.metadata.is_empty() {
        let pairs = event.metadata.iter().map(|(label, content)| {
            let pair = Fields::new()
                .with("topLabel", label)
                .with("content", content)
                .with("contentMultiline", false)
                .with("bottomLabel", Json::Null)
                .with("icon", Json::Null);
            Fields::new()
                .with("textParagraph", Json::Null)
                .with("keyValue", pair)
                .done()
        });
        sections.push(section(pairs.collect()));
    }
    let card = Fields::new()
        .with("header", header)
        .with("sections", sections);
    let body = Fields::new()
        .with("cards", vec![card.done()])
        .done()
        .print();
    let request = Request::post_json(settings.address.clone(), body);
    Ok(Box::new(Webhook::new(CONTEXT, request)))
}

fn section(widgets: Vec<Json<'_>>) -> Json<'_> {
    Fields::new()
        .with("header", "")
        .with("widgets", widgets)
        .done()
}

/// Lark.
pub(super) fn lark(settings: &Settings, event: &Event) -> Result<Box<dyn Exchange>, String> {
    settings.hook("Lark hook")?;
    let (emoji, color) = match event.is_error() {
        true => ("🚨", "red"),
        false => ("💫", "turquoise"),
    };
    let mut text = format!("**{}**\n\n", event.message);
    for (key, value) in &event.metadata {
        text.push_str(&format!("{key}: {value}\n"));
    }
    let title = Fields::new()
        .with("tag", "plain_text")
        .with("content", format!("{emoji} {}", event.involved.title()));
    let content = Fields::new().with("tag", "lark_md").with("content", text);
    let element = Fields::new().with("tag", "div").with("text", content);
    let card = Fields::new()
        .with("config", Fields::new().with("wide_screen_mode", true))
        .with(
            "header",
            Fields::new().with("title", title).with("template", color),
        )
        .with("elements", vec![element.done()]);
    let body = Fields::new()
        .with("msg_type", "interactive")
        .with("card", card);
    let request = Request::post_json(settings.address.clone(), body.done().print());
    Ok(Box::new(Webhook::new("", request)))
}

/// Zoom's chat.
pub(super) fn zoom(settings: &Settings, event: &Event) -> Result<Box<dyn Exchange>, String> {
    let mut url = settings.hook("Zoom incoming webhook")?;
    let token = settings.token.reveal();
    if token.is_empty() {
        return Err("empty Zoom verification token".to_owned());
    }
    let given = pairs(url.query.as_deref().unwrap_or_default());
    if given
        .iter()
        .all(|(name, value)| name != "format" || value.is_empty())
    {
        let mut wanted: Vec<(&str, &str)> = given
            .iter()
            .filter(|(name, _)| name != "format")
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        wanted.push(("format", "full"));
        url.query = Some(query(&wanted));
    }
    let mut body = vec![
        Fields::new()
            .with("type", "message")
            .with_some("text", &event.message)
            .done(),
    ];
    if !event.metadata.is_empty() {
        let items = event
            .metadata
            .iter()
            .map(|(key, value)| Fields::new().with("key", key).with("value", value).done());
        let items: Vec<Json<'_>> = items.collect();
        body.push(
            Fields::new()
                .with("type", "fields")
                .with("items", items)
                .done(),
        );
    }
    let head = Fields::new()
        .with("text", event.involved.title())
        .with("sub_head", Fields::new().with("text", &event.severity));
    let content = Fields::new().with("head", head).with("body", body);
    let printed = Fields::new().with("content", content).done().print();
    let request = Request::post_json(settings.address.with_text(url.text()), printed);
    Ok(
        match request.clone().secret_header("authorization", token) {
            Ok(request) => Box::new(Webhook::new(CONTEXT, request)),
            Err(why) => Box::new(unsendable(CONTEXT, &request, &why)),
        },
    )
}
