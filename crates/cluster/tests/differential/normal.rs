//! Answers without what differs from server to server.

use std::collections::BTreeMap;

use everflow_json::{Map, Value};

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
            let fields: Map = map
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
                        ("nodePort" | "healthCheckNodePort", Value::Number(number))
                            if number
                                .as_i64()
                                .is_some_and(|port| (30000..=32767).contains(&port)) =>
                        {
                            Value::from("P")
                        }
                        // Which of several wrong entries of a map is found first is a matter of luck.
                        ("message", Value::String(text))
                            if text.contains("illegal base64 data at input byte") =>
                        {
                            Value::from(own_text(
                                text.trim_end_matches(|c: char| c.is_ascii_digit()),
                            ))
                        }
                        // The real server's order is that of a map.
                        ("message", Value::String(text)) if text.contains("errors:\n") => {
                            let mut lines: Vec<&str> = text.lines().collect();
                            lines.sort_unstable();
                            Value::from(own_text(&lines.join("\n")))
                        }
                        _ => normal(value),
                    };
                    (own_text(key), value)
                })
                .collect();
            Value::Object(fields)
        }
        Value::Array(items) => Value::Array(items.iter().map(normal).collect()),
        Value::String(text) => Value::String(own_text(text).into()),
        other => other.clone(),
    }
}

/// A text without uids, addresses of Services and times.
fn own_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text[at..];
        if let Some(length) = uid(rest.as_bytes())
            .or_else(|| address(rest))
            .or_else(|| time(rest.as_bytes()))
        {
            out.push('…');
            at += length;
            continue;
        }
        let inside_number = out.ends_with(|c: char| c.is_ascii_digit());
        if let Some(length) = node_port(rest).filter(|_| !inside_number) {
            out.push('P');
            at += length;
            continue;
        }
        // Messages may hold a whole object with its revision.
        if rest.starts_with("resourceVersion\\\":") || rest.starts_with("resourceVersion\":") {
            let digits = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(0);
            let end = rest[digits..]
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(0);
            out.push_str("resourceVersion…");
            at += digits + end;
            continue;
        }
        let next = rest.chars().next().map_or(1, char::len_utf8);
        out.push_str(&rest[..next]);
        at += next;
    }
    out
}

fn matches(bytes: &[u8], shape: &str) -> Option<usize> {
    let fits = bytes.len() >= shape.len()
        && shape
            .bytes()
            .zip(bytes)
            .all(|(wanted, found)| match wanted {
                b'h' => found.is_ascii_hexdigit(),
                b'0' => found.is_ascii_digit(),
                other => other == *found,
            });
    fits.then_some(shape.len())
}

fn uid(bytes: &[u8]) -> Option<usize> {
    matches(bytes, "hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh")
}

fn time(bytes: &[u8]) -> Option<usize> {
    matches(bytes, "0000-00-00T00:00:00Z")
}

/// A port of the range that node ports are taken from.
fn node_port(text: &str) -> Option<usize> {
    let length = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let number: u32 = text[..length].parse().ok()?;
    (30000..=32767).contains(&number).then_some(length)
}

fn address(text: &str) -> Option<usize> {
    let rest = text.strip_prefix("10.96.")?;
    let length = rest
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(rest.len());
    Some(6 + length)
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
