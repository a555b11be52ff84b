//! Values during evaluation, with what Go's reflection knows about them besides the value.

use crate::map::Map;
use crate::types::GoType;
use crate::value::Value;

/// How a value is held. Go tells a value apart from an interface that holds it, and an interface
/// that holds nothing from no value at all; error texts and some functions show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// No argument was given.
    Missing,
    /// No value: a missing map key, the result of an empty interface.
    Invalid,
    /// The value itself.
    Concrete,
    /// The value itself, in a place whose address can be taken: methods of the pointer count.
    Addressable,
    /// An interface; nil when the value is nil.
    Interface,
}

#[derive(Clone, Debug)]
pub(super) struct Operand {
    pub value: Value,
    pub form: Form,
}

impl Operand {
    pub const MISSING: Operand = Operand {
        value: Value::Nil,
        form: Form::Missing,
    };
    pub const INVALID: Operand = Operand {
        value: Value::Nil,
        form: Form::Invalid,
    };

    pub fn concrete(value: Value) -> Self {
        Operand {
            value,
            form: Form::Concrete,
        }
    }

    /// A value whose static type is `go_type`.
    pub fn of_type(value: Value, go_type: GoType) -> Self {
        let form = match (go_type, &value) {
            (GoType::Any | GoType::Error, _) | (_, Value::Nil) => Form::Interface,
            _ => Form::Concrete,
        };
        Operand { value, form }
    }

    /// As [`Operand::of_type`], for what has an address: elements of slices, fields behind a
    /// pointer.
    pub fn in_place(value: Value, go_type: GoType) -> Self {
        let mut operand = Operand::of_type(value, go_type);
        if operand.form == Form::Concrete {
            operand.form = Form::Addressable;
        }
        operand
    }

    /// What Go's `reflect.ValueOf` makes of a value: nil is no value.
    pub fn of_value(value: Value) -> Self {
        match value {
            Value::Nil => Operand::INVALID,
            value => Operand::concrete(value),
        }
    }

    pub fn is_missing(&self) -> bool {
        self.form == Form::Missing
    }

    pub fn is_invalid(&self) -> bool {
        self.form == Form::Invalid
    }

    pub fn is_nil_interface(&self) -> bool {
        self.form == Form::Interface && matches!(self.value, Value::Nil)
    }

    /// Forgets that the value was held by an interface.
    pub fn inside(self) -> Operand {
        match self.form {
            Form::Interface => Operand::of_value(self.value),
            _ => self,
        }
    }

    /// The static type, as error texts name it.
    pub fn type_text(&self) -> String {
        match self.form {
            Form::Interface => GoType::Any.to_string(),
            _ => self.value.type_name(),
        }
    }
}

/// An element of a map by key.
pub(super) fn map_element(map: &Map, key: &[u8]) -> Option<Operand> {
    let value = map.get(key)?;
    let element = map.go_type().element().unwrap_or(GoType::Any);
    Some(Operand::of_type(value, element))
}
