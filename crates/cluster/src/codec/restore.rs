//! Why a plain tree cannot become a Go struct, in the words of the real server's conversion. Patches and applies end
//! with it, other bodies are decoded from text and fail in other words.

use everflow_json::Value;

use super::gotypes::{GoType, types};
use super::json::Json;

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}

/// The first problem, if there is one.
pub fn problem(ty: &GoType, value: &Value) -> Option<String> {
    if value.is_null() || super::convert::is_settled(ty, value) {
        return None;
    }
    match ty {
        GoType::Pointer(inner) => problem(inner, value),
        GoType::Slice(inner) => match value {
            Value::Array(items) => items.iter().find_map(|item| problem(inner, item)),
            _ => Some(format!("cannot restore slice from {}", kind(value))),
        },
        GoType::Map(inner) => match value {
            Value::Object(map) => map.values().find_map(|item| problem(inner, item)),
            _ => Some(format!("cannot restore map from {}", kind(value))),
        },
        GoType::Struct(index) => match value {
            Value::Object(map) => {
                let fields = &types().get(*index).fields;
                let found = map.iter().filter_map(|(key, item)| {
                    let at = fields.iter().position(|field| field.name == key)?;
                    Some((at, problem(&fields[at].ty, item)?))
                });
                // The first one counts in the order of the struct.
                found.min_by_key(|(at, _)| *at).map(|(_, text)| text)
            }
            _ => Some(format!("cannot restore struct from: {}", kind(value))),
        },
        GoType::Int32 | GoType::Int64 | GoType::Float | GoType::Bool | GoType::String(_) => {
            scalar(ty, value)
        }
        GoType::Any | GoType::SchemaOrBool | GoType::SchemaOrArray | GoType::SchemaOrStrings => {
            None
        }
        // These read themselves from text.
        GoType::Bytes
        | GoType::Quantity
        | GoType::IntOrString
        | GoType::Time
        | GoType::MicroTime
        | GoType::Duration => {
            let found = types().decode(ty, &Json::from_value(value)).1.error?;
            let prefix = if *ty == GoType::Bytes {
                "error decoding from json: "
            } else {
                ""
            };
            Some(format!("{prefix}{found}"))
        }
    }
}

fn scalar(ty: &GoType, value: &Value) -> Option<String> {
    let name = match ty {
        GoType::Int32 => "int32",
        GoType::Int64 => "int64",
        GoType::Float => "float64",
        GoType::Bool => "bool",
        _ => "string",
    };
    match (ty, value) {
        (GoType::String(_), Value::String(_))
        | (GoType::Bool, Value::Bool(_))
        | (GoType::Float, Value::Number(_)) => None,
        (GoType::Int32 | GoType::Int64, Value::Number(number)) => {
            let whole = number.as_i64().is_some()
                || number.as_f64().is_some_and(|float| float.fract() == 0.0);
            (!whole).then(|| format!("cannot convert float64 to {name}"))
        }
        (GoType::String(_), Value::Number(_)) => {
            Some(format!("cannot convert {} to string", kind(value)))
        }
        _ => Some(format!("unrecognized type: {name}")),
    }
}

#[cfg(test)]
mod tests {
    use everflow_json::json;

    use super::{problem, types};

    #[test]
    fn problems_are_worded_as_the_conversion_words_them() {
        let deployment = types().kind("apps/v1", "Deployment").unwrap();
        let config_map = types().kind("v1", "ConfigMap").unwrap();
        assert_eq!(
            problem(&deployment, &json!({"spec": {"replicas": 1.5}})).as_deref(),
            Some("cannot convert float64 to int32")
        );
        assert_eq!(
            problem(&config_map, &json!({"data": {"a": ["x"]}})).as_deref(),
            Some("unrecognized type: string")
        );
        assert_eq!(
            problem(&config_map, &json!({"binaryData": {"a": "!"}})).as_deref(),
            Some("error decoding from json: illegal base64 data at input byte 0")
        );
        assert_eq!(problem(&config_map, &json!({"data": {"a": "x"}})), None);
    }
}
