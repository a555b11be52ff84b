//! Trees as the Go values they were read into, printed by go-yaml v2.

use super::emitter::{Emitter, Event, EventComments, Profile, Properties};
use super::key_order::{key_less, sort};
use super::value::string_style;
use crate::gojson::push_shortest_f64;
use crate::{Dialect, Mapping, Node, Scalar, ScalarKind, Style, Value};
use std::cmp::Ordering;
use std::fmt::Write;

/// Prints a tree that was loaded under the `Sigs` dialect.
pub(super) fn dump(node: &Node) -> String {
    let mut walker = Walker {
        emitter: Emitter::new(Profile::V2),
        number: String::new(),
        open: Vec::new(),
    };
    walker.emitter.start_document("");
    walker.node(node);
    while let Some(innermost) = walker.open.last_mut() {
        match innermost {
            Open::Sequence(items) => match items.next() {
                Some(item) => walker.node(item),
                None => walker.close(Event::SequenceEnd),
            },
            Open::Mapping { entries, value } => {
                if let Some(value) = value.take() {
                    walker.node(value);
                } else if let Some((key, next)) = entries.next() {
                    *value = Some(next);
                    walker.node(key);
                } else {
                    walker.close(Event::MappingEnd);
                }
            }
        }
    }
    walker.emitter.end_document("");
    walker.emitter.out
}

/// A collection that is being printed. An own stack keeps deep trees off the call stack.
enum Open<'a> {
    Sequence(std::slice::Iter<'a, Node>),
    Mapping {
        entries: std::vec::IntoIter<(&'a Node, &'a Node)>,
        value: Option<&'a Node>,
    },
}

struct Walker<'a> {
    emitter: Emitter<'a>,
    /// A number's text, kept to save allocations.
    number: String,
    open: Vec<Open<'a>>,
}

impl<'a> Walker<'a> {
    fn node(&mut self, node: &'a Node) {
        match &node.value {
            Value::Scalar(scalar) => self.scalar(scalar),
            Value::Alias(name) => self.emit(Event::Alias(name)),
            Value::Sequence(items) => {
                self.emit(Event::SequenceStart {
                    flow: false,
                    empty: items.is_empty(),
                    properties: Properties::default(),
                });
                self.open.push(Open::Sequence(items.iter()));
            }
            Value::Mapping(mapping) => {
                self.emit(Event::MappingStart {
                    flow: false,
                    empty: mapping.is_empty(),
                    properties: Properties::default(),
                });
                self.open.push(Open::Mapping {
                    entries: sorted_entries(mapping).into_iter(),
                    value: None,
                });
            }
        }
    }

    fn scalar(&mut self, scalar: &Scalar) {
        let mut number = std::mem::take(&mut self.number);
        number.clear();
        let (text, style) = match scalar.kind {
            ScalarKind::Null => ("null", Style::Plain),
            ScalarKind::Bool(true) => ("true", Style::Plain),
            ScalarKind::Bool(false) => ("false", Style::Plain),
            // Writing to a String cannot fail.
            ScalarKind::Int(int) => {
                let _ = write!(number, "{int}");
                (number.as_str(), Style::Plain)
            }
            ScalarKind::Uint(int) => {
                let _ = write!(number, "{int}");
                (number.as_str(), Style::Plain)
            }
            ScalarKind::Float(float) if float.is_nan() => (".nan", Style::Plain),
            ScalarKind::Float(f64::INFINITY) => (".inf", Style::Plain),
            ScalarKind::Float(f64::NEG_INFINITY) => ("-.inf", Style::Plain),
            ScalarKind::Float(float) => {
                push_shortest_f64(&mut number, float);
                (number.as_str(), Style::Plain)
            }
            ScalarKind::String | ScalarKind::Timestamp | ScalarKind::Binary | ScalarKind::Merge => {
                let text = scalar.text.as_str();
                (text, string_style(text, Dialect::Sigs))
            }
        };
        let event = Event::Scalar {
            text,
            style,
            properties: Properties::default(),
        };
        self.emitter.emit(event, EventComments::default());
        self.number = number;
    }

    fn close(&mut self, end: Event<'_>) {
        self.open.pop();
        self.emit(end);
    }

    fn emit(&mut self, event: Event<'_>) {
        self.emitter.emit(event, EventComments::default());
    }
}

/// The entries of a Go map in printing order; of equal keys the last counts.
fn sorted_entries(mapping: &Mapping) -> Vec<(&Node, &Node)> {
    let mut entries: Vec<(&Node, &Node)> = mapping
        .entries
        .iter()
        .map(|entry| (&entry.key, &entry.value))
        .collect();
    entries.sort_by(|(a, _), (b, _)| byte_order(a, b));
    entries.dedup_by(|(later, value), (earlier, kept)| {
        let same = byte_order(earlier, later) == Ordering::Equal;
        if same {
            *kept = *value;
        }
        same
    });
    sort(&mut entries, |(a, _), (b, _)| less(a, b));
    entries
}

/// A fixed order to start from, equal only for keys that are equal in Go.
fn byte_order(a: &Node, b: &Node) -> Ordering {
    let (a, b) = (GoKey::new(a), GoKey::new(b));
    a.kind
        .cmp(&b.kind)
        .then_with(|| match (a.number, b.number) {
            (Some(a), Some(b)) => a.total_cmp(&b),
            _ => a.text.cmp(b.text),
        })
}

/// go-yaml's order: numbers and booleans by value, then by Go kind; strings in natural order.
fn less(a: &Node, b: &Node) -> bool {
    let (a, b) = (GoKey::new(a), GoKey::new(b));
    match (a.number, b.number) {
        (Some(a_number), Some(b_number)) => match a_number.partial_cmp(&b_number) {
            Some(Ordering::Equal) => a.kind < b.kind,
            order => order == Some(Ordering::Less),
        },
        _ if a.kind == GoKind::String && b.kind == GoKind::String => {
            key_less(a.text, b.text, Dialect::Sigs)
        }
        _ => a.kind < b.kind,
    }
}

/// The kinds a key can have, in the order of Go's `reflect` package.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum GoKind {
    Bool,
    Int,
    Uint64,
    Float64,
    Nil,
    Collection,
    String,
}

struct GoKey<'a> {
    kind: GoKind,
    number: Option<f64>,
    text: &'a str,
}

impl<'a> GoKey<'a> {
    // Go compares keys as float64 too.
    fn new(node: &'a Node) -> Self {
        let text = node.as_text().unwrap_or_default();
        let (kind, number) = match &node.value {
            Value::Scalar(scalar) => match scalar.kind {
                ScalarKind::Bool(flag) => (GoKind::Bool, Some(f64::from(flag))),
                ScalarKind::Int(int) => (GoKind::Int, Some(int as f64)),
                ScalarKind::Uint(int) => (GoKind::Uint64, Some(int as f64)),
                ScalarKind::Float(float) => (GoKind::Float64, Some(float)),
                ScalarKind::Null => (GoKind::Nil, None),
                _ => (GoKind::String, None),
            },
            _ => (GoKind::Collection, None),
        };
        GoKey { kind, number, text }
    }
}
