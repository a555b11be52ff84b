//! From structural schemas to the types that rules see.

use std::collections::BTreeMap;
use std::sync::Arc;

use everflow_schema::{JsonType, ObjectType, Shape, Type, TypeId, TypeTable, Validation};

use crate::check::{DeclShape, DeclType};
use crate::escape::escape;

/// The largest request.
pub(super) const REQUEST: u64 = 3 * 1024 * 1024;
const STRING: u64 = 2;

/// The type of a node; nothing for data that rules cannot see.
pub(super) fn declared(types: &TypeTable, id: TypeId, is_root: bool) -> Option<Arc<DeclType>> {
    let node = types.get(id)?;
    let limit = |limit: Option<i64>| limit.map(|limit| limit.max(0) as u64);
    let validation = node.validation.as_deref();
    if matches!(node.shape, Shape::IntOrString) {
        let length = limit(validation.and_then(|validation| validation.max_length));
        let most = length.map_or(REQUEST - 2, |length| length.saturating_mul(4));
        return Some(plain(DeclShape::Dyn, most, 1));
    }
    match (node.json_type?, &node.shape) {
        (JsonType::Array, Shape::List(list)) => {
            let item = declared(types, list.item, is_embedded(types, list.item))?;
            let most = limit(validation.and_then(|validation| validation.max_items))
                .unwrap_or((REQUEST - 2) / (item.min_size + 1));
            Some(plain(DeclShape::List(item), most, 2))
        }
        (JsonType::Object, shape) => object(types, node, shape, is_root),
        (JsonType::String, _) => Some(string(node, validation)),
        (JsonType::Boolean, _) => Some(plain(DeclShape::Bool, 0, 4)),
        (JsonType::Number, _) => Some(plain(DeclShape::Double, 0, 1)),
        (JsonType::Integer, _) => Some(plain(DeclShape::Int, 0, 1)),
        _ => None,
    }
}

fn plain(shape: DeclShape, max_elements: u64, min_size: u64) -> Arc<DeclType> {
    Arc::new(DeclType {
        shape,
        max_elements,
        min_size,
    })
}

fn is_embedded(types: &TypeTable, id: TypeId) -> bool {
    types.get(id).is_some_and(|node| node.embedded_resource)
}

fn string(node: &Type, validation: Option<&Validation>) -> Arc<DeclType> {
    let format = match &node.shape {
        Shape::Scalar { format, .. } => format.as_deref(),
        _ => None,
    };
    let length = validation.and_then(|validation| validation.max_length);
    let length = length.map(|length| length.max(0) as u64);
    match format {
        Some("byte") => plain(DeclShape::Bytes, length.unwrap_or(REQUEST - 2), STRING),
        Some("duration") => plain(DeclShape::Duration, 32, 3),
        Some("date") => plain(DeclShape::Timestamp, 12, 12),
        Some("date-time") => plain(DeclShape::Timestamp, 32, 21),
        _ => {
            let longest = validation
                .map(|validation| &validation.enum_values)
                .filter(|values| !values.is_empty())
                .map(|values| {
                    let lengths = values.iter().filter_map(|value| value.as_str());
                    lengths.map(|text| text.len() as u64).max().unwrap_or(0)
                });
            let most = match (length, longest) {
                (Some(length), _) => length.saturating_mul(4),
                (None, Some(longest)) => longest,
                (None, None) => REQUEST - 2,
            };
            plain(DeclShape::String, most, STRING)
        }
    }
}

fn object(types: &TypeTable, node: &Type, shape: &Shape, is_root: bool) -> Option<Arc<DeclType>> {
    let empty = ObjectType::default();
    let object = match shape {
        Shape::Object(object) => object,
        _ => &empty,
    };
    if let Some(additional) = object.additional {
        let value = declared(types, additional, is_embedded(types, additional))?;
        let limit = node
            .validation
            .as_ref()
            .and_then(|validation| validation.max_properties);
        let most = limit.map_or((REQUEST - 2) / (value.min_size + 6), |limit| {
            limit.max(0) as u64
        });
        return Some(plain(DeclShape::Map(value), most, 2));
    }
    let mut fields = BTreeMap::new();
    let mut min_size = 2;
    let mut add = |name: &str, decl: Arc<DeclType>, counts: bool| {
        if counts {
            min_size += name.len() as u64 + decl.min_size + 4;
        }
        if let Some(escaped) = escape(name) {
            fields.insert(escaped, decl);
        }
    };
    let adds_metadata = is_root && !has_metadata(types, object);
    for field in &object.fields {
        if adds_metadata && matches!(field.name.as_str(), "kind" | "apiVersion" | "metadata") {
            continue;
        }
        let Some(decl) = declared(types, field.type_id, is_embedded(types, field.type_id)) else {
            continue;
        };
        let default = types
            .get(field.type_id)
            .and_then(|node| node.default.as_ref())
            .or(field.default.as_ref());
        let is_required = object.required.contains(&field.name);
        add(&field.name, decl, is_required && default.is_none());
    }
    if adds_metadata {
        for name in ["kind", "apiVersion", "metadata"] {
            let decl = if name == "metadata" {
                metadata()
            } else {
                text()
            };
            add(
                name,
                decl,
                object.required.iter().any(|known| known == name),
            );
        }
    }
    Some(plain(DeclShape::Object(fields), 0, min_size))
}

fn text() -> Arc<DeclType> {
    plain(DeclShape::String, REQUEST - 2, STRING)
}

/// What rules can see of metadata.
fn metadata() -> Arc<DeclType> {
    let fields = BTreeMap::from([
        ("name".to_owned(), text()),
        ("generateName".to_owned(), text()),
    ]);
    plain(DeclShape::Object(fields), 0, 2)
}

/// Whether the schema of a resource declares all that is always visible.
pub(super) fn has_metadata(types: &TypeTable, object: &ObjectType) -> bool {
    let is = |object: &ObjectType, name: &str, wanted: JsonType| {
        object
            .field(name)
            .and_then(|field| types.get(field.type_id))
            .is_some_and(|node| node.json_type == Some(wanted))
    };
    let metadata = object
        .field("metadata")
        .and_then(|field| types.get(field.type_id))
        .and_then(Type::as_object);
    is(object, "kind", JsonType::String)
        && is(object, "apiVersion", JsonType::String)
        && is(object, "metadata", JsonType::Object)
        && metadata.is_some_and(|metadata| {
            is(metadata, "name", JsonType::String) && is(metadata, "generateName", JsonType::String)
        })
}
