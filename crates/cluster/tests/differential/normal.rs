//! Answers without what differs from server to server.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::Reply;
use crate::documents::Operation;

/// A difference: its sort, to count it, and the whole story.
pub struct Problem {
    pub sort: String,
    pub text: String,
}

/// What was last seen of each object on both sides.
#[derive(Default)]
pub struct States {
    revisions: BTreeMap<String, (String, String)>,
}

impl States {
    /// The difference between two answers as text.
    pub fn compare(
        &mut self,
        operation: &Operation,
        theirs: &Reply,
        ours: &Reply,
    ) -> Option<Problem> {
        let (wanted, found) = (normal(&theirs.body), normal(&ours.body));
        let kind = operation.object();
        let kind = kind.rsplit('/').nth(1).unwrap_or_default();
        let what = format!("{} {kind} {}", operation.method, operation.content_type);
        if theirs.status != ours.status || wanted != found {
            let at = difference("", &wanted, &found);
            let place = at.split(':').next().unwrap_or_default();
            let place: String = place.chars().filter(|c| !c.is_ascii_digit()).collect();
            let text = format!(
                "{operation}\n  theirs {} {}\n  ours   {} {}\n  at {at}",
                theirs.status,
                short(&wanted),
                ours.status,
                short(&found)
            );
            let sort = format!("{what} {}/{} {place}", theirs.status, ours.status);
            return Some(Problem { sort, text });
        }
        let revision = |reply: &Reply| {
            reply
                .body
                .pointer("/metadata/resourceVersion")
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        let (Some(real), Some(own)) = (revision(theirs), revision(ours)) else {
            return None;
        };
        let before = self
            .revisions
            .insert(operation.object(), (real.clone(), own.clone()));
        let (real_before, own_before) = before?;
        let (real_wrote, own_wrote) = (real != real_before, own != own_before);
        (real_wrote != own_wrote).then(|| Problem {
            sort: format!("{what} wrote {real_wrote}/{own_wrote}"),
            text: format!("{operation}\n  theirs wrote: {real_wrote}, ours wrote: {own_wrote}"),
        })
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(600) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// The body without uids, revisions and times, and with owners and causes in one order.
fn normal(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let fields: Map<String, Value> = map
                .iter()
                .filter(|(key, _)| !matches!(key.as_str(), "uid" | "resourceVersion" | "selfLink"))
                .map(|(key, value)| {
                    let value = match (key.as_str(), value) {
                        ("time" | "creationTimestamp" | "deletionTimestamp", Value::String(_)) => {
                            Value::from("T")
                        }
                        ("managedFields" | "causes", Value::Array(items)) => {
                            let mut items: Vec<Value> = items.iter().map(normal).collect();
                            items.sort_by_key(Value::to_string);
                            Value::Array(items)
                        }
                        _ => normal(value),
                    };
                    (key.clone(), value)
                })
                .collect();
            Value::Object(fields)
        }
        Value::Array(items) => Value::Array(items.iter().map(normal).collect()),
        other => other.clone(),
    }
}

/// The first place where two values differ.
fn difference(path: &str, wanted: &Value, found: &Value) -> String {
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => {
            let keys = wanted.keys().chain(found.keys());
            for key in keys {
                let (left, right) = (wanted.get(key), found.get(key));
                if left != right {
                    let null = &Value::Null;
                    return difference(
                        &format!("{path}.{key}"),
                        left.unwrap_or(null),
                        right.unwrap_or(null),
                    );
                }
            }
            path.to_owned()
        }
        (Value::Array(wanted), Value::Array(found)) if wanted.len() == found.len() => {
            let pairs = wanted.iter().zip(found).enumerate();
            for (index, (left, right)) in pairs {
                if left != right {
                    return difference(&format!("{path}[{index}]"), left, right);
                }
            }
            path.to_owned()
        }
        (wanted, found) => format!("{path}: {wanted} / {found}"),
    }
}
