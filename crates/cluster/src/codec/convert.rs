//! Turning a plain tree into what its Go type would print, in place: what already reads as Go would write it stays
//! where it is.

use everflow_json::{Map, Value};

use super::gotypes::{GoField, GoType, is_empty, types};
use super::json::Json;

/// As [`super::gotypes::GoTypes::convert`], without a copy of what stays the same.
pub fn convert(ty: &GoType, value: &mut Value) {
    match (ty, &mut *value) {
        (GoType::Any, _) => {}
        (GoType::Pointer(inner), Value::Object(_) | Value::Array(_)) => convert(inner, value),
        (GoType::Slice(inner), Value::Array(items)) => {
            items.iter_mut().for_each(|item| convert(inner, item));
        }
        (GoType::Map(inner), Value::Object(map)) => {
            map.values_mut().for_each(|item| convert(inner, item));
        }
        (GoType::Struct(index), Value::Object(map)) => convert_struct(*index, map),
        (ty, value) if !is_settled(ty, value) => {
            *value = types().convert(ty, &Json::from_value(value));
        }
        _ => {}
    }
}

fn convert_struct(index: usize, map: &mut Map) {
    let fields = &types().get(index).fields;
    map.retain(|key, value| {
        let Some(field) = fields.iter().find(|field| field.name == key) else {
            return false;
        };
        convert(&field.ty, value);
        is_written(field, value)
    });
    for field in fields.iter().filter(|field| writes_zero(field)) {
        if !map.contains_key(field.name) {
            map.insert(field.name.into(), types().zero(&field.ty));
        }
    }
}

fn is_written(field: &GoField, value: &Value) -> bool {
    if field.omit_empty && is_empty(&field.ty, value) {
        return false;
    }
    !(field.omit_zero && (value.is_null() || *value == types().zero(&field.ty)))
}

/// Whether a field that was never set is written all the same.
fn writes_zero(field: &GoField) -> bool {
    let zero_is_empty = !matches!(
        field.ty,
        GoType::Struct(_)
            | GoType::Time
            | GoType::MicroTime
            | GoType::Any
            | GoType::Quantity
            | GoType::IntOrString
            | GoType::Duration
    );
    !(field.omit_zero || field.omit_empty && zero_is_empty)
}

/// What a field of a struct reads as when nobody set it, if it is written at all.
pub fn unset_field(ty: &GoType, name: &str) -> Option<Value> {
    let GoType::Struct(index) = ty else {
        return None;
    };
    let fields = &types().get(*index).fields;
    let field = fields.iter().find(|field| field.name == name)?;
    writes_zero(field).then(|| types().zero(&field.ty))
}

/// Whether a single value surely reads as Go writes it. False means unknown: convert it.
pub fn is_settled(ty: &GoType, value: &Value) -> bool {
    match (ty, value) {
        (GoType::Pointer(inner), value) => value.is_null() || is_settled(inner, value),
        (GoType::String(_) | GoType::IntOrString | GoType::Duration, Value::String(_))
        | (GoType::Bool, Value::Bool(_))
        | (GoType::Float, Value::Number(_))
        | (
            GoType::Slice(_) | GoType::Map(_) | GoType::Time | GoType::MicroTime | GoType::Bytes,
            Value::Null,
        ) => true,
        (GoType::Int64, Value::Number(number)) => number.is_i64(),
        (GoType::Int32 | GoType::IntOrString, Value::Number(number)) => number
            .as_i64()
            .is_some_and(|whole| i32::try_from(whole).is_ok()),
        (GoType::Time, Value::String(text)) => is_canonical_time(text),
        _ => false,
    }
}

/// Whether a text is a time to the second in UTC, as Go prints it. The last days of months are not looked into.
fn is_canonical_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    let two = |at: usize| usize::from(bytes[at] - b'0') * 10 + usize::from(bytes[at + 1] - b'0');
    bytes.len() == 20
        && bytes
            .iter()
            .zip(b"0000-00-00T00:00:00Z")
            .all(|(byte, shape)| match shape {
                b'0' => byte.is_ascii_digit(),
                mark => byte == mark,
            })
        && (1..=12).contains(&two(5))
        && (1..=28).contains(&two(8))
        && two(11) < 24
        && two(14) < 60
        && two(17) < 60
        && two(0) > 0
}

#[cfg(test)]
mod tests {
    use everflow_json::json;

    use super::*;

    #[test]
    fn converting_in_place_gives_what_converting_a_copy_gives() {
        let odd = [
            json!(null),
            json!({}),
            json!([]),
            json!(""),
            json!(0),
            json!(false),
            json!(1.5),
            json!(5_000_000_000_i64),
            json!(u64::MAX),
            json!("x"),
            json!("1500m"),
            json!("YQ=="),
            json!("2024-02-03T04:05:06Z"),
            json!("2024-02-30T04:05:06Z"),
            json!("2024-02-03T04:05:06.5+01:00"),
            json!(["a", 1, null, {}]),
            json!({"a": "b", "c": 1}),
        ];
        for (version, kind) in [
            ("v1", "Pod"),
            ("v1", "ConfigMap"),
            ("v1", "Secret"),
            ("apps/v1", "Deployment"),
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
            ("coordination.k8s.io/v1", "Lease"),
            ("networking.k8s.io/v1", "Ingress"),
        ] {
            let ty = types().kind(version, kind).unwrap();
            try_fields(&ty, &odd, 0);
        }
    }

    /// Puts odd values into every field of a struct, then looks into its parts.
    fn try_fields(ty: &GoType, odd: &[Value], depth: usize) {
        match ty {
            GoType::Pointer(inner) | GoType::Slice(inner) | GoType::Map(inner) => {
                try_fields(inner, odd, depth);
            }
            GoType::Struct(index) if depth < 5 => {
                for field in &types().get(*index).fields {
                    for value in odd {
                        let mut map = Map::new();
                        map.insert(field.name.into(), value.clone());
                        map.insert("unknown".into(), value.clone());
                        let mut object = Value::Object(map);
                        let expected = types().convert(ty, &Json::from_value(&object));
                        convert(ty, &mut object);
                        assert_eq!(object, expected, "{} {value}", field.name);
                    }
                    try_fields(&field.ty, odd, depth + 1);
                }
            }
            _ => {}
        }
    }

    #[test]
    fn unset_fields_are_written_with_their_zero_values() {
        for (version, kind) in [("apps/v1", "Deployment"), ("v1", "Service"), ("v1", "Node")] {
            let ty = types().kind(version, kind).unwrap();
            let whole = types().convert(&ty, &Json::Object(Vec::new()));
            for name in ["status", "spec", "metadata", "kind"] {
                assert_eq!(
                    unset_field(&ty, name).as_ref(),
                    whole.get(name),
                    "{kind} {name}"
                );
            }
        }
    }
}
