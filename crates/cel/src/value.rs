//! Values of expressions.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::rc::Rc;

use everflow_json::Value as Json;

use crate::kubernetes::{Cidr, Quantity, Version};
use crate::time::{Duration, Timestamp};

/// A value. Cloning is cheap.
#[derive(Debug, Clone, Default)]
pub enum Value {
    /// `null`
    #[default]
    Null,
    /// A boolean.
    Bool(bool),
    /// A signed whole number.
    Int(i64),
    /// An unsigned whole number.
    Uint(u64),
    /// A floating-point number.
    Double(f64),
    /// Text.
    String(Rc<str>),
    /// Bytes.
    Bytes(Rc<[u8]>),
    /// A list.
    List(Rc<List>),
    /// A map or an object.
    Map(Rc<BTreeMap<Key, Value>>),
    /// A moment.
    Timestamp(Timestamp),
    /// A span of time.
    Duration(Duration),
    /// The name of a type.
    Type(Rc<str>),
    /// A value or none.
    Optional(Option<Rc<Value>>),
    /// A Kubernetes quantity.
    Quantity(Quantity),
    /// An address.
    Ip(std::net::IpAddr),
    /// A range of addresses.
    Cidr(Cidr),
    /// A URL.
    Url(Rc<crate::kubernetes::Url>),
    /// A semantic version.
    Semver(Rc<Version>),
    /// A named format of strings.
    Format(&'static str),
}

/// A list and how Kubernetes compares it.
#[derive(Debug, Clone, Default)]
pub struct List {
    /// The items.
    pub items: Vec<Value>,
    /// How it merges.
    pub kind: ListKind,
}

/// `x-kubernetes-list-type`: sets and maps compare without regard to order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ListKind {
    /// An ordinary list.
    #[default]
    Atomic,
    /// A set.
    Set,
    /// Items with the same values under these keys are the same item.
    Map(Vec<String>),
}

/// The key of a map.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A boolean.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// An unsigned number that is no `int`.
    Uint(u64),
    /// Text.
    String(Rc<str>),
    /// The name of a field that expressions cannot see but that counts when objects are compared.
    Hidden(Rc<str>),
}

impl Value {
    /// Text.
    pub fn string(text: impl AsRef<str>) -> Self {
        Value::String(Rc::from(text.as_ref()))
    }

    /// An ordinary list.
    pub fn list(items: Vec<Value>) -> Self {
        Value::List(Rc::new(List {
            items,
            kind: ListKind::Atomic,
        }))
    }

    /// A map with text for keys.
    pub fn map(entries: impl IntoIterator<Item = (String, Value)>) -> Self {
        Value::Map(Rc::new(
            entries
                .into_iter()
                .map(|(key, value)| (Key::String(key.into()), value))
                .collect(),
        ))
    }

    /// A value from JSON without a schema: whole numbers are `int`.
    pub fn from_json(json: &Json) -> Self {
        match json {
            Json::Null => Value::Null,
            Json::Bool(flag) => Value::Bool(*flag),
            Json::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(int), _) => Value::Int(int),
                (None, Some(uint)) => Value::Uint(uint),
                _ => Value::Double(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Value::string(text),
            Json::Array(items) => Value::list(items.iter().map(Value::from_json).collect()),
            Json::Object(object) => Value::map(
                object
                    .iter()
                    .map(|(key, value)| (key.to_string(), Value::from_json(value))),
            ),
        }
    }

    /// The name of the value's type.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Null => "null_type",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Uint(_) => "uint",
            Value::Double(_) => "double",
            Value::String(_) => "string",
            Value::Bytes(_) => "bytes",
            Value::List(_) => "list",
            Value::Map(_) => "map",
            Value::Timestamp(_) => "google.protobuf.Timestamp",
            Value::Duration(_) => "google.protobuf.Duration",
            Value::Type(_) => "type",
            Value::Optional(_) => "optional_type",
            Value::Quantity(_) => "kubernetes.Quantity",
            Value::Ip(_) => "net.IP",
            Value::Cidr(_) => "net.CIDR",
            Value::Url(_) => "kubernetes.URL",
            Value::Semver(_) => "kubernetes.Semver",
            Value::Format(_) => "kubernetes.NamedFormat",
        }
    }

    /// The value as a key of a map, where it can be one. Numbers that are equal are the same key.
    pub fn to_key(&self) -> Option<Key> {
        Some(match self {
            Value::Bool(flag) => Key::Bool(*flag),
            Value::Int(int) => Key::Int(*int),
            Value::Uint(uint) => match i64::try_from(*uint) {
                Ok(int) => Key::Int(int),
                Err(_) => Key::Uint(*uint),
            },
            Value::Double(double) => {
                let int = *double as i64;
                match (int as f64) == *double {
                    true => Key::Int(int),
                    false => return None,
                }
            }
            Value::String(text) => Key::String(text.clone()),
            _ => return None,
        })
    }

    /// Whether both are the same value. Values of different types are not, numbers excepted.
    pub fn equals(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(left), Value::Bool(right)) => left == right,
            (Value::String(left), Value::String(right)) => left == right,
            (Value::Bytes(left), Value::Bytes(right)) => left == right,
            (Value::List(left), Value::List(right)) => lists_equal(left, right),
            (Value::Map(left), Value::Map(right)) => {
                left.len() == right.len()
                    && left.iter().all(|(key, value)| match (key, right.get(key)) {
                        (_, Some(other)) => value.equals(other),
                        // So does the API server.
                        (Key::Hidden(_), None) => true,
                        (_, None) => false,
                    })
            }
            (Value::Type(left), Value::Type(right)) => left == right,
            (Value::Optional(left), Value::Optional(right)) => match (left, right) {
                (Some(left), Some(right)) => left.equals(right),
                (left, right) => left.is_none() && right.is_none(),
            },
            (Value::Url(left), Value::Url(right)) => left == right,
            (Value::Cidr(left), Value::Cidr(right)) => left == right,
            (Value::Format(left), Value::Format(right)) => left == right,
            _ => self.compare(other) == Some(Ordering::Equal),
        }
    }

    /// How two values that have an order stand to each other.
    pub fn compare(&self, other: &Value) -> Option<Ordering> {
        match (self, other) {
            (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
            (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
            (Value::Bytes(left), Value::Bytes(right)) => Some(left.cmp(right)),
            (Value::Int(left), Value::Int(right)) => Some(left.cmp(right)),
            (Value::Uint(left), Value::Uint(right)) => Some(left.cmp(right)),
            (Value::Int(left), Value::Uint(right)) => {
                Some(i128::from(*left).cmp(&i128::from(*right)))
            }
            (Value::Uint(left), Value::Int(right)) => {
                Some(i128::from(*left).cmp(&i128::from(*right)))
            }
            (Value::Double(left), Value::Double(right)) => left.partial_cmp(right),
            (Value::Double(left), Value::Int(right)) => compare_double(*left, i128::from(*right)),
            (Value::Double(left), Value::Uint(right)) => compare_double(*left, i128::from(*right)),
            (Value::Int(_) | Value::Uint(_), Value::Double(_)) => {
                other.compare(self).map(Ordering::reverse)
            }
            (Value::Timestamp(left), Value::Timestamp(right)) => Some(left.cmp(right)),
            (Value::Duration(left), Value::Duration(right)) => Some(left.cmp(right)),
            (Value::Quantity(left), Value::Quantity(right)) => Some(left.cmp(right)),
            (Value::Ip(left), Value::Ip(right)) => Some(left.cmp(right)),
            (Value::Semver(left), Value::Semver(right)) => Some(left.cmp(right)),
            _ => None,
        }
    }
}

/// Doubles against whole numbers, without rounding either.
fn compare_double(left: f64, right: i128) -> Option<Ordering> {
    if left.is_nan() {
        return None;
    }
    if left >= 1e30 {
        return Some(Ordering::Greater);
    }
    if left <= -1e30 {
        return Some(Ordering::Less);
    }
    let whole = left.floor();
    Some(
        (whole as i128)
            .cmp(&right)
            .then_with(|| match left > whole {
                true => Ordering::Greater,
                false => Ordering::Equal,
            }),
    )
}

fn lists_equal(left: &List, right: &List) -> bool {
    let (left_items, right_items) = (&left.items, &right.items);
    if left_items.len() != right_items.len() {
        return false;
    }
    if left.kind == ListKind::Atomic {
        return left_items.iter().zip(right_items).all(|(l, r)| l.equals(r));
    }
    // Items of sets and maps are unique, so that one way suffices.
    left_items
        .iter()
        .all(|l| right_items.iter().any(|r| l.equals(r)))
}

/// The part of an item that tells it from others of a list of kind map.
pub(crate) fn item_key(item: &Value, keys: &[String]) -> Vec<Option<Value>> {
    keys.iter()
        .map(|key| match item {
            Value::Map(map) => map.get(&Key::String(key.as_str().into())).cloned(),
            _ => None,
        })
        .collect()
}

impl Key {
    /// The key as a value.
    pub fn to_value(&self) -> Value {
        match self {
            Key::Bool(flag) => Value::Bool(*flag),
            Key::Int(int) => Value::Int(*int),
            Key::Uint(uint) => Value::Uint(*uint),
            Key::String(text) | Key::Hidden(text) => Value::String(text.clone()),
        }
    }
}
