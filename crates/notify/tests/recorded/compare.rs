//! What counts as the same.

use everflow_json::{Map, Value};

use crate::symbols::fits;

/// Headers that the client sets, or that say which client it is.
const CLIENT_HEADERS: [&str; 1] = ["user-agent"];

/// Compares recorded requests with ours.
pub fn requests(recorded: &[Value], ours: &[Value], any_order: bool) -> Result<(), String> {
    let mut recorded: Vec<Value> = recorded.iter().map(plain).collect();
    let mut ours: Vec<Value> = ours.to_vec();
    if any_order {
        let key = |request: &Value| format!("{}{}", request["path"], request["body"]);
        recorded.sort_by_key(key);
        ours.sort_by_key(key);
    }
    if recorded.len() != ours.len() {
        let names = |all: &[Value]| -> Vec<String> {
            all.iter()
                .map(|one| format!("{} {}", one["method"], one["path"]))
                .collect()
        };
        return Err(format!(
            "{} requests {:?} instead of {} {:?}",
            ours.len(),
            names(&ours),
            recorded.len(),
            names(&recorded)
        ));
    }
    for (index, (recorded, ours)) in recorded.iter().zip(&ours).enumerate() {
        request(recorded, ours).map_err(|why| format!("request {index}: {why}"))?;
    }
    Ok(())
}

/// A recorded request with the names of headers in lower case, without what tells which client it is.
fn plain(request: &Value) -> Value {
    let mut request = request.clone();
    let headers = request["headers"].as_object().cloned().unwrap_or_default();
    let headers: Map = headers
        .iter()
        .map(|(name, value)| (name.to_ascii_lowercase().into(), value.clone()))
        .filter(|(name, _): &(everflow_json::Text, Value)| !CLIENT_HEADERS.contains(&name.as_str()))
        .collect();
    if let Some(lines) = request.get_mut("envelope").and_then(Value::as_array_mut) {
        for line in lines.iter_mut().filter_map(Value::as_object_mut) {
            line.remove("sdk");
            line.remove("platform");
        }
    }
    if let Some(options) = request.get_mut("options").and_then(Value::as_object_mut) {
        options.remove("lang");
        options.remove("version");
        // It depends on what the server of the recording made up.
        options.remove("sig");
    }
    if request.get("protocol").is_none() {
        request["headers"] = Value::Object(headers);
    }
    request
}

fn request(recorded: &Value, ours: &Value) -> Result<(), String> {
    let sorted = recorded["sorted"].as_str().unwrap_or_default();
    let mut recorded = recorded.as_object().cloned().unwrap_or_default();
    let mut ours = ours.as_object().cloned().unwrap_or_default();
    recorded.remove("sorted");
    // The bytes count where they were recorded, else the content.
    let bytes_count = recorded.contains_key("text");
    for map in [&mut recorded, &mut ours] {
        if bytes_count {
            map.remove("body");
        } else {
            map.remove("text");
        }
    }
    let line = line_mark(sorted);
    let (recorded, ours) = (Value::Object(recorded), Value::Object(ours));
    same(&sort_lines(&recorded, line), &sort_lines(&ours, line), "")
}

/// How lines begin that may stand in any order.
fn line_mark(sorted: &str) -> Option<&'static str> {
    if sorted.starts_with("lines starting with >**") {
        Some(">**")
    } else if sorted.starts_with("lines starting with \\- *") {
        Some("\\- *")
    } else if sorted.starts_with("lines starting with '- '") {
        Some("- ")
    } else if sorted.starts_with("metadata lines") {
        Some("")
    } else {
        None
    }
}

fn sort_lines(value: &Value, mark: Option<&str>) -> Value {
    let Some(mark) = mark else {
        return value.clone();
    };
    match value {
        Value::String(text) if text.contains('\n') => {
            let mut lines: Vec<&str> = text.lines().collect();
            let mut marked: Vec<&str> = lines
                .iter()
                .copied()
                .filter(|line| line.starts_with(mark))
                .collect();
            marked.sort_unstable();
            let mut marked = marked.into_iter();
            for line in lines.iter_mut().filter(|line| line.starts_with(mark)) {
                *line = marked.next().unwrap();
            }
            Value::from(lines.join("\n"))
        }
        Value::Array(items) => Value::Array(
            items
                .iter()
                .map(|item| sort_lines(item, Some(mark)))
                .collect(),
        ),
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(key, value)| (key.clone(), sort_lines(value, Some(mark))))
                .collect(),
        ),
        other => other.clone(),
    }
}

/// Compares trees; recorded texts may hold values of the run.
pub fn same(recorded: &Value, ours: &Value, at: &str) -> Result<(), String> {
    match (recorded, ours) {
        (Value::Object(recorded), Value::Object(ours)) => {
            for key in recorded.keys().chain(ours.keys()) {
                let at = format!("{at}/{key}");
                match (recorded.get(key), ours.get(key)) {
                    (Some(recorded), Some(ours)) => same(recorded, ours, &at)?,
                    (Some(recorded), None) => return Err(format!("{at}: {recorded} is missing")),
                    (_, Some(ours)) => return Err(format!("{at}: {ours} should not be there")),
                    (None, None) => {}
                }
            }
            Ok(())
        }
        (Value::Array(recorded), Value::Array(ours)) if recorded.len() == ours.len() => {
            for (index, (recorded, ours)) in recorded.iter().zip(ours).enumerate() {
                same(recorded, ours, &format!("{at}/{index}"))?;
            }
            Ok(())
        }
        (Value::String(recorded), Value::String(ours)) if fits(recorded, ours) => Ok(()),
        (Value::String(recorded), Value::Number(ours)) if fits(recorded, &ours.to_string()) => {
            Ok(())
        }
        (Value::Number(recorded), Value::Number(ours)) if recorded.as_f64() == ours.as_f64() => {
            Ok(())
        }
        (recorded, ours) if recorded == ours => Ok(()),
        (recorded, ours) => Err(format!("{at}: {ours} instead of {recorded}")),
    }
}

/// Whether a message of ours says what the recorded one does. Flux masks tokens with an expression whose last
/// character may be missing or repeated: the same is done to ours. What we say beyond Flux stands behind it in
/// parentheses.
pub fn message(recorded: &str, ours: &str, token: Option<&str>) -> Result<(), String> {
    let masked = match (ours.split_once(": "), token) {
        (Some((start, rest)), Some(token)) if start.starts_with("failed to send notification") => {
            format!("{start}: {}", mask(rest, token))
        }
        _ => ours.to_owned(),
    };
    let is_longer = masked
        .strip_prefix(recorded)
        .is_some_and(|more| more.starts_with(" ("));
    match fits(recorded, &masked) || is_longer {
        true => Ok(()),
        false => Err(format!("message {masked:?} instead of {recorded:?}")),
    }
}

fn mask(text: &str, token: &str) -> String {
    let mut chars = token.chars();
    let Some(last) = chars.next_back() else {
        return text.to_owned();
    };
    let start = chars.as_str();
    let mut out = String::new();
    let mut rest = text;
    let mut after_match = false;
    loop {
        let found = rest
            .strip_prefix(start)
            .map(|behind| behind.trim_start_matches(last));
        match found {
            Some(behind) if behind.len() < rest.len() || !after_match => {
                out.push_str("*****");
                after_match = behind.len() < rest.len();
                if after_match {
                    rest = behind;
                    continue;
                }
            }
            _ => {}
        }
        after_match = false;
        let Some(char) = rest.chars().next() else {
            return out;
        };
        out.push(char);
        rest = &rest[char.len_utf8()..];
    }
}
