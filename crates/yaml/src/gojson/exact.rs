//! JSON text printed anew with its numbers as they were written.

use super::error::JsonError;
use super::escape::{HtmlEscape, write_escaped};
use super::parse::{check_form, unquote};
use super::scan::{Scanner, Token};
use std::collections::BTreeMap;

/// A collection that is not complete yet; what is complete is kept as text.
enum Open {
    Array(Vec<String>),
    Object {
        fields: BTreeMap<String, String>,
        key: Option<String>,
    },
}

/// Decodes with `UseNumber` and prints again: compact, keys sorted, every number as it was written.
pub fn canonical(text: &[u8]) -> Result<String, JsonError> {
    check_form(text)?;
    let mut scanner = Scanner::new(text);
    let mut open: Vec<Open> = Vec::new();
    let mut root = String::new();
    while let Some(token) = scanner.next()? {
        let value = match token {
            Token::Colon | Token::Comma => continue,
            Token::ArrayStart => {
                open.push(Open::Array(Vec::new()));
                continue;
            }
            Token::ObjectStart => {
                open.push(Open::Object {
                    fields: BTreeMap::new(),
                    key: None,
                });
                continue;
            }
            Token::ArrayEnd | Token::ObjectEnd => open.pop().map(close).unwrap_or_default(),
            Token::String(quoted) => {
                let text = unquote(quoted);
                if let Some(Open::Object {
                    key: key @ None, ..
                }) = open.last_mut()
                {
                    *key = Some(text);
                    continue;
                }
                quote(&text)
            }
            Token::Number(digits) => String::from_utf8_lossy(digits).into_owned(),
            Token::True => "true".to_owned(),
            Token::False => "false".to_owned(),
            Token::Null => "null".to_owned(),
        };
        match open.last_mut() {
            None => root = value,
            Some(Open::Array(items)) => items.push(value),
            Some(Open::Object { fields, key }) => {
                fields.insert(key.take().unwrap_or_default(), value);
            }
        }
    }
    Ok(root)
}

fn close(collection: Open) -> String {
    match collection {
        Open::Array(items) => format!("[{}]", items.join(",")),
        Open::Object { fields, .. } => {
            let fields: Vec<String> = fields
                .iter()
                .map(|(key, value)| format!("{}:{value}", quote(key)))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
    }
}

fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    write_escaped(&mut out, text, HtmlEscape::On);
    out
}
