//! Decoded Go values, printed by go-yaml v2.

use super::emitter::Emitter;
use super::event::{Event, EventComments, Profile, Properties};
use super::key_order::{key_less, sort};
use super::value::string_style;
use crate::decode::{GoKey, GoMap, GoValue};
use crate::gojson::push_shortest_f64;
use crate::{Dialect, Style};
use std::cmp::Ordering;

/// Prints what a document was decoded into.
pub(super) fn dump(value: &GoValue) -> String {
    let mut walker = Walker {
        emitter: Emitter::new(Profile::V2),
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
                    walker.key(key);
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
    Sequence(std::slice::Iter<'a, GoValue>),
    Mapping(std::vec::IntoIter<(&'a GoKey, &'a GoValue)>),
}

struct Walker<'a> {
    emitter: Emitter<'a>,
    open: Vec<Open<'a>>,
}

impl<'a> Walker<'a> {
    fn value(&mut self, value: &'a GoValue) {
        match value {
            GoValue::Null => self.plain("null"),
            GoValue::Bool(flag) => self.plain(if *flag { "true" } else { "false" }),
            GoValue::Int(number) => self.plain(&number.to_string()),
            GoValue::Uint(number) => self.plain(&number.to_string()),
            GoValue::Float(number) => self.plain(&float(*number)),
            GoValue::Str(text) => self.scalar(text, string_style(text, Dialect::Sigs)),
            GoValue::Time(time) => self.plain(&time.to_string()),
            GoValue::Seq(items) => {
                self.emit(Event::SequenceStart {
                    flow: false,
                    empty: items.is_empty(),
                    properties: Properties::default(),
                });
                self.open.push(Open::Sequence(items.iter()));
            }
            GoValue::Map(map) => {
                self.emit(Event::MappingStart {
                    flow: false,
                    empty: map.entries.is_empty(),
                    properties: Properties::default(),
                });
                self.open
                    .push(Open::Mapping(sorted_entries(map).into_iter()));
            }
        }
    }

    fn key(&mut self, key: &GoKey) {
        match key {
            GoKey::Null => self.plain("null"),
            GoKey::Bool(flag) => self.plain(if *flag { "true" } else { "false" }),
            GoKey::Int(number) => self.plain(&number.to_string()),
            GoKey::Uint(number) => self.plain(&number.to_string()),
            GoKey::Float(number) => self.plain(&float(*number)),
            GoKey::Str(text) => self.scalar(text, string_style(text, Dialect::Sigs)),
            GoKey::Time(time) => self.plain(&time.to_string()),
        }
    }

    fn plain(&mut self, text: &str) {
        self.scalar(text, Style::Plain);
    }

    fn scalar(&mut self, text: &str, style: Style) {
        self.emit(Event::Scalar {
            text,
            style,
            properties: Properties::default(),
        });
    }

    fn close(&mut self, end: Event<'_>) {
        self.open.pop();
        self.emit(end);
    }

    fn emit(&mut self, event: Event<'_>) {
        self.emitter.emit(event, EventComments::default());
    }
}

fn float(number: f64) -> String {
    let mut out = String::new();
    match number {
        f64::INFINITY => out.push_str(".inf"),
        f64::NEG_INFINITY => out.push_str("-.inf"),
        _ if number.is_nan() => out.push_str(".nan"),
        _ => push_shortest_f64(&mut out, number),
    }
    out
}

fn sorted_entries(map: &GoMap) -> Vec<(&GoKey, &GoValue)> {
    let mut entries: Vec<_> = map.entries.iter().collect();
    sort(&mut entries, |(a, _), (b, _)| less(a, b));
    entries
}

/// go-yaml's order: numbers and booleans by value, then by Go kind; strings in natural order.
fn less(a: &GoKey, b: &GoKey) -> bool {
    if let (GoKey::Str(a), GoKey::Str(b)) = (a, b) {
        return key_less(a, b, Dialect::Sigs);
    }
    match (number(a), number(b)) {
        (Some(a_number), Some(b_number)) => match a_number.partial_cmp(&b_number) {
            Some(Ordering::Equal) if kind(a) == kind(b) => a < b,
            Some(Ordering::Equal) => kind(a) < kind(b),
            order => order == Some(Ordering::Less),
        },
        _ => kind(a) < kind(b),
    }
}

/// Go compares keys as float64, too.
fn number(key: &GoKey) -> Option<f64> {
    match key {
        GoKey::Bool(flag) => Some(f64::from(*flag)),
        GoKey::Int(number) => Some(*number as f64),
        GoKey::Uint(number) => Some(*number as f64),
        GoKey::Float(number) => Some(*number),
        GoKey::Null | GoKey::Str(_) | GoKey::Time(_) => None,
    }
}

/// The place of a key's kind in Go's `reflect` package.
fn kind(key: &GoKey) -> u8 {
    match key {
        GoKey::Bool(_) => 1,
        GoKey::Int(_) => 2,
        GoKey::Uint(_) => 11,
        GoKey::Float(_) => 14,
        GoKey::Null => 20,
        GoKey::Str(_) => 24,
        GoKey::Time(_) => 25,
    }
}
