//! Go types as far as templates can see them: names, kinds and what may be passed where.

use std::fmt;

use crate::function::{Args, Context, FuncResult, Signature};
use crate::value::Value;

/// A Go type. `Display` writes it as Go does (`map[string]interface {}`).
///
/// Map keys are always strings: nothing a chart can reach has any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoType {
    /// `interface {}`: a parameter of this type takes anything, nil included.
    Any,
    /// `error`.
    Error,
    /// `reflect.Value`, the parameter type of Go's own comparison and indexing functions.
    Reflected,
    /// `bool`.
    Bool,
    /// `int` (64 bits).
    Int,
    /// `int8`.
    Int8,
    /// `int16`.
    Int16,
    /// `int32`.
    Int32,
    /// `int64`.
    Int64,
    /// `uint` (64 bits).
    Uint,
    /// `uint8`, also called byte.
    Uint8,
    /// `uint16`.
    Uint16,
    /// `uint32`.
    Uint32,
    /// `uint64`.
    Uint64,
    /// `float32`.
    Float32,
    /// `float64`.
    Float64,
    /// `complex128`.
    Complex128,
    /// `string`.
    String,
    /// `[]T`.
    Slice(&'static GoType),
    /// `map[string]T`.
    Map(&'static GoType),
    /// `*T`.
    Pointer(&'static GoType),
    /// A function type, with its text.
    Func(&'static str),
    /// The structure of a [`NamedType`]; never the type of a value by itself.
    Struct,
    /// A type with a name, and perhaps methods.
    Named(&'static NamedType),
}

impl GoType {
    /// `[]interface {}`.
    pub const ANY_SLICE: GoType = GoType::Slice(&GoType::Any);
    /// `[]string`.
    pub const STRING_SLICE: GoType = GoType::Slice(&GoType::String);
    /// `[]int`.
    pub const INT_SLICE: GoType = GoType::Slice(&GoType::Int);
    /// `[]uint8`, what Go calls a byte slice.
    pub const BYTES: GoType = GoType::Slice(&GoType::Uint8);
    /// `map[string]interface {}`.
    pub const ANY_MAP: GoType = GoType::Map(&GoType::Any);
    /// `map[string]string`.
    pub const STRING_MAP: GoType = GoType::Map(&GoType::String);
    /// `[]map[string]interface {}`.
    pub const MAP_SLICE: GoType = GoType::Slice(&GoType::ANY_MAP);

    /// The type below the name; the type itself when it has none.
    pub fn underlying(self) -> GoType {
        match self {
            GoType::Named(named) => named.underlying,
            other => other,
        }
    }

    /// The kind, as Go's reflection names it.
    pub fn kind(self) -> Kind {
        match self.underlying() {
            GoType::Any | GoType::Error => Kind::Interface,
            GoType::Reflected | GoType::Struct | GoType::Named(_) => Kind::Struct,
            GoType::Bool => Kind::Bool,
            GoType::Int => Kind::Int,
            GoType::Int8 => Kind::Int8,
            GoType::Int16 => Kind::Int16,
            GoType::Int32 => Kind::Int32,
            GoType::Int64 => Kind::Int64,
            GoType::Uint => Kind::Uint,
            GoType::Uint8 => Kind::Uint8,
            GoType::Uint16 => Kind::Uint16,
            GoType::Uint32 => Kind::Uint32,
            GoType::Uint64 => Kind::Uint64,
            GoType::Float32 => Kind::Float32,
            GoType::Float64 => Kind::Float64,
            GoType::Complex128 => Kind::Complex128,
            GoType::String => Kind::String,
            GoType::Slice(_) => Kind::Slice,
            GoType::Map(_) => Kind::Map,
            GoType::Pointer(_) => Kind::Pointer,
            GoType::Func(_) => Kind::Func,
        }
    }

    /// The element type of a slice or map.
    pub fn element(self) -> Option<GoType> {
        match self.underlying() {
            GoType::Slice(element) | GoType::Map(element) => Some(*element),
            _ => None,
        }
    }

    /// Whether a value of this type can be nil.
    pub fn can_be_nil(self) -> bool {
        self == GoType::Reflected
            || matches!(
                self.kind(),
                Kind::Interface | Kind::Map | Kind::Pointer | Kind::Slice | Kind::Func
            )
    }

    /// Go's assignability for everything but interfaces with methods: the same type, or the same
    /// structure when at most one of the two has a name.
    pub fn assignable_to(self, target: GoType) -> bool {
        if self == target || target == GoType::Any {
            return true;
        }
        let both_named = matches!(self, GoType::Named(_)) && matches!(target, GoType::Named(_));
        !both_named
            && self.underlying() == target.underlying()
            && !self.is_basic()
            && !target.is_basic()
            && self.underlying() != GoType::Struct
    }

    /// Whether this is a predeclared (and therefore named) type such as `int`.
    fn is_basic(self) -> bool {
        !matches!(
            self,
            GoType::Slice(_)
                | GoType::Map(_)
                | GoType::Pointer(_)
                | GoType::Func(_)
                | GoType::Struct
                | GoType::Named(_)
        )
    }

    /// The named type behind this type or behind the pointer.
    pub fn named(self) -> Option<&'static NamedType> {
        match self {
            GoType::Named(named) => Some(named),
            GoType::Pointer(target) => target.named(),
            _ => None,
        }
    }

    /// The method of that name.
    pub fn method(self, name: &str) -> Option<&'static Method> {
        self.named()?
            .methods
            .iter()
            .find(|method| method.name == name)
    }
}

impl fmt::Display for GoType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            GoType::Any => "interface {}",
            GoType::Error => "error",
            GoType::Reflected => "reflect.Value",
            GoType::Bool => "bool",
            GoType::Int => "int",
            GoType::Int8 => "int8",
            GoType::Int16 => "int16",
            GoType::Int32 => "int32",
            GoType::Int64 => "int64",
            GoType::Uint => "uint",
            GoType::Uint8 => "uint8",
            GoType::Uint16 => "uint16",
            GoType::Uint32 => "uint32",
            GoType::Uint64 => "uint64",
            GoType::Float32 => "float32",
            GoType::Float64 => "float64",
            GoType::Complex128 => "complex128",
            GoType::String => "string",
            GoType::Struct => "struct {}",
            GoType::Func(text) => text,
            GoType::Named(named) => named.name,
            GoType::Slice(element) => return write!(f, "[]{element}"),
            GoType::Map(element) => return write!(f, "map[string]{element}"),
            GoType::Pointer(target) => return write!(f, "*{target}"),
        };
        f.write_str(name)
    }
}

/// A named Go type: `time.Duration`, `common.Values`, `semver.Version`.
#[derive(Debug)]
pub struct NamedType {
    /// The name with its package, as `%T` prints it.
    pub name: &'static str,
    /// What it is made of; [`GoType::Struct`] for structs.
    pub underlying: GoType,
    /// Its exported methods. They win over fields and map keys of the same name.
    pub methods: &'static [Method],
}

impl PartialEq for NamedType {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for NamedType {}

/// A method that templates can call.
#[derive(Clone, Copy, Debug)]
pub struct Method {
    /// The name, starting with a capital letter.
    pub name: &'static str,
    /// Parameters (without the receiver) and result.
    pub signature: Signature,
    /// The code; the second argument is the receiver.
    pub call: fn(&mut Context<'_>, &Value, Args<'_>) -> FuncResult,
}

/// The kinds of Go's reflection. `Display` writes Go's names (`ptr`, `interface`, `map`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    Invalid,
    Bool,
    Int,
    Int8,
    Int16,
    Int32,
    Int64,
    Uint,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Float32,
    Float64,
    Complex128,
    Func,
    Interface,
    Map,
    Pointer,
    Slice,
    String,
    Struct,
}

impl Kind {
    /// Go's name for the kind.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Invalid => "invalid",
            Kind::Bool => "bool",
            Kind::Int => "int",
            Kind::Int8 => "int8",
            Kind::Int16 => "int16",
            Kind::Int32 => "int32",
            Kind::Int64 => "int64",
            Kind::Uint => "uint",
            Kind::Uint8 => "uint8",
            Kind::Uint16 => "uint16",
            Kind::Uint32 => "uint32",
            Kind::Uint64 => "uint64",
            Kind::Float32 => "float32",
            Kind::Float64 => "float64",
            Kind::Complex128 => "complex128",
            Kind::Func => "func",
            Kind::Interface => "interface",
            Kind::Map => "map",
            Kind::Pointer => "ptr",
            Kind::Slice => "slice",
            Kind::String => "string",
            Kind::Struct => "struct",
        }
    }

    /// Signed integers of any width.
    pub fn is_signed(self) -> bool {
        matches!(
            self,
            Kind::Int | Kind::Int8 | Kind::Int16 | Kind::Int32 | Kind::Int64
        )
    }

    /// Unsigned integers of any width.
    pub fn is_unsigned(self) -> bool {
        matches!(
            self,
            Kind::Uint | Kind::Uint8 | Kind::Uint16 | Kind::Uint32 | Kind::Uint64
        )
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
