//! Any webhook: the event itself, with a signature over it if there is a key, and repository dispatch on GitHub.

use ring::hmac;

use super::settings::Settings;
use super::webhook::{Webhook, unsendable};
use crate::Event;
use crate::exchange::{Exchange, Request};

const CONTEXT: &str = "postMessage failed: ";

/// The event as JSON.
pub(super) fn forward(settings: &Settings, event: &Event) -> Result<Box<dyn Exchange>, String> {
    check(settings)?;
    Ok(post(settings, event, None))
}

/// The event as JSON, signed with the token.
pub(super) fn forward_signed(
    settings: &Settings,
    event: &Event,
) -> Result<Box<dyn Exchange>, String> {
    check(settings)?;
    let key = settings.token.reveal().as_bytes();
    if key.is_empty() {
        return Err("HMAC key is empty".to_owned());
    }
    Ok(post(settings, event, Some(key)))
}

fn check(settings: &Settings) -> Result<(), String> {
    let read = crate::url::Url::parse_request_uri(settings.address.reveal());
    read.map(|_| ()).map_err(|cause| {
        let why = settings.parse_error(&cause);
        format!("invalid hook URL {}: {why}", settings.address)
    })
}

fn post(settings: &Settings, event: &Event, key: Option<&[u8]>) -> Box<dyn Exchange> {
    let body = event.to_json();
    let signature = key.map(|key| {
        let key = hmac::Key::new(hmac::HMAC_SHA256, key);
        format!(
            "sha256={}",
            super::hex(hmac::sign(&key, body.as_bytes()).as_ref())
        )
    });
    let mut headers = vec![("gotk-component", event.reporting_controller.as_str())];
    let own = settings.headers.reveal();
    headers.extend(
        own.iter()
            .map(|(name, value)| (name.as_str(), value.as_str())),
    );
    headers.extend(
        signature
            .as_deref()
            .map(|signature| ("x-signature", signature)),
    );
    let mut request = Request::post_json(settings.address.clone(), body);
    for (name, value) in headers {
        request = match request.clone().secret_header(name, value) {
            Ok(request) => request,
            Err(why) => return Box::new(unsendable(CONTEXT, &request, &why)),
        };
    }
    Box::new(Webhook::new(CONTEXT, request))
}
