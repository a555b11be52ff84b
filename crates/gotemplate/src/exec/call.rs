//! Calls: arguments against signatures, as Go's reflection checks them.

use super::builtin;
use super::eval::Given;
use super::operand::{Form, Operand};
use super::{Exec, Fallible};
use crate::error::FuncError;
use crate::function::{Args, Context, FuncResult, Function, Signature};
use crate::parse::ast::{Builtin, Expr, ExprKind, FunctionName, Target};
use crate::parse::render::{Place, expr_text};
use crate::text::GoStr;
use crate::types::{GoType, Kind};
use crate::value::Value;

impl<'t> Exec<'t, '_> {
    /// Calls a function by name. `place` is what an error of the function is reported at.
    pub(super) fn eval_function(
        &mut self,
        dot: &Operand,
        word: &'t Expr,
        function: &'t FunctionName,
        place: Place<'t>,
        given: Given<'t, '_>,
    ) -> Fallible<Operand> {
        self.at(Place::Expr(word));
        match function.target {
            Target::Given(index) => {
                let templates = self.templates;
                let Some(code) = templates.functions().at(index) else {
                    let name = crate::gofmt::quote(function.name.as_bytes());
                    return self.fail(format!("{name} is not a defined function"));
                };
                self.call_given(dot, code, &function.name, place, given)
            }
            Target::Builtin(builtin) => {
                self.call_builtin(dot, builtin, &function.name, place, given)
            }
        }
    }

    fn call_given(
        &mut self,
        dot: &Operand,
        function: &Function,
        name: &GoStr,
        place: Place<'t>,
        given: Given<'t, '_>,
    ) -> Fallible<Operand> {
        let mut values = Vec::with_capacity(given.args.len() + 1);
        self.eval_args(dot, &function.signature, name, given, |operand| {
            values.push(operand.value);
        })?;
        let code = |context: &mut Context<'_>, args: Args<'_>| (function.code)(context, args);
        match self.run(function.signature.result, &values, code)? {
            Ok(value) => Ok(Operand::of_type(value, function.signature.result)),
            Err(error) => self.call_failed(name, place, error),
        }
    }

    /// Runs the code of a function and charges what it makes.
    fn run(
        &mut self,
        result: GoType,
        values: &[Value],
        code: impl FnOnce(&mut Context<'_>, Args<'_>) -> FuncResult,
    ) -> Fallible<FuncResult> {
        self.check_stack()?;
        let meter = self.meter;
        let call = match meter.before_call(result, values) {
            Ok(call) => call,
            Err(error) => return Ok(Err(error)),
        };
        let mut context = Context::new(self.templates, self.state, meter);
        Ok(code(&mut context, Args::new(values)).and_then(|value| {
            meter.after_call(&call, &value)?;
            Ok(value)
        }))
    }

    /// The method of a named type, when there is one of that name.
    pub(super) fn eval_method(
        &mut self,
        dot: &Operand,
        receiver: &Operand,
        word: &'t Expr,
        name: &'t GoStr,
        given: Given<'t, '_>,
    ) -> Fallible<Option<Operand>> {
        let go_type = receiver.value.go_type();
        let name_text = name.as_str().unwrap_or("");
        let Some(method) = go_type.and_then(|go_type| go_type.method(name_text)) else {
            return Ok(None);
        };
        let mut values = Vec::with_capacity(given.args.len() + 1);
        self.eval_args(dot, &method.signature, name, given, |operand| {
            values.push(operand.value);
        })?;
        let code = |context: &mut Context<'_>, args: Args<'_>| {
            (method.call)(context, &receiver.value, args)
        };
        match self.run(method.signature.result, &values, code)? {
            Ok(value) => Ok(Some(Operand::of_type(value, method.signature.result))),
            Err(error) => self.call_failed(name, Place::Expr(word), error),
        }
    }

    fn call_builtin(
        &mut self,
        dot: &Operand,
        builtin: Builtin,
        name: &GoStr,
        place: Place<'t>,
        given: Given<'t, '_>,
    ) -> Fallible<Operand> {
        let signature = builtin::signature(builtin);
        self.check_count(&signature, name, given)?;
        if matches!(builtin, Builtin::And | Builtin::Or) {
            return self.short_circuit(dot, builtin, given);
        }
        let mut operands = Vec::with_capacity(given.args.len() + 1);
        self.eval_args(dot, &signature, name, given, |operand| {
            operands.push(operand);
        })?;
        if builtin == Builtin::Call {
            self.check_stack()?;
        }
        let meter = self.meter;
        let args = operands.iter().map(|operand| &operand.value);
        let result = match meter.before_call(signature.result, args) {
            Err(error) => Err(error),
            Ok(call) => {
                let result = match builtin {
                    Builtin::Call => {
                        let callee = match given.args.first() {
                            Some(first) => expr_text(first),
                            None => reflected_text(given.last),
                        };
                        let mut context = Context::new(self.templates, self.state, meter);
                        builtin::call(&mut context, &callee, operands)
                    }
                    _ => builtin::run(builtin, operands, meter),
                };
                result.and_then(|operand| {
                    meter.after_call(&call, &operand.value)?;
                    Ok(operand)
                })
            }
        };
        match result {
            Ok(operand) => Ok(operand),
            Err(error) => self.call_failed(name, place, error),
        }
    }

    fn call_failed<T>(&mut self, name: &GoStr, place: Place<'t>, error: FuncError) -> Fallible<T> {
        self.at(place);
        let message = format!("error calling {name}: ");
        Err(self.error(message, Some(error)))
    }

    /// `and` and `or` stop at the first argument that decides.
    fn short_circuit(
        &mut self,
        dot: &Operand,
        builtin: Builtin,
        given: Given<'t, '_>,
    ) -> Fallible<Operand> {
        let mut value = Operand::INVALID;
        for arg in given.args {
            value = self.eval_arg(dot, GoType::Reflected, arg)?;
            if value.value.is_true() == (builtin == Builtin::Or) {
                return Ok(value);
            }
        }
        match given.last.is_missing() {
            true => Ok(value),
            false => self.validate(given.last.clone(), GoType::Reflected),
        }
    }

    fn check_count(
        &self,
        signature: &Signature,
        name: &GoStr,
        given: Given<'t, '_>,
    ) -> Fallible<()> {
        let count = given.args.len() + usize::from(!given.last.is_missing());
        let wanted = signature.params.len();
        if signature.variadic {
            if count + 1 < wanted {
                let (least, got) = (wanted - 1, given.args.len());
                return self.fail(format!(
                    "wrong number of args for {name}: want at least {least} got {got}"
                ));
            }
        } else if count != wanted {
            return self.fail(format!(
                "wrong number of args for {name}: want {wanted} got {count}"
            ));
        }
        Ok(())
    }

    /// Evaluates and checks all arguments in order.
    fn eval_args(
        &mut self,
        dot: &Operand,
        signature: &Signature,
        name: &GoStr,
        given: Given<'t, '_>,
        mut take: impl FnMut(Operand),
    ) -> Fallible<()> {
        self.check_count(signature, name, given)?;
        let param = |index: usize| {
            let last = signature.params.len().saturating_sub(1);
            let param = signature.params.get(index.min(last));
            param.copied().unwrap_or(GoType::Any)
        };
        for (index, arg) in given.args.iter().enumerate() {
            take(self.eval_arg(dot, param(index), arg)?);
        }
        if !given.last.is_missing() {
            take(self.validate(given.last.clone(), param(given.args.len()))?);
        }
        Ok(())
    }

    /// Evaluates an argument for a parameter of a type.
    fn eval_arg(&mut self, dot: &Operand, go_type: GoType, arg: &'t Expr) -> Fallible<Operand> {
        self.at(Place::Expr(arg));
        let operand = match &arg.kind {
            ExprKind::Dot => dot.clone(),
            ExprKind::Nil => {
                if go_type == GoType::Reflected {
                    return Ok(Operand::INVALID);
                }
                if go_type.can_be_nil() {
                    return Ok(Operand::of_type(Value::zero(go_type), go_type));
                }
                return self.fail(format!("cannot assign nil to {go_type}"));
            }
            ExprKind::Field(fields) => self.eval_fields(dot, dot, arg, fields, Given::NOTHING)?,
            ExprKind::Variable(variable, fields) => {
                self.eval_variable(dot, arg, variable, fields, Given::NOTHING)?
            }
            ExprKind::Pipe(pipe) => {
                self.check_stack()?;
                self.eval_pipeline(dot, pipe)?
            }
            ExprKind::Function(function) => {
                let place = Place::Expr(arg);
                self.eval_function(dot, arg, function, place, Given::NOTHING)?
            }
            ExprKind::Chain(inner, fields) => {
                self.eval_chain(dot, arg, inner, fields, Given::NOTHING)?
            }
            ExprKind::Bool(_) | ExprKind::Number(_) | ExprKind::String(..) => {
                return self.eval_typed_constant(dot, go_type, arg);
            }
        };
        self.validate(operand, go_type)
    }

    /// A constant for a parameter: the type of the parameter decides how it is read.
    fn eval_typed_constant(
        &mut self,
        dot: &Operand,
        go_type: GoType,
        arg: &'t Expr,
    ) -> Fallible<Operand> {
        if matches!(go_type, GoType::Any | GoType::Reflected) {
            return self.eval_constant(dot, arg);
        }
        let number = match &arg.kind {
            ExprKind::Number(number) => Some(number),
            _ => None,
        };
        let kind = go_type.kind();
        let (value, wanted) = match kind {
            Kind::Bool => match arg.kind {
                ExprKind::Bool(value) => (Some(Value::Bool(value)), "bool"),
                _ => (None, "bool"),
            },
            Kind::String => match &arg.kind {
                ExprKind::String(text, _) => (Some(Value::String(text.clone())), "string"),
                _ => (None, "string"),
            },
            Kind::Float32 | Kind::Float64 => {
                let value = number.and_then(|number| number.float);
                (value.map(|value| float_of(kind, value)), "float")
            }
            Kind::Complex128 => {
                let value = number.and_then(|number| number.complex);
                (value.map(|(re, im)| Value::Complex128(re, im)), "complex")
            }
            kind if kind.is_signed() => {
                let value = number.and_then(|number| number.int);
                (value.map(|value| signed_of(kind, value)), "integer")
            }
            kind if kind.is_unsigned() => {
                let value = number.and_then(|number| number.uint);
                (
                    value.map(|value| unsigned_of(kind, value)),
                    "unsigned integer",
                )
            }
            _ => {
                let text = expr_text(arg);
                return self.fail(format!("can't handle {text} for arg of type {go_type}"));
            }
        };
        match value {
            Some(value) => Ok(Operand::concrete(value)),
            None => self.fail(format!("expected {wanted}; found {}", expr_text(arg))),
        }
    }

    /// Makes sure that a value can be passed for a parameter.
    fn validate(&self, operand: Operand, go_type: GoType) -> Fallible<Operand> {
        if !operand.is_plain() {
            return match go_type {
                GoType::Reflected => Ok(Operand::INVALID),
                _ if go_type.can_be_nil() => Ok(Operand::of_type(Value::zero(go_type), go_type)),
                _ => self.fail(format!("invalid value; expected {go_type}")),
            };
        }
        if go_type == GoType::Reflected || go_type == GoType::Any {
            return Ok(operand);
        }
        if fits(&operand.value, go_type) {
            return Ok(Operand::concrete(converted(operand.value, go_type)));
        }
        let got = match operand.is_nil_interface() {
            true => GoType::Any.to_string(),
            false => operand.value.type_name(),
        };
        self.fail(format!(
            "wrong type for value; expected {go_type}; got {got}"
        ))
    }
}

/// What Go's reflection says of a value that it is asked to show as text.
fn reflected_text(operand: &Operand) -> String {
    match &operand.value {
        Value::String(text) => text.to_str_lossy().into_owned(),
        Value::Nil => "<invalid Value>".to_owned(),
        other => format!("<{} Value>", other.type_name()),
    }
}

/// Whether a value may be passed for a type; a pointer also for what it points to.
pub(super) fn fits(value: &Value, go_type: GoType) -> bool {
    let Some(own) = value.go_type() else {
        return false;
    };
    if own.assignable_to(go_type) {
        return true;
    }
    match (value, own) {
        (Value::Object(object), _) if go_type == GoType::Error => object.is_error(),
        (_, GoType::Pointer(target)) => target.assignable_to(go_type),
        _ => false,
    }
}

/// A value that fits, under the type of the parameter: a named map becomes a plain one.
fn converted(value: Value, go_type: GoType) -> Value {
    match value {
        Value::Map(map) if map.go_type() != go_type => Value::Map(map.converted(go_type)),
        other => other,
    }
}

#[allow(clippy::cast_possible_truncation)]
fn float_of(kind: Kind, value: f64) -> Value {
    match kind {
        Kind::Float32 => Value::Float32(value as f32),
        _ => Value::Float64(value),
    }
}

/// An integer of a kind; what does not fit is cut off, as Go's reflection does.
#[allow(clippy::cast_possible_truncation)]
pub(super) fn signed_of(kind: Kind, value: i64) -> Value {
    match kind {
        Kind::Int8 => Value::Int8(value as i8),
        Kind::Int16 => Value::Int16(value as i16),
        Kind::Int32 => Value::Int32(value as i32),
        Kind::Int64 => Value::Int64(value),
        _ => Value::Int(value),
    }
}

/// An unsigned integer of a kind; what does not fit is cut off.
#[allow(clippy::cast_possible_truncation)]
pub(super) fn unsigned_of(kind: Kind, value: u64) -> Value {
    match kind {
        Kind::Uint8 => Value::Uint8(value as u8),
        Kind::Uint16 => Value::Uint16(value as u16),
        Kind::Uint32 => Value::Uint32(value as u32),
        Kind::Uint64 => Value::Uint64(value),
        _ => Value::Uint(value),
    }
}

impl Operand {
    /// The value for a parameter of type `interface {}`, nil when there is none.
    pub(super) fn into_any(self) -> Value {
        match self.form {
            Form::Missing | Form::Invalid => Value::Nil,
            Form::Concrete | Form::Addressable | Form::Interface => self.value,
        }
    }
}
