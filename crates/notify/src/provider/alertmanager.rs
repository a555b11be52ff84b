//! Alertmanager.

use std::collections::BTreeMap;

use super::settings::Settings;
use super::webhook::{Webhook, unsendable};
use crate::Event;
use crate::event::ZERO_TIME;
use crate::exchange::{Exchange, Request};
use crate::json::Fields;
use crate::metadata::SUMMARY;

const CONTEXT: &str = "postMessage failed: ";

pub(super) fn alertmanager(
    settings: &Settings,
    event: &Event,
) -> Result<Box<dyn Exchange>, String> {
    settings.hook("Alertmanager")?;
    let mut labels = event.metadata.clone();
    let summary = labels.remove(SUMMARY);
    let mut annotations = BTreeMap::from([("message".to_owned(), event.message.clone())]);
    annotations.extend(summary.map(|summary| (SUMMARY.to_owned(), summary)));
    let object = &event.involved;
    let own = [
        (
            "alertname",
            format!("Flux{}{}", object.kind, in_title_case(&event.reason)),
        ),
        ("severity", event.severity.clone()),
        ("reason", event.reason.clone()),
        ("kind", object.kind.clone()),
        ("name", object.name.clone()),
        ("namespace", object.namespace.clone()),
        ("reportingcontroller", event.reporting_controller.clone()),
    ];
    labels.extend(own.map(|(name, value)| (name.to_owned(), value)));
    let alert = Fields::new()
        .with("status", "firing")
        .with("labels", &labels)
        .with("annotations", &annotations)
        .with("startsAt", event.rfc3339())
        .with("endsAt", ZERO_TIME);
    let body = crate::json::Json::from(vec![alert.done()]).print();
    let request = Request::post_json(settings.address.clone(), body);
    let (user, password) = (&settings.username, settings.password.reveal());
    let token = settings.token.reveal();
    let signed = if !user.is_empty() && !password.is_empty() {
        super::basic(request.clone(), user, password)
    } else if !token.is_empty() {
        super::bearer(request.clone(), token)
    } else {
        Ok(request.clone())
    };
    Ok(match signed {
        Ok(request) => Box::new(Webhook::new(CONTEXT, request)),
        Err(why) => Box::new(unsendable(CONTEXT, &request, &why)),
    })
}

/// Each word with a capital and all else in lower case. An underscore belongs to a word, and so do an apostrophe, a
/// point and a colon between letters.
fn in_title_case(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut in_word = false;
    let chars: Vec<char> = text.chars().collect();
    for (index, &char) in chars.iter().enumerate() {
        if char.is_alphabetic() {
            match in_word {
                true => out.extend(char.to_lowercase()),
                false => out.extend(char.to_uppercase()),
            }
            in_word = true;
            continue;
        }
        out.push(char);
        let joins = "'.:·’".contains(char)
            && chars
                .get(index + 1)
                .is_some_and(|next| next.is_alphabetic());
        in_word &= char.is_alphanumeric() || char == '_' || joins;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::in_title_case;

    #[test]
    fn reasons_are_written_in_title_case() {
        for (text, title) in [
            ("BuildFailed", "Buildfailed"),
            ("lower case two", "Lower Case Two"),
            ("a-b_c", "A-B_c"),
            ("it's", "It's"),
            ("", ""),
        ] {
            assert_eq!(in_title_case(text), title);
        }
    }
}
