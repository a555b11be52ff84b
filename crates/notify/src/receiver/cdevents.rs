//! CDEvents 0.4: which types there are, and what every event must have.

use everflow_json::Value;
use everflow_time::Timestamp;

use crate::foreign;
use crate::url::Url;

/// The events, by subject and what happened to it.
const TYPES: [(&str, &[&str]); 15] = [
    (
        "artifact",
        &["deleted", "downloaded", "packaged", "published", "signed"],
    ),
    ("branch", &["created", "deleted"]),
    ("build", &["finished", "queued", "started"]),
    (
        "change",
        &["abandoned", "created", "merged", "reviewed", "updated"],
    ),
    ("environment", &["created", "deleted", "modified"]),
    ("incident", &["detected", "reported", "resolved"]),
    ("pipelinerun", &["finished", "queued", "started"]),
    ("repository", &["created", "deleted", "modified"]),
    (
        "service",
        &["deployed", "published", "removed", "rolledback", "upgraded"],
    ),
    ("taskrun", &["finished", "started"]),
    ("testcaserun", &["finished", "queued", "skipped", "started"]),
    ("testoutput", &["published"]),
    ("testsuiterun", &["finished", "queued", "started"]),
    ("ticket", &["closed", "created", "updated"]),
    // Beside them there are custom ones.
    ("", &[]),
];
/// The major version of all of them.
const MAJOR: &str = "0";

/// Checks that a body is a CDEvent of a known type.
pub(super) fn check(body: &[u8]) -> Result<(), String> {
    let event = foreign::read(body)?;
    let context = event.get("context").unwrap_or(&Value::Null);
    for name in ["version", "id", "source"] {
        non_empty(context, "context", name)?;
    }
    uri_reference(context, "context")?;
    let kind = non_empty(context, "context", "type")?;
    let subject_name = known_type(kind)?;
    let timestamp = non_empty(context, "context", "timestamp")?;
    Timestamp::parse(timestamp)
        .ok_or_else(|| format!("context.timestamp {timestamp:?} is no time"))?;
    let subject = event.get("subject").unwrap_or(&Value::Null);
    uri_reference(subject, "subject")?;
    let of = non_empty(subject, "subject", "type")?;
    if subject_name.is_some_and(|name| !name.eq_ignore_ascii_case(of)) {
        return Err(format!(
            "subject.type {of:?} does not belong to the type {kind:?}"
        ));
    }
    match subject.get("content") {
        Some(Value::Object(_)) => Ok(()),
        _ => Err("subject.content is missing".to_owned()),
    }
}

fn non_empty<'v>(value: &'v Value, whole: &str, name: &str) -> Result<&'v str, String> {
    let text = value
        .get(name)
        .and_then(Value::as_str)
        .filter(|text| !text.is_empty());
    text.ok_or_else(|| format!("{whole}.{name} is missing or is no text"))
}

fn uri_reference(value: &Value, whole: &str) -> Result<(), String> {
    match value.get("source") {
        None | Some(Value::Null) => Ok(()),
        Some(Value::String(text)) => Url::parse(text)
            .map(|_| ())
            .map_err(|why| format!("{whole}.source is no reference: {why}")),
        Some(_) => Err(format!("{whole}.source is no text")),
    }
}

/// The subject of a type; none for custom ones.
fn known_type(kind: &str) -> Result<Option<&str>, String> {
    let unknown = || format!("unknown event type {kind}");
    let plain = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase());
    if let Some(rest) = kind.strip_prefix("dev.cdeventsx.") {
        let (tool_and_subject, rest) = rest.split_once('.').ok_or_else(unknown)?;
        let (tool, subject) = tool_and_subject.split_once('-').ok_or_else(unknown)?;
        let predicate = rest.split('.').next().unwrap_or_default();
        return match [tool, subject, predicate].into_iter().all(plain) {
            true => Ok(None),
            false => Err(unknown()),
        };
    }
    let rest = kind.strip_prefix("dev.cdevents.").ok_or_else(unknown)?;
    let mut parts = rest.splitn(3, '.');
    let (subject, predicate, version) = (parts.next(), parts.next(), parts.next());
    let (Some(subject), Some(predicate), Some(version)) = (subject, predicate, version) else {
        return Err(unknown());
    };
    let known = TYPES.iter().find(|(name, _)| *name == subject);
    if !known.is_some_and(|(_, predicates)| predicates.contains(&predicate)) {
        return Err(unknown());
    }
    match version.split('.').next() {
        Some(MAJOR) => Ok(Some(subject)),
        _ => Err(format!(
            "the version of the event type {kind} is not compatible with 0"
        )),
    }
}

#[cfg(test)]
mod tests {
    use everflow_json::json;
    use proptest::prelude::*;

    use super::*;

    fn event(kind: &str, subject: &str) -> Value {
        json!({
            "context": {"version": "0.4.1", "id": "1", "source": "/a", "type": kind, "timestamp": "2023-03-20T14:27:05.3Z"},
            "subject": {"id": "s", "type": subject, "content": {}},
        })
    }

    fn checked(event: &Value) -> Result<(), String> {
        check(event.to_string().as_bytes())
    }

    #[test]
    fn events_of_known_and_custom_types_are_taken() {
        for (kind, subject) in [
            ("dev.cdevents.change.merged.0.2.0", "change"),
            ("dev.cdevents.pipelinerun.started.0.2.0", "pipelineRun"),
            ("dev.cdeventsx.tool-thing.happened.0.1.0", "thing"),
        ] {
            assert_eq!(checked(&event(kind, subject)), Ok(()), "{kind}");
        }
    }

    #[test]
    fn events_of_other_types_or_without_fields_are_refused() {
        for kind in [
            "dev.cdevents.change.merged.9.9.0",
            "dev.cdevents.change.eaten.0.1.0",
            "dev.cdevents.change",
            "other",
            "dev.cdeventsx.thing.happened.0.1.0",
            "dev.cdevents...0",
        ] {
            assert!(checked(&event(kind, "change")).is_err(), "{kind}");
        }
        assert!(checked(&event("dev.cdevents.change.merged.0.2.0", "branch")).is_err());
        for field in [
            "/context/id",
            "/context/timestamp",
            "/subject/content",
            "/subject/type",
        ] {
            let mut event = event("dev.cdevents.change.merged.0.2.0", "change");
            *event.pointer_mut(field).unwrap() = Value::Null;
            assert!(checked(&event).is_err(), "{field}");
        }
    }

    proptest! {
        #[test]
        fn any_body_is_taken_or_refused(body in prop::collection::vec(any::<u8>(), 0..60), kind in "[a-z.-]{0,30}") {
            let _ = check(&body);
            let _ = known_type(&kind);
        }
    }
}
