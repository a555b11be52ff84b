//! Functions on text.

use regex::Regex;

use super::{Outcome, boolean, failed, int, text};
use crate::error::EvalError;
use crate::value::Value;
use crate::work::Work;

pub(super) fn call(name: &str, args: &[Value]) -> Option<Outcome> {
    match (name, args) {
        ("startsWith", [Value::String(value), Value::String(part)]) => {
            boolean(value.starts_with(&**part))
        }
        ("endsWith", [Value::String(value), Value::String(part)]) => {
            boolean(value.ends_with(&**part))
        }
        ("contains", [Value::String(value), Value::String(part)]) => {
            boolean(value.contains(&**part))
        }
        ("lowerAscii", [Value::String(value)]) => text(value.to_ascii_lowercase()),
        ("upperAscii", [Value::String(value)]) => text(value.to_ascii_uppercase()),
        ("trim", [Value::String(value)]) => text(value.trim()),
        ("reverse", [Value::String(value)]) => text(value.chars().rev().collect::<String>()),
        ("charAt", [Value::String(value), Value::Int(index)]) => char_at(value, *index),
        ("indexOf", [Value::String(value), Value::String(part), from @ ..]) => {
            index_of(value, part, from)
        }
        ("lastIndexOf", [Value::String(value), Value::String(part), from @ ..]) => {
            last_index_of(value, part, from)
        }
        (
            "replace",
            [
                Value::String(value),
                Value::String(old),
                Value::String(new),
                limit @ ..,
            ],
        ) => replace(value, old, new, limit),
        ("split", [Value::String(value), Value::String(separator), limit @ ..]) => {
            split(value, separator, limit)
        }
        ("substring", [Value::String(value), Value::Int(start), end @ ..]) => {
            substring(value, *start, end)
        }
        ("join", [Value::List(list), separator @ ..]) => join(&list.items, separator),
        ("strings.quote", [Value::String(value)]) => text(format!("{value:?}")),
        ("format", [Value::String(value), Value::List(list)]) => {
            Some(super::format::format(value, &list.items))
        }
        _ => None,
    }
}

/// Functions that search by patterns.
pub(super) fn search(name: &str, args: &[Value], work: &Work) -> Option<Outcome> {
    let [Value::String(value), Value::String(pattern), limit @ ..] = args else {
        return None;
    };
    let search: fn(&Regex, &str, usize) -> Value = match (name, limit) {
        ("matches", []) => |regex, value, _| Value::Bool(regex.is_match(value)),
        ("find", []) => {
            |regex, value, _| Value::string(regex.find(value).map_or("", |found| found.as_str()))
        }
        ("findAll", _) => |regex, value, limit| {
            let found = regex.find_iter(value).take(limit);
            Value::list(found.map(|found| Value::string(found.as_str())).collect())
        },
        _ => return None,
    };
    let limit = usize::try_from(limit_of(limit)?).unwrap_or(usize::MAX);
    let pattern = work.pattern(pattern, value.len());
    Some(pattern.map(|pattern| search(&pattern.regex, value, limit)))
}

fn limit_of(limit: &[Value]) -> Option<i64> {
    match limit {
        [] => Some(-1),
        [Value::Int(limit)] => Some(*limit),
        _ => None,
    }
}

fn char_at(value: &str, index: i64) -> Option<Outcome> {
    let length = value.chars().count() as i64;
    if index < 0 || index > length {
        return failed(format!("index out of range: {index}"));
    }
    let character = usize::try_from(index)
        .ok()
        .and_then(|i| value.chars().nth(i));
    text(character.map(String::from).unwrap_or_default())
}

fn characters_before(value: &str, byte: usize) -> i64 {
    value[..byte].chars().count() as i64
}

/// The byte where a character begins; the end counts.
fn byte_of(value: &str, character: i64) -> Option<usize> {
    let character = usize::try_from(character).ok()?;
    value
        .char_indices()
        .map(|(byte, _)| byte)
        .chain(std::iter::once(value.len()))
        .nth(character)
}

/// Where to look from: the start or what is given. Behind the end nothing is found.
fn search_from(from: &[Value], length: i64) -> Option<Result<Option<i64>, EvalError>> {
    Some(match from {
        [] => Ok(None),
        [Value::Int(from)] if *from < 0 => {
            Err(EvalError::other(format!("index out of range: {from}")))
        }
        [Value::Int(from)] => Ok(Some((*from).min(length))),
        _ => return None,
    })
}

fn index_of(value: &str, part: &str, from: &[Value]) -> Option<Outcome> {
    if let ("", [Value::Int(from)]) = (part, from) {
        return int(*from);
    }
    let length = value.chars().count() as i64;
    let from = match search_from(from, length)? {
        Ok(from) => from.unwrap_or(0),
        Err(error) => return Some(Err(error)),
    };
    let start = byte_of(value, from).unwrap_or(value.len());
    int(value[start..]
        .find(part)
        .map_or(-1, |found| characters_before(value, start + found)))
}

fn last_index_of(value: &str, part: &str, from: &[Value]) -> Option<Outcome> {
    if let ("", [Value::Int(from)]) = (part, from) {
        return int(*from);
    }
    let length = value.chars().count() as i64;
    let end = match search_from(from, length)? {
        Err(error) => return Some(Err(error)),
        Ok(None) => value.len(),
        Ok(Some(from)) if from == length => return int(-1),
        Ok(Some(from)) => {
            let last = from + part.chars().count() as i64;
            byte_of(value, last).unwrap_or(value.len())
        }
    };
    int(value[..end]
        .rfind(part)
        .map_or(-1, |found| characters_before(value, found)))
}

fn replace(value: &str, old: &str, new: &str, limit: &[Value]) -> Option<Outcome> {
    let limit = usize::try_from(limit_of(limit)?).unwrap_or(usize::MAX);
    text(value.replacen(old, new, limit))
}

fn split(value: &str, separator: &str, limit: &[Value]) -> Option<Outcome> {
    let limit = limit_of(limit)?;
    let parts: Vec<Value> = match (limit, separator) {
        (0, _) => Vec::new(),
        (limit, "") => {
            let most = usize::try_from(limit).unwrap_or(usize::MAX);
            let mut parts: Vec<Value> = Vec::new();
            let mut rest = value;
            while let Some(character) = rest.chars().next() {
                if parts.len() + 1 == most {
                    parts.push(Value::string(rest));
                    break;
                }
                let (first, after) = rest.split_at(character.len_utf8());
                parts.push(Value::string(first));
                rest = after;
            }
            parts
        }
        (limit, separator) => match usize::try_from(limit) {
            Ok(limit) => value.splitn(limit, separator).map(Value::string).collect(),
            Err(_) => value.split(separator).map(Value::string).collect(),
        },
    };
    Some(Ok(Value::list(parts)))
}

fn substring(value: &str, start: i64, end: &[Value]) -> Option<Outcome> {
    let length = value.chars().count() as i64;
    if end.is_empty() && (start < 0 || start > length) {
        return failed(format!("index out of range: {start}"));
    }
    let end = match end {
        [] => length,
        [Value::Int(end)] => *end,
        _ => return None,
    };
    if start > end {
        return failed(format!(
            "invalid substring range. start: {start}, end: {end}"
        ));
    }
    match (byte_of(value, start), byte_of(value, end)) {
        (Some(from), Some(to)) => text(&value[from..to]),
        (None, _) => failed(format!("index out of range: {start}")),
        (_, None) => failed(format!("index out of range: {end}")),
    }
}

fn join(items: &[Value], separator: &[Value]) -> Option<Outcome> {
    let separator = match separator {
        [] => "",
        [Value::String(separator)] => separator,
        _ => return None,
    };
    let mut parts = Vec::with_capacity(items.len());
    for item in items {
        match item {
            Value::String(part) => parts.push(&**part),
            Value::Null => return failed("join: invalid input: 0"),
            _ => return Some(Err(EvalError::NoSuchOverload)),
        }
    }
    text(parts.join(separator))
}
