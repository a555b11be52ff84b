//! Objects with nothing set.

use everflow_json::{Map, Value, json};
use everflow_schema::{
    Field, ScalarKind, SchemaView, Shape, Type, TypeTable, WireEncoding, WireField,
};

/// Structs in structs end somewhere; recursive types are behind pointers.
const MAX_LEVELS: usize = 32;

/// An object of a kind with nothing set, as the API server compares a new object with.
///
/// Built-in kinds are Go structs there: nested structs and fields that are never left out exist
/// even when nothing is set, and so are not owned by who creates the object. Custom resources
/// have nothing but their kind.
#[must_use]
pub fn zero_object(schema: SchemaView<'_>, api_version: &str, kind: &str) -> Value {
    let mut object = schema
        .root_type()
        .and_then(|root| zero_struct(schema.types, root, MAX_LEVELS))
        .unwrap_or_default();
    object.insert("apiVersion".into(), json!(api_version));
    object.insert("kind".into(), json!(kind));
    Value::Object(object)
}

fn zero_struct(table: &TypeTable, node: &Type, levels: usize) -> Option<Map> {
    let object = node.as_object().filter(|_| levels > 0)?;
    let fields = object.fields.iter().filter_map(|field| {
        let wire = field.wire?;
        Some((
            field.name.to_string(),
            zero_field(table, field, wire, levels)?,
        ))
    });
    Some(fields.collect())
}

/// The value of an unset field in JSON; none when it is left out.
fn zero_field(table: &TypeTable, field: &Field, wire: WireField, levels: usize) -> Option<Value> {
    let node = table.get(field.type_id)?;
    if wire.pointer {
        return (!wire.omit_empty).then_some(Value::Null);
    }
    match &node.shape {
        Shape::Object(object) if !object.fields.is_empty() => {
            zero_struct(table, node, levels - 1).map(Value::Object)
        }
        // Leaving out empty values does not reach structs; only the creation time is left out
        // when it is zero.
        Shape::Time | Shape::MicroTime => {
            (field.name != "creationTimestamp").then_some(Value::Null)
        }
        Shape::Quantity => Some(json!("0")),
        Shape::IntOrString => Some(json!(0)),
        _ if wire.omit_empty => None,
        Shape::Scalar { scalar, .. } if wire.encoding != WireEncoding::Bytes => {
            Some(match scalar {
                ScalarKind::String => json!(""),
                ScalarKind::Integer | ScalarKind::Number => json!(0),
                ScalarKind::Boolean => json!(false),
            })
        }
        _ => Some(Value::Null),
    }
}
