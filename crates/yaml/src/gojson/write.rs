//! Whole values.

use super::escape::{HtmlEscape, write_escaped};
use super::float::push_json_f64;
use everflow_json::{Value, map};
use std::fmt::Write;

/// What `json.Marshal` prints: no spaces, keys sorted by bytes, HTML characters escaped.
pub fn to_string(value: &Value) -> String {
    print(value, HtmlEscape::On, None)
}

/// What an encoder prints after `SetEscapeHTML(false)`, without the newline at its end.
pub fn to_string_no_html(value: &Value) -> String {
    print(value, HtmlEscape::Off, None)
}

/// What `json.MarshalIndent` prints with an empty prefix; `kubectl -o json` indents by 4 spaces.
pub fn pretty(value: &Value, indent: &str) -> String {
    print(value, HtmlEscape::On, Some(indent))
}

/// [`pretty`] with HTML characters left alone.
pub fn pretty_no_html(value: &Value, indent: &str) -> String {
    print(value, HtmlEscape::Off, Some(indent))
}

/// A collection that is being printed. An own stack keeps deep trees off the call stack.
enum Open<'a> {
    Array(std::slice::Iter<'a, Value>),
    Object(map::Iter<'a>),
}

struct Printer<'a> {
    out: String,
    html: HtmlEscape,
    indent: Option<&'a str>,
    open: Vec<Open<'a>>,
}

fn print(value: &Value, html: HtmlEscape, indent: Option<&str>) -> String {
    let mut printer = Printer {
        out: String::with_capacity(128),
        html,
        indent,
        open: Vec::new(),
    };
    printer.value(value);
    while let Some(innermost) = printer.open.last_mut() {
        match innermost {
            Open::Array(items) => match items.next() {
                Some(item) => printer.item(None, item),
                None => printer.close(']'),
            },
            Open::Object(fields) => match fields.next() {
                Some((key, field)) => printer.item(Some(key), field),
                None => printer.close('}'),
            },
        }
    }
    printer.out
}

impl<'a> Printer<'a> {
    fn value(&mut self, value: &'a Value) {
        match value {
            Value::Null => self.out.push_str("null"),
            Value::Bool(true) => self.out.push_str("true"),
            Value::Bool(false) => self.out.push_str("false"),
            Value::Number(number) => self.number(number),
            Value::String(text) => write_escaped(&mut self.out, text, self.html),
            Value::Array(items) if items.is_empty() => self.out.push_str("[]"),
            Value::Object(fields) if fields.is_empty() => self.out.push_str("{}"),
            Value::Array(items) => {
                self.out.push('[');
                self.open.push(Open::Array(items.iter()));
            }
            Value::Object(fields) => {
                self.out.push('{');
                self.open.push(Open::Object(fields.iter()));
            }
        }
    }

    fn number(&mut self, number: &everflow_json::Number) {
        match number.as_f64() {
            Some(float) if number.is_f64() => push_json_f64(&mut self.out, float),
            // Writing to a String cannot fail.
            _ => {
                let _ = write!(self.out, "{number}");
            }
        }
    }

    fn item(&mut self, key: Option<&str>, value: &'a Value) {
        // Text always ends in a quote, so a bracket here is the one that was just opened.
        if !self.out.ends_with(['[', '{']) {
            self.out.push(',');
        }
        self.line_break(self.open.len());
        if let Some(key) = key {
            write_escaped(&mut self.out, key, self.html);
            self.out
                .push_str(if self.indent.is_some() { ": " } else { ":" });
        }
        self.value(value);
    }

    fn close(&mut self, bracket: char) {
        self.open.pop();
        self.line_break(self.open.len());
        self.out.push(bracket);
    }

    fn line_break(&mut self, depth: usize) {
        if let Some(indent) = self.indent {
            self.out.push('\n');
            for _ in 0..depth {
                self.out.push_str(indent);
            }
        }
    }
}
