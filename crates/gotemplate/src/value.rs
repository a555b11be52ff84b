//! Go values as templates handle them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use crate::error::FuncError;
use crate::function::Function;
use crate::list::List;
use crate::map::Map;
use crate::meter::{CONTAINER_BYTES, ITEM_BYTES, Meter, SHORT_TEXT, map_bytes};
use crate::object::Object;
use crate::text::GoStr;
use crate::types::{GoType, Kind};

/// A Go value. Cheap to clone; maps are shared and mutable, lists are shared.
#[derive(Clone, Default)]
pub enum Value {
    /// The untyped nil: an empty interface.
    #[default]
    Nil,
    /// `bool`.
    Bool(bool),
    /// `int`: number constants in templates, lengths, indexes.
    Int(i64),
    /// `int8`.
    Int8(i8),
    /// `int16`.
    Int16(i16),
    /// `int32`.
    Int32(i32),
    /// `int64`: results of sprig's arithmetic, `--set` numbers.
    Int64(i64),
    /// `uint`.
    Uint(u64),
    /// `uint8`.
    Uint8(u8),
    /// `uint16`.
    Uint16(u16),
    /// `uint32`.
    Uint32(u32),
    /// `uint64`.
    Uint64(u64),
    /// `float32`.
    Float32(f32),
    /// `float64`: every number from a values file.
    Float64(f64),
    /// `complex128`: real and imaginary part.
    Complex128(f64, f64),
    /// `string`.
    String(GoStr),
    /// Any slice.
    List(List),
    /// Any map.
    Map(Map),
    /// A function value, for `call`.
    Func(Rc<Function>),
    /// A nil pointer of that (pointer) type.
    NilPointer(GoType),
    /// A struct, a pointer to one, or a named basic value.
    Object(Rc<dyn Object>),
}

impl Value {
    /// A `string`.
    pub fn string(text: impl Into<GoStr>) -> Self {
        Value::String(text.into())
    }

    /// A `[]interface {}`.
    pub fn list(items: Vec<Value>) -> Self {
        Value::List(List::new(items))
    }

    /// A `[]string`.
    pub fn strings<T: Into<GoStr>>(items: impl IntoIterator<Item = T>) -> Self {
        let items = items.into_iter().map(Value::string).collect();
        Value::List(List::typed(GoType::STRING_SLICE, items))
    }

    /// A `[]uint8`.
    pub fn bytes(bytes: &[u8]) -> Self {
        Value::List(List::of_bytes(bytes.into()))
    }

    /// A `map[string]interface {}`.
    pub fn map<K: Into<GoStr>>(entries: impl IntoIterator<Item = (K, Value)>) -> Self {
        Value::Map(entries.into_iter().collect())
    }

    /// An object.
    pub fn object(object: impl Object) -> Self {
        Value::Object(Rc::new(object))
    }

    /// The zero value of a type; nil for those without one.
    pub fn zero(go_type: GoType) -> Self {
        match go_type.underlying() {
            GoType::Bool => Value::Bool(false),
            GoType::Int => Value::Int(0),
            GoType::Int8 => Value::Int8(0),
            GoType::Int16 => Value::Int16(0),
            GoType::Int32 => Value::Int32(0),
            GoType::Int64 => Value::Int64(0),
            GoType::Uint => Value::Uint(0),
            GoType::Uint8 => Value::Uint8(0),
            GoType::Uint16 => Value::Uint16(0),
            GoType::Uint32 => Value::Uint32(0),
            GoType::Uint64 => Value::Uint64(0),
            GoType::Float32 => Value::Float32(0.0),
            GoType::Float64 => Value::Float64(0.0),
            GoType::Complex128 => Value::Complex128(0.0, 0.0),
            GoType::String => Value::String(GoStr::EMPTY),
            GoType::Slice(_) => Value::List(List::nil(go_type)),
            GoType::Map(_) => Value::Map(Map::nil(go_type)),
            GoType::Pointer(_) => Value::NilPointer(go_type),
            GoType::Any
            | GoType::Error
            | GoType::Reflected
            | GoType::Func(_)
            | GoType::Struct
            | GoType::Named(_) => Value::Nil,
        }
    }

    /// The type; `None` for nil.
    pub fn go_type(&self) -> Option<GoType> {
        Some(match self {
            Value::Nil => return None,
            Value::Bool(_) => GoType::Bool,
            Value::Int(_) => GoType::Int,
            Value::Int8(_) => GoType::Int8,
            Value::Int16(_) => GoType::Int16,
            Value::Int32(_) => GoType::Int32,
            Value::Int64(_) => GoType::Int64,
            Value::Uint(_) => GoType::Uint,
            Value::Uint8(_) => GoType::Uint8,
            Value::Uint16(_) => GoType::Uint16,
            Value::Uint32(_) => GoType::Uint32,
            Value::Uint64(_) => GoType::Uint64,
            Value::Float32(_) => GoType::Float32,
            Value::Float64(_) => GoType::Float64,
            Value::Complex128(..) => GoType::Complex128,
            Value::String(_) => GoType::String,
            Value::List(list) => list.go_type(),
            Value::Map(map) => map.go_type(),
            Value::Func(_) => GoType::Func("func(...interface {}) (interface {}, error)"),
            Value::NilPointer(go_type) => *go_type,
            Value::Object(object) => object.go_type(),
        })
    }

    /// The type as `%T` prints it: `<nil>` for nil.
    pub fn type_name(&self) -> String {
        match (self, self.go_type()) {
            (Value::Func(function), _) => function.signature.to_string(),
            (_, Some(go_type)) => go_type.to_string(),
            (_, None) => "<nil>".to_owned(),
        }
    }

    /// The kind, [`Kind::Invalid`] for nil.
    pub fn kind(&self) -> Kind {
        self.go_type().map_or(Kind::Invalid, GoType::kind)
    }

    /// The plain value below a named basic type; otherwise the value itself.
    pub fn basic(&self) -> Value {
        match self {
            Value::Object(object) => object.basic().unwrap_or_else(|| self.clone()),
            other => other.clone(),
        }
    }

    /// A signed integer of any width (named ones such as durations too).
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Value::Int(n) | Value::Int64(n) => Some(*n),
            Value::Int8(n) => Some(i64::from(*n)),
            Value::Int16(n) => Some(i64::from(*n)),
            Value::Int32(n) => Some(i64::from(*n)),
            Value::Object(object) => match object.basic()? {
                Value::Object(_) => None,
                basic => basic.as_int(),
            },
            _ => None,
        }
    }

    /// An unsigned integer of any width.
    pub fn as_uint(&self) -> Option<u64> {
        match self {
            Value::Uint(n) | Value::Uint64(n) => Some(*n),
            Value::Uint8(n) => Some(u64::from(*n)),
            Value::Uint16(n) => Some(u64::from(*n)),
            Value::Uint32(n) => Some(u64::from(*n)),
            Value::Object(object) => match object.basic()? {
                Value::Object(_) => None,
                basic => basic.as_uint(),
            },
            _ => None,
        }
    }

    /// A float of either width.
    pub fn as_float(&self) -> Option<f64> {
        match self {
            Value::Float64(n) => Some(*n),
            Value::Float32(n) => Some(f64::from(*n)),
            _ => None,
        }
    }

    /// A `string`.
    pub fn as_text(&self) -> Option<&GoStr> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// A `bool`.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// A map.
    pub fn as_map(&self) -> Option<&Map> {
        match self {
            Value::Map(map) => Some(map),
            _ => None,
        }
    }

    /// A slice.
    pub fn as_list(&self) -> Option<&List> {
        match self {
            Value::List(list) => Some(list),
            _ => None,
        }
    }

    /// An object of a known Rust type.
    pub fn as_object<T: 'static>(&self) -> Option<&T> {
        match self {
            Value::Object(object) => object.as_any().downcast_ref(),
            _ => None,
        }
    }

    /// The bytes of a `[]uint8`.
    pub fn as_byte_slice(&self) -> Option<Cow<'_, [u8]>> {
        match self {
            Value::List(list) if list.packed().is_some() => list.packed().map(Cow::Borrowed),
            Value::List(list) if list.go_type().element() == Some(GoType::Uint8) => list
                .items()
                .iter()
                .map(|item| match item {
                    Value::Uint8(byte) => Some(*byte),
                    _ => None,
                })
                .collect::<Option<Vec<u8>>>()
                .map(Cow::Owned),
            _ => None,
        }
    }

    /// nil, or a nil slice, map or pointer.
    pub fn is_nil(&self) -> bool {
        match self {
            Value::Nil | Value::NilPointer(_) => true,
            Value::List(list) => list.is_nil(),
            Value::Map(map) => map.is_nil(),
            _ => false,
        }
    }

    /// Truth as `if` sees it: not the zero value, not empty; structs are always true.
    pub fn is_true(&self) -> bool {
        match self {
            Value::Nil | Value::NilPointer(_) => false,
            Value::Bool(value) => *value,
            Value::Float32(n) => *n != 0.0,
            Value::Float64(n) => *n != 0.0,
            Value::Complex128(re, im) => *re != 0.0 || *im != 0.0,
            Value::String(text) => !text.is_empty(),
            Value::List(list) => !list.is_empty(),
            Value::Map(map) => !map.is_empty(),
            Value::Func(_) => true,
            Value::Object(object) => match object.basic() {
                Some(Value::Object(_)) | None => true,
                Some(basic) => basic.is_true(),
            },
            other => other
                .as_int()
                .map_or_else(|| other.as_uint().is_some_and(|n| n != 0), |n| n != 0),
        }
    }

    /// Whether dropping or printing this value goes into further values.
    pub(crate) fn is_container(&self) -> bool {
        matches!(self, Value::List(_) | Value::Map(_))
    }

    /// Whether copies of it share memory that outlives the value.
    pub(crate) fn holds_memory(&self) -> bool {
        match self {
            Value::String(text) => text.len() > SHORT_TEXT,
            Value::List(_) | Value::Map(_) | Value::Object(_) => true,
            _ => false,
        }
    }

    /// A copy that shares no map with the original: maps and the lists that hold them are copied,
    /// objects stay shared. Fails for values that contain themselves, nest too deep or are too
    /// large.
    pub fn deep_copy(&self, meter: &Meter<'_>) -> Result<Value, FuncError> {
        deep_copy(self, 0, &mut Visits::new(meter))
    }
}

/// How many values one walk may visit: parts can be shared, so that a small structure unfolds into
/// an endless one.
const MAX_VISITED: usize = 1_000_000;

/// How deep a structure may nest before walks over it stop.
pub(crate) const MAX_NESTING: usize = 500;

/// Counts the values that a walk makes.
pub(crate) struct Visits<'m> {
    left: usize,
    meter: &'m Meter<'m>,
}

impl<'m> Visits<'m> {
    pub fn new(meter: &'m Meter<'m>) -> Self {
        Visits {
            left: MAX_VISITED,
            meter,
        }
    }

    /// Notes values that are about to be made, of so many bytes in all.
    pub fn add(&mut self, count: usize, bytes: usize) -> Result<(), FuncError> {
        let count = count.max(1);
        match self.left.checked_sub(count) {
            Some(left) => self.left = left,
            None => return Err(FuncError::new("the value is too large")),
        }
        self.meter.steps(count as u64)?;
        Ok(self.meter.charge(bytes)?)
    }
}

fn deep_copy(value: &Value, depth: usize, visits: &mut Visits<'_>) -> Result<Value, FuncError> {
    if depth > MAX_NESTING {
        return Err(FuncError::new("cannot copy a value that contains itself"));
    }
    match value {
        Value::Map(map) if map.is_nil() => Ok(value.clone()),
        Value::Map(map) => {
            visits.add(map.len(), map_bytes(map.len()))?;
            let mut entries = BTreeMap::new();
            for (key, value) in map.read().iter() {
                entries.insert(key.clone(), deep_copy(value, depth + 1, visits)?);
            }
            Ok(Value::Map(Map::typed(map.go_type(), entries)))
        }
        Value::List(list)
            if list.packed().is_none() && list.items().iter().any(Value::is_container) =>
        {
            visits.add(list.len(), CONTAINER_BYTES + list.len() * ITEM_BYTES)?;
            let mut items = Vec::with_capacity(list.len());
            for item in list.items() {
                items.push(deep_copy(item, depth + 1, visits)?);
            }
            Ok(Value::List(List::typed(list.go_type(), items)))
        }
        other => Ok(other.clone()),
    }
}

/// Empties containers with a work list, so that dropping a structure nested a million deep does
/// not need a million stack frames.
pub(crate) fn drop_without_recursion(items: &mut Vec<Value>) {
    if !items.iter().any(Value::is_container) {
        return;
    }
    let mut pending = std::mem::take(items);
    while let Some(value) = pending.pop() {
        match value {
            Value::List(mut list) if !list.is_shared() => pending.append(&mut list.take_items()),
            Value::Map(mut map) if !map.is_shared() => {
                pending.extend(map.take_entries().into_values());
            }
            _ => {}
        }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Nil => f.write_str("nil"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::String(text) => write!(f, "{text:?}"),
            Value::List(list) => write!(f, "{list:?}"),
            Value::Map(map) => write!(f, "{map:?}"),
            Value::Float64(n) => write!(f, "{n:?}"),
            other => match (other.as_int(), other.as_uint()) {
                (Some(n), _) => write!(f, "{}({n})", other.type_name()),
                (_, Some(n)) => write!(f, "{}({n})", other.type_name()),
                _ => f.write_str(&other.type_name()),
            },
        }
    }
}

macro_rules! value_from {
    ($($source:ty => $variant:ident),* $(,)?) => {
        $(impl From<$source> for Value {
            fn from(value: $source) -> Self {
                Value::$variant(value.into())
            }
        })*
    };
}

value_from! {
    bool => Bool,
    f64 => Float64,
    GoStr => String,
    &str => String,
    String => String,
    List => List,
    Map => Map,
}
