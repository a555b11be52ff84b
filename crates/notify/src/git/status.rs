//! The status of a commit: its name, which commit, in which words.

use everflow_api::Object;
use everflow_api::notification::{Alert, Provider};
use everflow_cel::check::Type;
use everflow_cel::{Value as Cel, Variables};
use everflow_json::text;

use crate::cel::Expression;
use crate::metadata::{COMMIT, ORIGIN_REVISION, REVISION};
use crate::provider::as_value;
use crate::{Error, Event};

/// The length of the only hash that Flux takes for a commit.
const SHA1_DIGITS: usize = 40;

/// The name of the status: what the Provider's expression says, or object and Provider.
pub(crate) fn name(
    event: &Event,
    alert: &Object<Alert>,
    provider: &Object<Provider>,
) -> Result<String, Error> {
    let expression = provider
        .spec
        .commit_status_expr
        .as_deref()
        .unwrap_or_default();
    if expression.is_empty() {
        return Ok(default_name(
            event,
            provider.metadata.uid.as_deref().unwrap_or_default(),
        ));
    }
    evaluate(expression, event, alert, provider).map_err(Error::CommitStatus)
}

/// `kind/NAME/ID`, with what stands before the first hyphen of the Provider's unique id.
fn default_name(event: &Event, uid: &str) -> String {
    let id = uid.split('-').next().unwrap_or_default();
    format!("{}/{}/{id}", event.involved.kind, event.involved.name).to_lowercase()
}

fn evaluate(
    text: &str,
    event: &Event,
    alert: &Object<Alert>,
    provider: &Object<Provider>,
) -> Result<String, String> {
    let expression = Expression::new(text, &["event", "alert", "provider"], Some(&Type::String))
        .map_err(|why| format!("failed to compile expression: {why}"))?;
    let event = text::read(event.to_json().as_bytes()).unwrap_or_default();
    let variables = Variables::new()
        .with("event", Cel::from_json(&event))
        .with("alert", Cel::from_json(&alert.to_value()))
        .with("provider", Cel::from_json(&as_value(provider)));
    expression.string(&variables)
}

/// The commit that an event after [`Event::combined`] is about.
pub(crate) fn commit(event: &Event) -> Result<String, String> {
    let named = [COMMIT, ORIGIN_REVISION, REVISION];
    let revision = named.iter().find_map(|key| event.metadata.get(*key));
    let Some(revision) = revision else {
        return Err("missing revision metadata".to_owned());
    };
    let hash = match revision.rsplit_once(':') {
        Some((_, hash)) => hash,
        // As Flux wrote them long ago: BRANCH/HASH.
        None => revision.rsplit('/').next().unwrap_or_default(),
    };
    match hash.len() == SHA1_DIGITS {
        true => Ok(hash.to_owned()),
        false => Err(format!(
            "failed to extract commit hash from '{revision}' revision"
        )),
    }
}

/// What a status says: the words of the reason, in lower case.
pub(crate) fn description(event: &Event) -> String {
    words(&event.reason).join(" ").to_lowercase()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Lower,
    Upper,
    Digit,
    Other,
}

fn class(char: char) -> Class {
    match char {
        _ if char.is_lowercase() => Class::Lower,
        _ if char.is_uppercase() => Class::Upper,
        _ if char.is_numeric() => Class::Digit,
        _ => Class::Other,
    }
}

/// The words of a name in CamelCase; of a run of capitals the last one belongs to the word behind it.
fn words(text: &str) -> Vec<String> {
    let mut runs: Vec<(Class, String)> = Vec::new();
    for char in text.chars() {
        let class = class(char);
        match runs.last_mut() {
            Some((last, run)) if *last == class => run.push(char),
            _ => runs.push((class, char.to_string())),
        }
    }
    for index in 1..runs.len() {
        let (before, after) = runs.split_at_mut(index);
        if let ([.., (Class::Upper, capitals)], [(Class::Lower, word), ..]) = (before, after)
            && let Some(capital) = capitals.pop()
        {
            word.insert(0, capital);
        }
    }
    let runs = runs.into_iter().map(|(_, run)| run);
    runs.filter(|run| !run.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(metadata: &[(&str, &str)]) -> Event {
        Event {
            metadata: metadata
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            ..Event::default()
        }
    }

    const HASH: &str = "5394cb7f48332b2de7c17dd8b8384bbc84b7e738";

    #[test]
    fn revisions_of_all_forms_name_a_commit() {
        for form in [
            "",
            "main/",
            "feature/branch/",
            "main@sha1:",
            "sha1:",
            "HEAD/",
        ] {
            let event = event(&[("revision", &format!("{form}{HASH}"))]);
            assert_eq!(commit(&event).as_deref(), Ok(HASH), "{form}");
        }
        let found = commit(&event(&[("revision", "6.5.0")])).unwrap_err();
        assert_eq!(found, "failed to extract commit hash from '6.5.0' revision");
        assert_eq!(
            commit(&event(&[])).unwrap_err(),
            "missing revision metadata"
        );
    }

    #[test]
    fn the_commit_key_wins_over_the_origin_and_that_over_the_revision() {
        let other = "0".repeat(40);
        let found = commit(&event(&[("originRevision", HASH), ("revision", &other)]));
        assert_eq!(found.as_deref(), Ok(HASH));
        let found = commit(&event(&[("commit", &other), ("originRevision", HASH)]));
        assert_eq!(found.as_deref(), Ok(other.as_str()));
    }

    #[test]
    fn reasons_are_split_into_words() {
        for (reason, words) in [
            ("ReconciliationSucceeded", "reconciliation succeeded"),
            ("OCIPullFailed", "oci pull failed"),
            ("HTTP2Error", "http 2 error"),
            ("lower", "lower"),
            ("a_b", "a _ b"),
            ("", ""),
        ] {
            let event = Event {
                reason: reason.to_owned(),
                ..Event::default()
            };
            assert_eq!(description(&event), words);
        }
    }
}
