//! Services that show text: Webex, Telegram, Matrix and Zulip.

use http::Method;
use sha1::{Digest as _, Sha1};

use super::settings::Settings;
use super::webhook::{Webhook, unsendable};
use crate::Event;
use crate::address::Address;
use crate::exchange::{Exchange, Request};
use crate::json::Fields;
use crate::metadata::CHANGE_REQUEST;
use crate::url::{Url, query};

const CONTEXT: &str = "postMessage failed: ";
const TELEGRAM: &str = "https://api.telegram.org";

/// Webex.
pub(super) fn webex(settings: &Settings, event: &Event) -> Result<Box<dyn Exchange>, String> {
    settings.hook("Webex hook")?;
    let emoji = if event.is_error() { "💣" } else { "✅" };
    let title = event.involved.title();
    let mut text = format!("{emoji} **{title}**\n{}\n", event.message);
    for (key, value) in &event.metadata {
        text.push_str(&format!(">**{key}**: {value}\n"));
    }
    let body = Fields::new()
        .with_some("roomId", &settings.channel)
        .with("markdown", text)
        .done()
        .print();
    let request = Request::post_json(settings.address.clone(), body);
    Ok(with_token(settings, request))
}

/// The request with the token, also when there is none.
fn with_token(settings: &Settings, request: Request) -> Box<dyn Exchange> {
    match super::bearer(request.clone(), settings.token.reveal()) {
        Ok(request) => Box::new(Webhook::new(CONTEXT, request)),
        Err(why) => Box::new(unsendable(CONTEXT, &request, &why)),
    }
}

/// Telegram.
pub(super) fn telegram(settings: &Settings, event: &Event) -> Result<Box<dyn Exchange>, String> {
    if settings.channel.is_empty() {
        return Err("empty Telegram channel".to_owned());
    }
    let token = settings.token.reveal();
    if token.is_empty() {
        return Err("empty Telegram token".to_owned());
    }
    let emoji = if event.is_error() { "🚨" } else { "💫" };
    let object = &event.involved;
    let heading = format!("{emoji} {}/{}", object.lower_name(), object.namespace);
    let mut text = format!("*{}*\n{}\n", escaped(&heading), escaped(&event.message));
    for (key, value) in &event.metadata {
        text.push_str(&format!("\\- *{}*: {}\n", escaped(key), escaped(value)));
    }
    let (chat, thread) = settings
        .channel
        .split_once(':')
        .unwrap_or((&settings.channel, ""));
    let body = Fields::new()
        .with("chat_id", chat)
        .with_some("message_thread_id", thread)
        .with("text", text)
        .with("parse_mode", "MarkdownV2")
        .done()
        .print();
    let url = Url::parse(&format!("{TELEGRAM}/bot{token}/sendMessage"))
        .map_err(|_| "the Telegram token holds characters that no token has".to_owned())?;
    let request = Request::post_json(Address::secret(url.text()), body);
    Ok(Box::new(Webhook::new("", request)))
}

/// What Telegram would take for markup is escaped.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        if "\\.-_[]()~>`#+=|{}!*".contains(char) {
            out.push('\\');
        }
        out.push(char);
    }
    out
}

/// Matrix: the transaction's id is a digest of the event, so that one that is sent again is shown once.
pub(super) fn matrix(settings: &Settings, event: &Event) -> Result<Box<dyn Exchange>, String> {
    settings.hook("Matrix homeserver")?;
    let transaction = super::hex(&Sha1::digest(event.to_json()));
    let address = format!(
        "{}/_matrix/client/r0/rooms/{}/send/m.room.message/{transaction}",
        settings.address.reveal(),
        settings.channel
    );
    let address = Url::parse(&address)
        .map_err(|cause| format!("invalid Matrix room {:?}: {cause}", settings.channel))?;
    let emoji = if event.is_error() { "🚨" } else { "💫" };
    let mut text = format!("{emoji} {}\n{}\n", event.involved.title(), event.message);
    for (key, value) in &event.metadata {
        text.push_str(&format!("- {key}: {value}\n"));
    }
    let body = Fields::new()
        .with("body", text)
        .with("msgtype", "m.text")
        .done()
        .print();
    let request = Request::new(Method::PUT, settings.address.with_text(address.text()));
    Ok(with_token(settings, request.json(body)))
}

/// Zulip.
pub(super) fn zulip(settings: &Settings, event: &Event) -> Result<Box<dyn Exchange>, String> {
    let url = Url::parse(settings.address.reveal()).map_err(|cause| {
        format!(
            "invalid Zulip endpoint URL: {}",
            settings.parse_error(&cause)
        )
    })?;
    let url = url.with_path("/api/v1/messages".to_owned());
    let channel = &settings.channel;
    let Some((stream, topic)) = channel
        .split_once('/')
        .filter(|(stream, topic)| !stream.is_empty() && !topic.is_empty())
    else {
        return Err(format!(
            "invalid Zulip channel format, expected <channel>/<topic>, got '{channel}'"
        ));
    };
    let body = query(&[
        ("type", "stream"),
        ("to", stream),
        ("topic", topic),
        ("content", &markdown(event)),
    ]);
    let request = Request::new(Method::POST, settings.address.with_text(url.text()))
        .body("application/x-www-form-urlencoded", body.into_bytes());
    let (user, password) = (&settings.username, settings.password.reveal());
    if user.is_empty() && password.is_empty() {
        return Ok(Box::new(Webhook::new("", request)));
    }
    Ok(match super::basic(request.clone(), user, password) {
        Ok(request) => Box::new(Webhook::new("", request)),
        Err(why) => Box::new(unsendable("", &request, &why)),
    })
}

/// The event in Markdown.
pub(crate) fn markdown(event: &Event) -> String {
    let emoji = if event.is_error() { "⚠️" } else { "ℹ️" };
    let path = event.involved.path();
    let mut text = format!(
        "## Flux Status\n\n{emoji} {path}\n\n{}\n\nMetadata:\n",
        event.message
    );
    for (key, value) in event
        .metadata
        .iter()
        .filter(|(key, _)| *key != CHANGE_REQUEST)
    {
        text.push_str(&format!("* `{key}`: {value}\n"));
    }
    text
}
