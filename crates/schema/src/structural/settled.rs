//! Whether an object already is as it is stored.

use everflow_json::{Map, Value};

use crate::model::{ObjectType, Shape, Type, TypeId, TypeTable};
use crate::schema::SchemaView;

/// Whether [`prune`](super::prune) of a whole object, [`prune_nulls`](super::prune_nulls) and
/// [`apply_defaults`](super::apply_defaults) are known to leave it as it is.
///
/// Nearly all objects are so, and to look is much cheaper than to copy and to change. False means unknown: run all three.
pub fn is_settled(object: &Value, schema: SchemaView<'_>) -> bool {
    let look = Look {
        types: schema.types,
    };
    let (Some(root), Value::Object(fields)) = (schema.types.get(schema.root), object) else {
        return false;
    };
    let Shape::Object(shape) = &root.shape else {
        return false;
    };
    !root.embedded_resource
        && look.has_its_defaults(fields, shape)
        && fields.iter().all(|(name, inner)| {
            // The type of an object and its metadata are not pruned.
            let prunes = !matches!(name.as_str(), "apiVersion" | "kind" | "metadata");
            look.field(name, inner, root, shape, prunes)
        })
}

struct Look<'s> {
    types: &'s TypeTable,
}

impl Look<'_> {
    fn node(&self, value: &Value, node: &Type, prunes: bool) -> bool {
        let keeps_unknown = node.preserve_unknown_fields || !prunes;
        match (value, &node.shape) {
            _ if node.embedded_resource => false,
            (Value::Null, _) => node.nullable,
            (Value::Object(fields), Shape::Object(shape)) => {
                self.has_its_defaults(fields, shape)
                    && fields
                        .iter()
                        .all(|(name, inner)| self.field(name, inner, node, shape, prunes))
            }
            (Value::Array(items), Shape::List(list)) => {
                let Some(node) = self.types.get(list.item) else {
                    return false;
                };
                items.iter().all(|item| self.node(item, node, prunes))
            }
            (Value::Object(_) | Value::Array(_), _) => keeps_unknown || holds_nothing(value),
            _ => true,
        }
    }

    fn field(
        &self,
        name: &str,
        inner: &Value,
        node: &Type,
        shape: &ObjectType,
        prunes: bool,
    ) -> bool {
        match shape.child(name) {
            Some(id) => self.by_id(inner, id, prunes),
            None if shape.additional_allowed.is_some() => !prunes || holds_nothing(inner),
            None => node.preserve_unknown_fields || !prunes,
        }
    }

    fn by_id(&self, value: &Value, id: TypeId, prunes: bool) -> bool {
        self.types
            .get(id)
            .is_some_and(|node| self.node(value, node, prunes))
    }

    /// Nulls are looked at where they stand.
    fn has_its_defaults(&self, fields: &Map, shape: &ObjectType) -> bool {
        let has_default =
            |default: &Option<Value>| default.as_ref().is_some_and(|default| !default.is_null());
        let mut with_default = shape.fields.iter().filter(|one| has_default(&one.default));
        with_default.all(|field| fields.contains_key(&field.name))
    }
}

/// Whether there is no field anywhere inside.
fn holds_nothing(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.iter().all(holds_nothing),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use everflow_json::json;

    use super::*;
    use crate::Schema;
    use crate::structural::{Prune, apply_defaults, prune, prune_nulls};

    #[test]
    fn settled_object_is_not_changed() {
        let schema = Schema::from_structural(&json!({"type": "object", "properties": {
            "metadata": {"type": "object"},
            "spec": {"type": "object", "properties": {
                "size": {"type": "integer", "default": 3},
                "names": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
                    "known": {"type": "object", "properties": {"b": {"type": "string"}}}}},
                "maybe": {"type": "string", "nullable": true}
            }}
        }}))
        .unwrap();
        let cases = [
            (json!({"size": 1}), true),
            (json!({}), false),
            (json!({"size": null}), false),
            (json!({"size": 1, "other": 1}), false),
            (json!({"size": 1, "names": [{"a": "x"}]}), true),
            (json!({"size": 1, "names": [{"b": "x"}]}), false),
            (json!({"size": 1, "names": [{"a": null}]}), false),
            (json!({"size": 1, "labels": {"a": "b"}}), true),
            (
                json!({"size": 1, "open": {"x": {"y": null}, "known": {"b": "c"}}}),
                true,
            ),
            (json!({"size": 1, "open": {"known": {"c": "c"}}}), false),
            (json!({"size": 1, "maybe": null}), true),
        ];
        for (spec, settled) in cases {
            let object = json!({"apiVersion": "a/v1", "kind": "K", "metadata": {"name": "n", "x": {"y": 1}}, "spec": spec});
            let mut changed = object.clone();
            prune(
                &mut changed,
                schema.view(),
                Prune {
                    resource_root: true,
                },
            );
            prune_nulls(&mut changed, schema.view());
            apply_defaults(&mut changed, schema.view());
            assert_eq!(changed == object, settled, "{object}");
            assert_eq!(is_settled(&object, schema.view()), settled, "{object}");
        }
    }
}
