//! Slack, and those who take the messages of Slack: Discord and Rocket.Chat.

use super::settings::Settings;
use super::webhook::{Webhook, unsendable};
use crate::Event;
use crate::exchange::{Answer, Exchange, Request};
use crate::json::{Fields, Json};

const CONTEXT: &str = "postMessage failed: ";
/// This address answers 200 whatever happened, and says in the body what did.
const API: &str = "https://slack.com/api/chat.postMessage";

struct Message<'m> {
    channel: &'m str,
    username: &'m str,
    fallback: String,
    colors: [&'static str; 2],
}

impl Message<'_> {
    fn print(&self, event: &Event) -> String {
        let fields = event.metadata.iter().map(|(title, value)| {
            Fields::new()
                .with("title", title)
                .with("value", value)
                .with("short", false)
                .done()
        });
        let attachment = Fields::new()
            .with("fallback", &self.fallback)
            .with("color", self.colors[usize::from(event.is_error())])
            .with("author_name", event.involved.title())
            .with("text", &event.message)
            .with("mrkdwn_in", vec![Json::from("text")])
            .with("fields", fields.collect::<Vec<_>>());
        Fields::new()
            .with("channel", self.channel)
            .with("username", self.username)
            .with("icon_url", "")
            .with("icon_emoji", "")
            .with("attachments", vec![attachment.done()])
            .done()
            .print()
    }
}

const SLACK_COLORS: [&str; 2] = ["good", "danger"];

fn username<'m>(settings: &'m Settings, event: &'m Event) -> &'m str {
    match settings.username.as_str() {
        "" => &event.reporting_controller,
        username => username,
    }
}

/// Slack, by a webhook or with a token.
pub(super) fn slack(settings: &Settings, event: &Event) -> Result<Box<dyn Exchange>, String> {
    settings.hook("Slack hook")?;
    let first_line = event.message.split('\n').next().unwrap_or_default();
    let message = Message {
        channel: &settings.channel,
        username: username(settings, event),
        fallback: format!("{}: {first_line}", event.involved.title()),
        colors: SLACK_COLORS,
    };
    let mut request = Request::post_json(settings.address.clone(), message.print(event));
    let token = settings.token.reveal();
    if !token.is_empty() {
        request = match super::bearer(request.clone(), token) {
            Ok(request) => request,
            Err(why) => return Ok(Box::new(unsendable(CONTEXT, &request, &why))),
        };
    }
    let webhook = Webhook::new(CONTEXT, request);
    Ok(Box::new(match settings.address.reveal() == API {
        true => webhook.checked_by(is_ok),
        false => webhook,
    }))
}

fn is_ok(answer: &Answer) -> Result<(), String> {
    let body = answer.json();
    if body["ok"].as_bool() == Some(true) {
        return Ok(());
    }
    match body.as_object() {
        Some(_) => {
            let error = body["error"].as_str().unwrap_or_default();
            Err(format!("Slack responded with error: {error}"))
        }
        None => Err(format!(
            "unable to unmarshal response body: {}",
            answer.shown()
        )),
    }
}

/// Discord, which takes Slack's messages at an address of its own.
pub(super) fn discord(settings: &Settings, event: &Event) -> Result<Box<dyn Exchange>, String> {
    let url = settings.hook("Discord hook")?;
    let address = match settings.address.reveal().ends_with("/slack") {
        true => settings.address.clone(),
        false => {
            let path = super::join_path(&url.path, "slack");
            settings.address.with_text(url.with_path(path).text())
        }
    };
    let message = Message {
        channel: "",
        username: username(settings, event),
        fallback: String::new(),
        colors: SLACK_COLORS,
    };
    let request = Request::post_json(address, message.print(event));
    Ok(Box::new(Webhook::new(CONTEXT, request)))
}

/// Rocket.Chat.
pub(super) fn rocket(settings: &Settings, event: &Event) -> Result<Box<dyn Exchange>, String> {
    settings.hook("Rocket hook")?;
    let message = Message {
        channel: &settings.channel,
        username: &settings.username,
        fallback: String::new(),
        colors: ["#0076D7", "#FF0000"],
    };
    let request = Request::post_json(settings.address.clone(), message.print(event));
    Ok(Box::new(Webhook::new(CONTEXT, request)))
}
