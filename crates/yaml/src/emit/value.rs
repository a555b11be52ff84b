//! Plain JSON values.

use super::emitter::Emitter;
use super::event::{Event, EventComments, Profile, Properties};
use super::implicit::{is_old_bool, is_sexagesimal, reads_as_string};
use super::key_order::sort_by_key;
use crate::gojson::{push_json_f64, push_shortest_f64};
use crate::{Dialect, Style};
use everflow_json::{Map, Number, Value};
use std::borrow::Cow;
use std::fmt::Write;

/// How a printer treats what Go's types decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The value went through JSON text first, as in `sigs.k8s.io/yaml`.
    JsonText,
    /// The value went to the YAML library as it is.
    GoValue,
    /// The value became a list of pairs (`JSONObjectToYAMLObject`), sorted by the bytes of the keys.
    SortedPairs,
}

/// Prints a value under a library's rules.
pub(super) fn dump(value: &Value, dialect: Dialect, source: Source, profile: Profile) -> String {
    let mut walker = Walker {
        emitter: Emitter::new(profile),
        dialect,
        source,
        number: String::new(),
        open: Vec::new(),
    };
    walker.emitter.start_document("");
    walker.value(value);
    while let Some(innermost) = walker.open.last_mut() {
        match innermost {
            Open::Sequence(items) => match items.next() {
                Some(item) => walker.value(item),
                None => walker.close(Event::SequenceEnd),
            },
            Open::Mapping(entries) => match entries.next() {
                Some((key, value)) => {
                    walker.string(key);
                    walker.value(value);
                }
                None => walker.close(Event::MappingEnd),
            },
        }
    }
    walker.emitter.end_document("");
    walker.emitter.out
}

/// A collection that is being printed. An own stack keeps deep trees off the call stack.
enum Open<'a> {
    Sequence(std::slice::Iter<'a, Value>),
    Mapping(std::vec::IntoIter<(&'a everflow_json::Text, &'a Value)>),
}

struct Walker<'a> {
    emitter: Emitter<'a>,
    dialect: Dialect,
    source: Source,
    /// A number's text, kept to save allocations.
    number: String,
    open: Vec<Open<'a>>,
}

impl<'a> Walker<'a> {
    fn value(&mut self, value: &'a Value) {
        match value {
            Value::Null => self.plain("null"),
            Value::Bool(true) => self.plain("true"),
            Value::Bool(false) => self.plain("false"),
            Value::Number(number) => {
                let mut text = std::mem::take(&mut self.number);
                text.clear();
                push_number(&mut text, number, self.source);
                self.plain(&text);
                self.number = text;
            }
            Value::String(text) => self.string(text),
            Value::Array(items) => {
                self.emit(Event::SequenceStart {
                    flow: false,
                    empty: items.is_empty(),
                    properties: Properties::default(),
                });
                self.open.push(Open::Sequence(items.iter()));
            }
            Value::Object(fields) => {
                self.emit(Event::MappingStart {
                    flow: false,
                    empty: fields.is_empty(),
                    properties: Properties::default(),
                });
                let entries = match self.source {
                    // A map of JSON has its keys in this order.
                    Source::SortedPairs => fields.iter().collect(),
                    _ => sorted_entries(fields, self.dialect),
                };
                self.open.push(Open::Mapping(entries.into_iter()));
            }
        }
    }

    fn close(&mut self, end: Event<'_>) {
        self.open.pop();
        self.emit(end);
    }

    fn plain(&mut self, text: &str) {
        self.scalar(text, Style::Plain);
    }

    fn string(&mut self, text: &str) {
        let text = match self.source {
            Source::JsonText => fold_next_lines(text),
            Source::GoValue | Source::SortedPairs => Cow::Borrowed(text),
        };
        let style = string_style(&text, self.dialect);
        self.scalar(&text, style);
    }

    fn scalar(&mut self, text: &str, style: Style) {
        self.emit(Event::Scalar {
            text,
            style,
            properties: Properties::default(),
        });
    }

    fn emit(&mut self, event: Event<'_>) {
        self.emitter.emit(event, EventComments::default());
    }
}

fn sorted_entries(fields: &Map, dialect: Dialect) -> Vec<(&everflow_json::Text, &Value)> {
    let mut entries: Vec<_> = fields.iter().collect();
    sort_by_key(&mut entries, dialect, |(key, _)| key);
    entries
}

/// The style both encoders ask for when they print a Go string.
pub(super) fn string_style(text: &str, dialect: Dialect) -> Style {
    if text.contains('\n') {
        Style::Literal
    } else if reads_as_string(text, dialect)
        && !is_sexagesimal(text)
        && !(dialect == Dialect::Kyaml && is_old_bool(text))
    {
        Style::Plain
    } else {
        Style::DoubleQuoted
    }
}

/// Appends a number. Through JSON text `1e6` is first printed as `1000000` and then read as an
/// integer; without it, floats keep `strconv`'s shortest form.
fn push_number(out: &mut String, number: &Number, source: Source) {
    let Some(float) = number.as_f64().filter(|_| number.is_f64()) else {
        // Writing to a String cannot fail.
        let _ = write!(out, "{number}");
        return;
    };
    match source {
        Source::JsonText | Source::SortedPairs => push_float(out, float),
        Source::GoValue => push_shortest_f64(out, float),
    }
}

/// Writes a float into an empty text as it looks after JSON.
pub(super) fn push_float(out: &mut String, float: f64) {
    push_json_f64(out, float);
    if out == "-0" {
        out.remove(0);
    }
    if out.parse::<i64>().is_ok() || out.parse::<u64>().is_ok() {
        return;
    }
    out.clear();
    push_shortest_f64(out, float);
}

/// Go's JSON leaves U+0085 as it is, and the YAML reader then takes it for a line break inside
/// quotes: the blanks around it go, one break becomes a space and more become newlines.
fn fold_next_lines(text: &str) -> Cow<'_, str> {
    const NEXT_LINE: char = '\u{85}';
    if !text.contains(NEXT_LINE) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find([' ', NEXT_LINE]) {
        out.push_str(&rest[..start]);
        let run = &rest[start..];
        let end = run
            .find(|char| char != ' ' && char != NEXT_LINE)
            .unwrap_or(run.len());
        match run[..end].matches(NEXT_LINE).count() {
            0 => out.push_str(&run[..end]),
            1 => out.push(' '),
            breaks => out.extend(std::iter::repeat_n('\n', breaks - 1)),
        }
        rest = &run[end..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}
