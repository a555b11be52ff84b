//! `common.Values`, the type of `.Values` and `.Template`.

use everflow_gotemplate::{
    Args, Context, FuncError, FuncResult, GoType, Map, Method, NamedType, Signature, Value,
};
use everflow_sprig::cost;

use crate::values::{path_value, table};

/// A map that functions asking for a plain `map[string]interface {}` by assertion do not take.
pub static VALUES_TYPE: NamedType = NamedType {
    name: "common.Values",
    underlying: GoType::ANY_MAP,
    methods: &[
        method("AsMap", &[], GoType::ANY_MAP, as_map),
        method("PathValue", &[GoType::String], GoType::Any, at_path),
        method(
            "Table",
            &[GoType::String],
            GoType::Named(&VALUES_TYPE),
            table_at,
        ),
        method("YAML", &[], GoType::String, yaml),
    ],
};

const fn method(
    name: &'static str,
    params: &'static [GoType],
    result: GoType,
    call: fn(&mut Context<'_>, &Value, Args<'_>) -> FuncResult,
) -> Method {
    Method {
        name,
        signature: Signature::new(params, result),
        call,
    }
}

fn entries(receiver: &Value) -> Map {
    receiver.as_map().cloned().unwrap_or_default()
}

fn as_map(_: &mut Context<'_>, receiver: &Value, _: Args<'_>) -> FuncResult {
    let values = entries(receiver);
    Ok(Value::Map(match values.is_empty() {
        true => Map::new(),
        false => values.converted(GoType::ANY_MAP),
    }))
}

fn at_path(_: &mut Context<'_>, receiver: &Value, args: Args<'_>) -> FuncResult {
    path_value(&entries(receiver), &args.text(0)?.to_str_lossy())
        .map_err(|error| FuncError::new(error.to_string()))
}

fn table_at(_: &mut Context<'_>, receiver: &Value, args: Args<'_>) -> FuncResult {
    table(&entries(receiver), &args.text(0)?.to_str_lossy())
        .map(|found| Value::Map(found.converted(GoType::Named(&VALUES_TYPE))))
        .map_err(|error| FuncError::new(error.to_string()))
}

fn yaml(context: &mut Context<'_>, receiver: &Value, _: Args<'_>) -> FuncResult {
    let meter = context.meter();
    let tree = receiver
        .to_json(meter)
        .map_err(|error| match error.exceeded() {
            Some(_) => error,
            None => format!("error marshaling into JSON: {error}").into(),
        })?;
    let _held = meter.hold(cost::of_printing(&tree))?;
    Ok(Value::string(everflow_yaml::emit::sigs(&tree)))
}
