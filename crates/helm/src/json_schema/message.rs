//! What is wrong with a value, and how helm prints it.

use std::fmt;

use everflow_gotemplate::{Meter, gofmt};
use everflow_json::Value;
use everflow_limits::Exceeded;
use everflow_sprig::cost;

use super::number::{self, Exact};

/// One thing that is wrong, with the things that caused it.
#[derive(Debug, Clone, PartialEq)]
pub struct Violation {
    /// JSON pointer of the value.
    pub(super) location: String,
    pub(super) kind: Box<Kind>,
    pub(super) causes: Vec<Violation>,
    /// What it takes with its causes and as text.
    pub(super) bytes: usize,
}

/// What a value broke.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    /// The root of a report: the schema it speaks of.
    Schema(String),
    Group,
    Reference,
    Not,
    AllOf,
    AnyOf,
    OneOf(Option<(usize, usize)>),
    FalseSchema,
    ReferenceCycle,
    Type {
        got: &'static str,
        want: Vec<String>,
    },
    Enum(Vec<Value>),
    Const(Value),
    Format {
        got: Value,
        want: String,
        cause: String,
    },
    Count {
        keyword: &'static str,
        got: usize,
        want: Exact,
    },
    AdditionalItems(usize),
    Required(Vec<String>),
    Dependency {
        property: String,
        missing: Vec<String>,
    },
    AdditionalProperties(Vec<String>),
    PropertyName(String),
    UniqueItems(usize, usize),
    Contains,
    MinContains {
        matched: Vec<usize>,
        want: Exact,
    },
    MaxContains {
        matched: Vec<usize>,
        want: Exact,
    },
    Pattern {
        got: String,
        want: String,
    },
    Bound {
        keyword: &'static str,
        got: Exact,
        want: Exact,
    },
    Unusable(String),
}

/// Stands where a secret would.
const HIDDEN: &str = "(hidden)";

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.print(f, 0)
    }
}

impl Kind {
    /// What its parts take, and their text.
    pub(super) fn bytes(&self) -> usize {
        let texts = |texts: &[String]| texts.iter().map(|text| 48 + 2 * text.len()).sum();
        match self {
            Kind::Enum(values) => values.iter().map(|value| 2 * cost::of_tree(value)).sum(),
            Kind::Const(value) => 2 * cost::of_tree(value),
            Kind::Format { got, want, cause } => {
                2 * (cost::of_tree(got) + want.len() + cause.len())
            }
            Kind::Required(names) | Kind::AdditionalProperties(names) => texts(names),
            Kind::Dependency { property, missing } => 2 * property.len() + texts(missing),
            Kind::PropertyName(name) => 2 * name.len(),
            Kind::MinContains { matched, .. } | Kind::MaxContains { matched, .. } => {
                32 * matched.len()
            }
            Kind::Pattern { got, want } => 2 * (got.len() + want.len()),
            Kind::Unusable(reason) => 2 * reason.len(),
            _ => 0,
        }
    }
}

impl Violation {
    /// Stands where a validation ends without a result.
    pub(super) fn unknown() -> Self {
        Violation {
            location: String::new(),
            kind: Box::new(Kind::Group),
            causes: Vec::new(),
            bytes: 0,
        }
    }

    /// The report; the meter is charged for it.
    pub(super) fn text(&self, meter: &Meter<'_>) -> Result<String, Exceeded> {
        meter.add_buffer(2 * self.bytes)?;
        Ok(self.to_string())
    }

    /// The report without its first line, which names the schema; the meter is charged for it.
    pub fn lines(&self, meter: &Meter<'_>) -> Result<String, Exceeded> {
        let text = self.text(meter)?;
        Ok(match (&*self.kind, text.split_once('\n')) {
            (Kind::Schema(_), Some((_, rest))) => rest.to_owned(),
            _ => text,
        })
    }

    /// The same without the value, if it shows one that by its name is a secret.
    fn without_secret(&self) -> Option<Kind> {
        let name = self.location.rsplit('/').next()?.to_lowercase();
        let is_secret = ["pass", "secret", "token", "key", "credential"]
            .iter()
            .any(|word| name.contains(word));
        match &*self.kind {
            Kind::Pattern { want, .. } if is_secret => Some(Kind::Pattern {
                got: HIDDEN.to_owned(),
                want: want.clone(),
            }),
            Kind::Format { want, cause, .. } if is_secret => Some(Kind::Format {
                got: Value::String(HIDDEN.into()),
                want: want.clone(),
                cause: cause.clone(),
            }),
            _ => None,
        }
    }

    fn print(&self, f: &mut fmt::Formatter<'_>, indent: usize) -> fmt::Result {
        let mut inner = indent;
        // A reference with one cause says nothing that the cause does not.
        let silent = *self.kind == Kind::Reference && self.causes.len() == 1;
        if !silent {
            if indent > 0 {
                write!(f, "\n{}- ", "  ".repeat(indent - 1))?;
            }
            inner += 1;
            match &*self.kind {
                Kind::Schema(location) => {
                    write!(f, "jsonschema validation failed with {}", quoted(location))?;
                }
                kind => match self.without_secret() {
                    None => write!(f, "at {}: {kind}", quoted(&self.location))?,
                    Some(kind) => write!(f, "at {}: {kind}", quoted(&self.location))?,
                },
            }
        }
        for cause in &self.causes {
            cause.print(f, inner)?;
        }
        Ok(())
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Schema(_) | Kind::Group | Kind::Reference => write!(f, "validation failed"),
            Kind::Not => write!(f, "'not' failed"),
            Kind::AllOf => write!(f, "'allOf' failed"),
            Kind::AnyOf => write!(f, "'anyOf' failed"),
            Kind::OneOf(None) => write!(f, "'oneOf' failed, none matched"),
            Kind::OneOf(Some((first, second))) => {
                write!(f, "'oneOf' failed, subschemas {first}, {second} matched")
            }
            Kind::FalseSchema => write!(f, "false schema"),
            Kind::ReferenceCycle => write!(f, "the schema refers to itself without end"),
            Kind::Type { got, want } => write!(f, "got {got}, want {}", want.join(" or ")),
            Kind::Enum(wanted) => print_enum(f, wanted),
            Kind::Const(Value::Array(_) | Value::Object(_)) => write!(f, "'const' failed"),
            Kind::Const(wanted) => write!(f, "value must be {}", shown(wanted)),
            Kind::Format { got, want, cause } => {
                write!(f, "{} is not valid {want}: {cause}", shown(got))
            }
            Kind::Count { keyword, got, want } => write!(f, "{keyword}: got {got}, want {want}"),
            Kind::AdditionalItems(count) => {
                write!(f, "last {count} additionalItem(s) not allowed")
            }
            Kind::Required(missing) => match missing.as_slice() {
                [one] => write!(f, "missing property {}", quoted(one)),
                many => write!(f, "missing properties {}", all_quoted(many)),
            },
            Kind::Dependency { property, missing } => write!(
                f,
                "properties {} required, if {} exists",
                all_quoted(missing),
                quoted(property)
            ),
            Kind::AdditionalProperties(names) => {
                write!(f, "additional properties {} not allowed", all_quoted(names))
            }
            Kind::PropertyName(name) => write!(f, "invalid propertyName {}", quoted(name)),
            Kind::UniqueItems(first, second) => {
                write!(f, "items at {first} and {second} are equal")
            }
            Kind::Contains => write!(f, "no items match contains schema"),
            Kind::MinContains { matched, want } if matched.is_empty() => write!(
                f,
                "min {want} items required to match contains schema, but none matched"
            ),
            Kind::MinContains { matched, want } => print_contains(f, "min", matched, want),
            Kind::MaxContains { matched, want } => print_contains(f, "max", matched, want),
            Kind::Pattern { got, want } => {
                write!(f, "{} does not match pattern {}", quoted(got), quoted(want))
            }
            Kind::Bound { keyword, got, want } => write!(f, "{keyword}: got {got}, want {want}"),
            Kind::Unusable(reason) => f.write_str(reason),
        }
    }
}

fn print_enum(f: &mut fmt::Formatter<'_>, wanted: &[Value]) -> fmt::Result {
    if wanted
        .iter()
        .any(|value| value.is_array() || value.is_object())
    {
        return write!(f, "'enum' failed");
    }
    match wanted {
        [one] => write!(f, "value must be {}", shown(one)),
        many => {
            let all: Vec<String> = many.iter().map(shown).collect();
            write!(f, "value must be one of {}", all.join(", "))
        }
    }
}

fn print_contains(
    f: &mut fmt::Formatter<'_>,
    which: &str,
    matched: &[usize],
    want: &Exact,
) -> fmt::Result {
    let places: Vec<String> = matched.iter().map(ToString::to_string).collect();
    write!(
        f,
        "{which} {want} items required to match contains schema, but matched {} items at {}",
        matched.len(),
        places.join(" ")
    )
}

/// A value in a message: strings in single quotes, collections not at all.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(found) => number::plain(found),
        Value::String(text) => quoted(text),
        Value::Array(_) | Value::Object(_) => "value".to_owned(),
    }
}

/// Go's quoting with single quotes around it.
pub(super) fn quoted(text: &str) -> String {
    let quoted = gofmt::quote(text.as_bytes())
        .replace("\\\"", "\"")
        .replace('\'', "\\'");
    let inner = quoted
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
        .unwrap_or(&quoted);
    format!("'{inner}'")
}

fn all_quoted(names: &[String]) -> String {
    let all: Vec<String> = names.iter().map(|name| quoted(name)).collect();
    all.join(", ")
}
