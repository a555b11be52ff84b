//! Go's own functions.

use super::call::{fits, signed_of, unsigned_of};
use super::compare;
use super::escape;
use super::index;
use super::operand::Operand;
use crate::error::FuncError;
use crate::function::{Args, Context, Signature};
use crate::gofmt::{self, Methods};
use crate::meter::Meter;
use crate::parse::ast::Builtin;
use crate::text::GoStr;
use crate::types::{GoType, Kind};
use crate::value::Value;

type BuiltinResult = Result<Operand, FuncError>;

/// What a builtin takes. The result type is never looked at.
pub(super) fn signature(builtin: Builtin) -> Signature {
    const R: GoType = GoType::Reflected;
    match builtin {
        Builtin::And | Builtin::Or | Builtin::Call | Builtin::Eq => Signature::variadic(&[R, R], R),
        Builtin::Index | Builtin::Slice => Signature::variadic(&[R, R], R),
        Builtin::Ge | Builtin::Gt | Builtin::Le | Builtin::Lt | Builtin::Ne => {
            Signature::new(&[R, R], GoType::Bool)
        }
        Builtin::Len => Signature::new(&[R], GoType::Int),
        Builtin::Not => Signature::new(&[R], GoType::Bool),
        Builtin::Html | Builtin::Js | Builtin::UrlQuery | Builtin::Print | Builtin::Println => {
            Signature::variadic(&[GoType::Any], GoType::String)
        }
        Builtin::Printf => Signature::variadic(&[GoType::String, GoType::Any], GoType::String),
    }
}

/// Runs a builtin other than `and`, `or` and `call`.
pub(super) fn run(builtin: Builtin, args: Vec<Operand>, meter: &Meter<'_>) -> BuiltinResult {
    let boolean =
        |result: Result<bool, FuncError>| result.map(|value| Operand::concrete(Value::Bool(value)));
    let less_or_equal = |first, second| compare::less_or_equal(first, second, meter);
    match builtin {
        Builtin::Eq => boolean(compare::eq(args, meter)),
        Builtin::Ne => boolean(compare::eq(args, meter).map(|equal| !equal)),
        Builtin::Lt => boolean(two(args, compare::less)),
        Builtin::Le => boolean(two(args, less_or_equal)),
        Builtin::Gt => boolean(two(args, less_or_equal).map(|le| !le)),
        Builtin::Ge => boolean(two(args, compare::less).map(|lt| !lt)),
        Builtin::Not => {
            let truth = args.first().is_some_and(|arg| arg.value.is_true());
            boolean(Ok(!truth))
        }
        Builtin::Len => index::len(args.first().unwrap_or(&Operand::INVALID)),
        Builtin::Index => index::index(args),
        Builtin::Slice => index::slice(args),
        Builtin::And | Builtin::Or | Builtin::Call => Err(FuncError::new("handled elsewhere")),
        _ => {
            let values: Vec<Value> = args.into_iter().map(Operand::into_any).collect();
            text_function(builtin, &values, meter)
                .map(|text| Operand::concrete(Value::String(text)))
        }
    }
}

fn two(
    args: Vec<Operand>,
    compare: impl FnOnce(Operand, Operand) -> Result<bool, FuncError>,
) -> Result<bool, FuncError> {
    let mut args = args.into_iter();
    let first = args.next().unwrap_or(Operand::INVALID);
    let second = args.next().unwrap_or(Operand::INVALID);
    compare(first, second)
}

fn text_function(
    builtin: Builtin,
    values: &[Value],
    meter: &Meter<'_>,
) -> Result<GoStr, FuncError> {
    match builtin {
        Builtin::Print => gofmt::sprint(values, meter),
        Builtin::Println => gofmt::sprintln(values, meter),
        Builtin::Printf => {
            let Some((Value::String(format), rest)) = values.split_first() else {
                return Err(FuncError::new("printf needs a format"));
            };
            gofmt::sprintf(format.as_bytes(), rest, meter)
        }
        _ => {
            let text = printed(values, meter)?;
            // Every character may become six.
            let most = 6 * text.len();
            meter.charge(most)?;
            let escaped = match builtin {
                Builtin::Html => escape::html(&text),
                Builtin::Js => escape::js(&text),
                _ => escape::url_query(&text),
            };
            meter.release(most);
            Ok(escaped)
        }
    }
}

/// The text of the arguments of an escaping function: nil is `<no value>`, pointers are followed.
fn printed(values: &[Value], meter: &Meter<'_>) -> Result<GoStr, FuncError> {
    if let [Value::String(text)] = values {
        return Ok(text.clone());
    }
    let mut out = Vec::new();
    let mut after_string = true;
    for (index, value) in values.iter().enumerate() {
        // The replacement for nil is itself a string.
        let is_string = matches!(value.kind(), Kind::String | Kind::Invalid);
        if index > 0 && !is_string && !after_string {
            out.push(b' ');
        }
        match value {
            Value::Nil => out.extend_from_slice(b"<no value>"),
            value => gofmt::append_printable(&mut out, value, Methods::Own, meter)?,
        }
        after_string = is_string;
    }
    Ok(GoStr::from_vec(out))
}

/// `call fn args`: a function value with arguments.
pub(super) fn call(context: &mut Context<'_>, name: &str, args: Vec<Operand>) -> BuiltinResult {
    let mut args = args.into_iter().map(Operand::inside);
    let callee = args.next().unwrap_or(Operand::INVALID);
    let function = match callee.value {
        Value::Nil => return Err(FuncError::new("call of nil")),
        Value::Func(function) => function,
        other => {
            let go_type = other.type_name();
            return Err(format!("non-function {name} of type {go_type}").into());
        }
    };
    let signature = &function.signature;
    let (got, wanted) = (args.len(), signature.params.len());
    if signature.variadic && got + 1 < wanted {
        let least = wanted - 1;
        return Err(
            format!("wrong number of args for {name}: got {got} want at least {least}").into(),
        );
    }
    if !signature.variadic && got != wanted {
        return Err(format!("wrong number of args for {name}: got {got} want {wanted}").into());
    }
    let mut values = Vec::with_capacity(got);
    for (position, arg) in args.enumerate() {
        let param = signature.params.get(position.min(wanted.saturating_sub(1)));
        let param = param.copied().unwrap_or(GoType::Any);
        match prepare(arg, param) {
            Ok(value) => values.push(value),
            Err(error) => return Err(format!("arg {position}: {error}").into()),
        }
    }
    let result = (function.code)(context, Args::new(&values))?;
    Ok(Operand::of_type(result, signature.result))
}

/// Makes an argument fit a parameter; integers are converted between their types.
pub(super) fn prepare(arg: Operand, go_type: GoType) -> Result<Value, FuncError> {
    if arg.is_invalid() {
        return match go_type.can_be_nil() {
            true => Ok(Value::zero(go_type)),
            false => Err(format!("value is nil; should be of type {go_type}").into()),
        };
    }
    if go_type == GoType::Any || fits(&arg.value, go_type) {
        return Ok(arg.value);
    }
    let bits = match (arg.value.as_int(), arg.value.as_uint()) {
        (Some(n), _) => Some(n),
        (None, Some(n)) => Some(n.cast_signed()),
        (None, None) => None,
    };
    match (bits, go_type.kind()) {
        (Some(n), kind) if kind.is_signed() => Ok(signed_of(kind, n)),
        (Some(n), kind) if kind.is_unsigned() => Ok(unsigned_of(kind, n.cast_unsigned())),
        _ => {
            let own = arg.value.type_name();
            Err(format!("value has type {own}; should be {go_type}").into())
        }
    }
}
