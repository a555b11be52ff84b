//! Values that are more than data: structs and named types with methods.

use std::any::Any;

use crate::text::GoStr;
use crate::types::GoType;
use crate::value::Value;

/// A Go struct (or a pointer to one), or a value of a named basic type such as `time.Duration`.
///
/// Methods belong to the type: see [`crate::NamedType::methods`].
pub trait Object: 'static {
    /// The type, [`GoType::Named`] or a pointer to one.
    fn go_type(&self) -> GoType;

    /// The exported field of that name.
    fn field(&self, name: &str) -> Option<Value> {
        self.fields()
            .into_iter()
            .find(|(field, _)| *field == name)
            .map(|(_, value)| value)
    }

    /// All fields (unexported ones too) in the order of their declaration, for printing.
    fn fields(&self) -> Vec<(&'static str, Value)> {
        Vec::new()
    }

    /// The names of fields whose declared type is an interface; errors behind such a field name
    /// the interface and not the value in it.
    fn interface_fields(&self) -> &'static [&'static str] {
        &[]
    }

    /// What `fmt` prints instead of the fields: the result of `Error()` or `String()` where the
    /// type has such a method.
    fn text(&self) -> Option<GoStr> {
        None
    }

    /// What `%#v` prints instead of the fields: the result of `GoString()` where the type has it.
    fn go_syntax(&self) -> Option<GoStr> {
        None
    }

    /// What a bare `{{ x }}` prints when `String()` exists for the pointer only. Passed to a
    /// function the same value prints its fields.
    fn text_by_address(&self) -> Option<GoStr> {
        self.text()
    }

    /// For a pointer: what `fmt` prints for the value behind it. Differs from [`Object::text`] when
    /// `String()` exists for the pointer only.
    fn text_behind_pointer(&self) -> Option<GoStr> {
        self.text()
    }

    /// Whether the type implements `error`.
    fn is_error(&self) -> bool {
        false
    }

    /// For named basic types: the plain value below the name.
    fn basic(&self) -> Option<Value> {
        None
    }

    /// Go's `==` for two objects of the same type; `None` when the type cannot be compared.
    fn equals(&self, other: &dyn Object) -> Option<bool> {
        let _ = other;
        None
    }

    /// For downcasts.
    fn as_any(&self) -> &dyn Any;
}
