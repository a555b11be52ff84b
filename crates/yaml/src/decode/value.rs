//! Go's plain values.

use super::text::{format_float, format_float_g32, go_quote};
use crate::error::Error;
use crate::node::Dialect;
use crate::read::Timestamp;
use everflow_json::{Map, Number, Value as Json};
use smol_str::SmolStr;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// What a variable of type `any` holds after decoding.
#[derive(Clone, Debug)]
pub(crate) enum GoValue {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    Str(SmolStr),
    Time(Timestamp),
    Seq(Vec<GoValue>),
    Map(GoMap),
}

/// A map; `general` if its keys may be of any type.
#[derive(Clone, Debug)]
pub(crate) struct GoMap {
    pub(crate) general: bool,
    pub(crate) entries: BTreeMap<GoKey, GoValue>,
}

impl GoMap {
    pub(crate) fn new(general: bool) -> Self {
        GoMap {
            general,
            entries: BTreeMap::new(),
        }
    }
}

/// A key of a map. The order is the one in which Go prints keys.
#[derive(Clone, Debug)]
pub(crate) enum GoKey {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    Str(SmolStr),
    Time(Timestamp),
}

impl GoKey {
    pub(crate) fn new(value: GoValue) -> Result<GoKey, GoValue> {
        Ok(match value {
            GoValue::Null => GoKey::Null,
            GoValue::Bool(value) => GoKey::Bool(value),
            GoValue::Int(value) => GoKey::Int(value),
            GoValue::Uint(value) => GoKey::Uint(value),
            GoValue::Float(value) => GoKey::Float(value),
            GoValue::Str(value) => GoKey::Str(value),
            GoValue::Time(value) => GoKey::Time(value),
            other => return Err(other),
        })
    }

    fn rank(&self) -> u8 {
        match self {
            GoKey::Null => 0,
            GoKey::Bool(_) => 1,
            GoKey::Int(_) => 2,
            GoKey::Uint(_) => 3,
            GoKey::Float(_) => 4,
            GoKey::Time(_) => 5,
            GoKey::Str(_) => 6,
        }
    }

    /// `%#v`
    pub(crate) fn go_syntax(&self) -> String {
        match self {
            GoKey::Null => "<nil>".to_owned(),
            GoKey::Bool(value) => value.to_string(),
            GoKey::Int(value) => value.to_string(),
            GoKey::Uint(value) => format!("{value:#x}"),
            GoKey::Float(value) => format_float(*value),
            GoKey::Str(value) => go_quote(value),
            GoKey::Time(value) => time_syntax(value),
        }
    }

    /// The key that `sigs.k8s.io/yaml` makes of it for JSON.
    pub(crate) fn sigs_name(&self) -> Option<String> {
        Some(match self {
            GoKey::Bool(value) => value.to_string(),
            GoKey::Int(value) => value.to_string(),
            GoKey::Float(value) => match format_float_g32(*value).as_str() {
                "+Inf" => ".inf".to_owned(),
                "-Inf" => "-.inf".to_owned(),
                "NaN" => ".nan".to_owned(),
                other => other.to_owned(),
            },
            GoKey::Str(value) => value.to_string(),
            GoKey::Null | GoKey::Uint(_) | GoKey::Time(_) => return None,
        })
    }
}

impl Ord for GoKey {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (GoKey::Bool(a), GoKey::Bool(b)) => a.cmp(b),
            (GoKey::Int(a), GoKey::Int(b)) => a.cmp(b),
            (GoKey::Uint(a), GoKey::Uint(b)) => a.cmp(b),
            (GoKey::Float(a), GoKey::Float(b)) => a.total_cmp(b),
            (GoKey::Str(a), GoKey::Str(b)) => a.cmp(b),
            (GoKey::Time(a), GoKey::Time(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for GoKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for GoKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for GoKey {}

impl std::hash::Hash for GoKey {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.rank().hash(state);
        match self {
            GoKey::Null => {}
            GoKey::Bool(value) => value.hash(state),
            GoKey::Int(value) => value.hash(state),
            GoKey::Uint(value) => value.hash(state),
            GoKey::Float(value) => value.to_bits().hash(state),
            GoKey::Str(value) => value.hash(state),
            GoKey::Time(value) => value.to_string().hash(state),
        }
    }
}

impl GoValue {
    /// `%#v` of a value inside an interface.
    pub(crate) fn go_syntax(&self, dialect: Dialect) -> String {
        match self {
            GoValue::Null => "interface {}(nil)".to_owned(),
            GoValue::Seq(items) => {
                let items: Vec<_> = items.iter().map(|item| item.go_syntax(dialect)).collect();
                format!("[]interface {{}}{{{}}}", items.join(", "))
            }
            GoValue::Map(map) => {
                let entries: Vec<_> = map
                    .entries
                    .iter()
                    .map(|(key, value)| {
                        let key = match key {
                            GoKey::Null => "interface {}(nil)".to_owned(),
                            key => key.go_syntax(),
                        };
                        format!("{key}:{}", value.go_syntax(dialect))
                    })
                    .collect();
                format!("{}{{{}}}", self.go_type(dialect), entries.join(", "))
            }
            scalar => match GoKey::new(scalar.clone()) {
                Ok(key) => key.go_syntax(),
                Err(_) => String::new(),
            },
        }
    }

    /// The name of the Go type.
    pub(crate) fn go_type(&self, dialect: Dialect) -> &'static str {
        match self {
            GoValue::Null => "<nil>",
            GoValue::Bool(_) => "bool",
            GoValue::Int(_) => "int",
            GoValue::Uint(_) => "uint64",
            GoValue::Float(_) => "float64",
            GoValue::Str(_) => "string",
            GoValue::Time(_) => "time.Time",
            GoValue::Seq(_) => "[]interface {}",
            GoValue::Map(map) if map.general || dialect == Dialect::Sigs => {
                "map[interface {}]interface {}"
            }
            GoValue::Map(_) => "map[string]interface {}",
        }
    }

    /// JSON as `YAMLToJSON` makes it: keys become strings.
    pub(crate) fn into_sigs_json(self) -> Result<Json, Error> {
        self.check_sigs_keys()?;
        self.into_json(true)
    }

    /// Keys are checked before anything else is looked at.
    fn check_sigs_keys(&self) -> Result<(), Error> {
        match self {
            GoValue::Seq(items) => items.iter().try_for_each(GoValue::check_sigs_keys),
            GoValue::Map(map) => map.entries.iter().try_for_each(|(key, value)| {
                if key.sigs_name().is_some() {
                    return value.check_sigs_keys();
                }
                let kind = match key {
                    GoKey::Null => "%!s(<nil>)",
                    GoKey::Uint(_) => "uint64",
                    _ => "time.Time",
                };
                let value = match value {
                    GoValue::Null => "<nil>".to_owned(),
                    value => value.go_syntax(Dialect::Sigs),
                };
                Err(Error::Key {
                    problem: format!("{kind}, key: {}, value: {value}", key.go_syntax()),
                })
            }),
            _ => Ok(()),
        }
    }

    /// JSON as `json.Marshal` makes it, which knows no maps with other keys than strings.
    pub(crate) fn into_go_json(self) -> Result<Json, Error> {
        self.into_json(false)
    }

    fn into_json(self, convert_keys: bool) -> Result<Json, Error> {
        Ok(match self {
            GoValue::Null => Json::Null,
            GoValue::Bool(value) => Json::Bool(value),
            GoValue::Int(value) => Json::Number(value.into()),
            GoValue::Uint(value) => Json::Number(value.into()),
            GoValue::Float(value) => Json::Number(finite(value)?),
            GoValue::Str(value) => Json::String(value),
            GoValue::Time(value) => Json::String(value.to_string().into()),
            GoValue::Seq(items) => Json::Array(
                items
                    .into_iter()
                    .map(|item| item.into_json(convert_keys))
                    .collect::<Result<_, _>>()?,
            ),
            GoValue::Map(map) => {
                if map.general && !convert_keys {
                    return Err(Error::Json {
                        problem: "unsupported type: map[interface {}]interface {}".to_owned(),
                    });
                }
                // Sorted first, so that of several errors the first by key is reported.
                let sorted: BTreeMap<String, GoValue> = map
                    .entries
                    .into_iter()
                    .filter_map(|(key, value)| Some((key.sigs_name()?, value)))
                    .collect();
                let mut object = Map::new();
                for (key, value) in sorted {
                    object.insert(key.into(), value.into_json(convert_keys)?);
                }
                Json::Object(object)
            }
        })
    }
}

/// JSON has no infinities.
pub(crate) fn finite(value: f64) -> Result<Number, Error> {
    Number::from_f64(value).ok_or_else(|| Error::Json {
        problem: format!("unsupported value: {}", format_float(value)),
    })
}

fn time_syntax(time: &Timestamp) -> String {
    const MONTHS: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    let month = MONTHS
        .get(usize::from(time.month).saturating_sub(1))
        .unwrap_or(&"January");
    let zone = match time.offset {
        0 => "time.UTC".to_owned(),
        minutes => format!("time.FixedZone(\"\", {})", minutes * 60),
    };
    format!(
        "time.Date({}, time.{month}, {}, {}, {}, {}, {}, {zone})",
        time.year, time.day, time.hour, time.minute, time.second, time.nanosecond
    )
}
