//! Pipelines, commands and fields.

use super::operand::{Form, Operand, map_element};
use super::{Exec, Fallible};
use crate::gofmt;
use crate::parse::ast::{Command, Expr, ExprKind, Pipe, Variable};
use crate::parse::render::{Place, expr_text};
use crate::templates::MissingKey;
use crate::text::GoStr;
use crate::types::GoType;
use crate::value::Value;

/// The arguments of a command: the expressions behind the first word, and the result of the
/// previous command of the pipeline.
#[derive(Clone, Copy)]
pub(super) struct Given<'t, 'f> {
    pub args: &'t [Expr],
    pub last: &'f Operand,
}

impl Given<'_, '_> {
    pub const NOTHING: Given<'static, 'static> = Given {
        args: &[],
        last: &Operand::MISSING,
    };

    pub fn is_empty(&self) -> bool {
        self.args.is_empty() && self.last.is_missing()
    }
}

impl<'t> Exec<'t, '_> {
    /// Evaluates a pipeline and sets the variables it declares or assigns.
    pub(super) fn eval_pipeline(&mut self, dot: &Operand, pipe: &'t Pipe) -> Fallible<Operand> {
        self.at(Place::Pipe(pipe));
        let mut value = Operand::MISSING;
        for command in &pipe.commands {
            value = self.eval_command(dot, command, &value)?.inside();
        }
        for variable in &pipe.declared {
            if pipe.assigns {
                self.set_variable(variable, value.clone())?;
            } else {
                self.variables.push((variable.id, value.clone()));
            }
        }
        Ok(value)
    }

    fn eval_command(
        &mut self,
        dot: &Operand,
        command: &'t Command,
        last: &Operand,
    ) -> Fallible<Operand> {
        self.step()?;
        let Some((first, args)) = command.args.split_first() else {
            return self.fail("empty command");
        };
        let given = Given { args, last };
        match &first.kind {
            ExprKind::Field(fields) => {
                self.at(Place::Expr(first));
                self.eval_fields(dot, dot, first, fields, given)
            }
            ExprKind::Chain(inner, fields) => self.eval_chain(dot, first, inner, fields, given),
            ExprKind::Function(function) => {
                self.eval_function(dot, first, function, Place::Command(command), given)
            }
            ExprKind::Variable(variable, fields) => {
                self.eval_variable(dot, first, variable, fields, given)
            }
            ExprKind::Pipe(pipe) => {
                // The place stays what it was: Go does not move it here.
                self.not_a_function(first, given)?;
                self.check_stack()?;
                self.eval_pipeline(dot, pipe)
            }
            _ => {
                self.at(Place::Expr(first));
                self.not_a_function(first, given)?;
                self.eval_constant(dot, first)
            }
        }
    }

    fn not_a_function(&self, word: &'t Expr, given: Given<'t, '_>) -> Fallible<()> {
        if given.is_empty() {
            return Ok(());
        }
        let text = expr_text(word);
        self.fail(format!("can't give argument to non-function {text}"))
    }

    /// A constant or dot where no type is asked for.
    pub(super) fn eval_constant(&mut self, dot: &Operand, word: &'t Expr) -> Fallible<Operand> {
        match &word.kind {
            ExprKind::Bool(value) => Ok(Operand::concrete(Value::Bool(*value))),
            ExprKind::Dot => Ok(dot.clone()),
            ExprKind::String(text, _) => Ok(Operand::concrete(Value::String(text.clone()))),
            ExprKind::Number(number) => {
                let value = match (number.complex, number.float, number.int, number.uint) {
                    (Some((real, imaginary)), ..) => Value::Complex128(real, imaginary),
                    (_, Some(value), ..) if number.looks_like_float() => Value::Float64(value),
                    (_, _, Some(value), _) => Value::Int(value),
                    (_, _, None, Some(_)) => {
                        return self.fail(format!("{} overflows int", number.text));
                    }
                    _ => return Ok(Operand::INVALID),
                };
                Ok(Operand::concrete(value))
            }
            ExprKind::Nil => self.fail("nil is not a command"),
            _ => {
                let text = gofmt::quote(expr_text(word).as_bytes());
                self.fail(format!("can't evaluate command {text}"))
            }
        }
    }

    pub(super) fn eval_chain(
        &mut self,
        dot: &Operand,
        chain: &'t Expr,
        inner: &'t Expr,
        fields: &'t [GoStr],
        given: Given<'t, '_>,
    ) -> Fallible<Operand> {
        self.at(Place::Expr(chain));
        if let ExprKind::Nil = inner.kind {
            let text = expr_text(chain);
            return self.fail(format!("indirection through explicit nil in {text}"));
        }
        self.at(Place::Expr(inner));
        let receiver = match &inner.kind {
            ExprKind::Pipe(pipe) => {
                self.check_stack()?;
                self.eval_pipeline(dot, pipe)?
            }
            ExprKind::Function(function) => {
                let place = Place::Expr(inner);
                self.eval_function(dot, inner, function, place, Given::NOTHING)?
            }
            _ => self.eval_constant(dot, inner)?,
        };
        self.eval_fields(dot, &receiver, chain, fields, given)
    }

    pub(super) fn eval_variable(
        &mut self,
        dot: &Operand,
        word: &'t Expr,
        variable: &'t Variable,
        fields: &'t [GoStr],
        given: Given<'t, '_>,
    ) -> Fallible<Operand> {
        self.at(Place::Expr(word));
        let visible = self.variables[self.frame..].iter().rev();
        let found = visible.filter(|slot| slot.0 == variable.id).map(|s| &s.1);
        let Some(value) = found.take(1).next().cloned() else {
            return self.fail(format!("undefined variable: {}", variable.name));
        };
        if fields.is_empty() {
            self.not_a_function(word, given)?;
            return Ok(value);
        }
        self.eval_fields(dot, &value, word, fields, given)
    }

    /// `.X.Y.Z args`: only the last one gets the arguments.
    pub(super) fn eval_fields(
        &mut self,
        dot: &Operand,
        receiver: &Operand,
        word: &'t Expr,
        fields: &'t [GoStr],
        given: Given<'t, '_>,
    ) -> Fallible<Operand> {
        let (first, path, last) = match fields {
            [] => return Ok(receiver.clone()),
            [only] => return self.eval_field(dot, receiver, word, only, given),
            [first, path @ .., last] => (first, path, last),
        };
        let mut inner = self.eval_field(dot, receiver, word, first, Given::NOTHING)?;
        for field in path {
            inner = self.eval_field(dot, &inner, word, field, Given::NOTHING)?;
        }
        self.eval_field(dot, &inner, word, last, given)
    }

    fn eval_field(
        &mut self,
        dot: &Operand,
        receiver: &Operand,
        word: &'t Expr,
        field: &'t GoStr,
        given: Given<'t, '_>,
    ) -> Fallible<Operand> {
        if !receiver.is_plain() {
            if self.templates.missing_key_mode() == MissingKey::Error {
                let key = gofmt::quote(field.as_bytes());
                return self.fail(format!("nil data; no entry for key {key}"));
            }
            return Ok(Operand::INVALID);
        }
        if receiver.is_nil_interface() {
            let go_type = receiver.type_text();
            return self.fail(format!("nil pointer evaluating {go_type}.{field}"));
        }
        match &receiver.value {
            Value::Map(map) => {
                if let GoType::Named(_) = map.go_type()
                    && let Some(result) = self.eval_method(dot, receiver, word, field, given)?
                {
                    return Ok(result);
                }
                if !given.is_empty() {
                    return self.fail(format!("{field} is not a method but has arguments"));
                }
                match map_element(map, field.as_bytes()) {
                    Some(element) => Ok(element),
                    None => self.missing_key(map.go_type(), field),
                }
            }
            Value::Object(object) => {
                if let Some(result) = self.eval_method(dot, receiver, word, field, given)? {
                    return Ok(result);
                }
                let name = field.as_str().unwrap_or("");
                let Some(value) = object.field(name) else {
                    return self.no_such_field(receiver, field);
                };
                if !name.starts_with(char::is_uppercase) {
                    let go_type = receiver.type_text();
                    return self.fail(format!(
                        "{field} is an unexported field of struct type {go_type}"
                    ));
                }
                if !given.is_empty() {
                    return self.fail(format!(
                        "{field} has arguments but cannot be invoked as function"
                    ));
                }
                let declared = match object.interface_fields().contains(&name) {
                    true => GoType::Any,
                    false => GoType::Struct,
                };
                let has_address = receiver.form == Form::Addressable
                    || matches!(object.go_type(), GoType::Pointer(_));
                match has_address {
                    true => Ok(Operand::in_place(value, declared)),
                    false => Ok(Operand::of_type(value, declared)),
                }
            }
            Value::NilPointer(_) => {
                let go_type = receiver.type_text();
                self.fail(format!("nil pointer evaluating {go_type}.{field}"))
            }
            Value::List(_) => match self.eval_method(dot, receiver, word, field, given)? {
                Some(result) => Ok(result),
                None => self.no_such_field(receiver, field),
            },
            _ => self.no_such_field(receiver, field),
        }
    }

    fn no_such_field(&self, receiver: &Operand, field: &GoStr) -> Fallible<Operand> {
        let go_type = receiver.type_text();
        self.fail(format!("can't evaluate field {field} in type {go_type}"))
    }

    fn missing_key(&self, map: GoType, key: &GoStr) -> Fallible<Operand> {
        match self.templates.missing_key_mode() {
            MissingKey::Invalid => Ok(Operand::INVALID),
            MissingKey::Zero => {
                let element = map.element().unwrap_or(GoType::Any);
                Ok(Operand::of_type(Value::zero(element), element))
            }
            MissingKey::Error => {
                let key = gofmt::quote(key.as_bytes());
                self.fail(format!("map has no entry for key {key}"))
            }
        }
    }
}
