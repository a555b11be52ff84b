//! A schema with a root: a custom resource's own, or a view of a built-in kind's.

use std::collections::BTreeMap;

use everflow_json::Value;

use crate::error::Error;
use crate::model::{Field, JsonType, ObjectType, ScalarKind, Shape, Type, TypeId, TypeTable};
use crate::registry::builtin;
use crate::structural;

/// The name of the built-in type of `metadata`.
pub(crate) const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// A schema of its own: the types of a custom resource and the one where its objects start.
#[derive(Debug, Clone, PartialEq)]
pub struct Schema {
    /// All types.
    pub types: TypeTable,
    /// The type of a whole object.
    pub root: TypeId,
}

impl Schema {
    /// Reads an `openAPIV3Schema` as it stands.
    pub fn from_structural(open_api_v3_schema: &Value) -> Result<Self, Error> {
        structural::parse(open_api_v3_schema)
    }

    /// Reads an `openAPIV3Schema` and adds what every object has: `apiVersion`, `kind` and the
    /// full type of `metadata`, at the root and in embedded resources. This is the schema that
    /// server-side apply and field validation see; constraints on `metadata` stay in place.
    pub fn for_custom_resource(open_api_v3_schema: &Value) -> Result<Self, Error> {
        let mut schema = Self::from_structural(open_api_v3_schema)?;
        schema.complete_objects();
        Ok(schema)
    }

    /// A borrowed view, the form that works for built-in kinds too.
    pub fn view(&self) -> SchemaView<'_> {
        SchemaView {
            types: &self.types,
            root: self.root,
        }
    }

    fn complete_objects(&mut self) {
        let embedded = self
            .types
            .iter()
            .filter(|(_, node)| node.embedded_resource)
            .map(|(id, _)| id);
        let mut objects: Vec<TypeId> = embedded.collect();
        objects.push(self.root);
        let text = self.types.add(Type::plain(
            Some(JsonType::String),
            Shape::Scalar {
                scalar: ScalarKind::String,
                format: None,
            },
        ));
        let metadata = builtin()
            .type_named(OBJECT_META)
            .map(|id| import(&mut self.types, builtin().types(), id));
        for id in objects {
            let Some(node) = self.types.get(id) else {
                continue;
            };
            let mut node = node.clone();
            if matches!(node.shape, Shape::Any) {
                node.shape = Shape::Object(ObjectType::default());
            }
            let Shape::Object(object) = &mut node.shape else {
                continue;
            };
            put_field(object, "apiVersion", text);
            put_field(object, "kind", text);
            if let Some(metadata) = metadata {
                put_field(object, "metadata", metadata);
            }
            self.types.set(id, node);
        }
    }
}

/// A borrowed schema: a table and the type where objects start.
#[derive(Debug, Clone, Copy)]
pub struct SchemaView<'a> {
    /// All types.
    pub types: &'a TypeTable,
    /// The type of a whole object.
    pub root: TypeId,
}

impl<'a> SchemaView<'a> {
    /// The root type.
    pub fn root_type(&self) -> Option<&'a Type> {
        self.types.get(self.root)
    }

    /// The view that starts at another type of the same table.
    pub fn at(&self, root: TypeId) -> SchemaView<'a> {
        SchemaView {
            types: self.types,
            root,
        }
    }
}

fn put_field(object: &mut ObjectType, name: &str, type_id: TypeId) {
    match object
        .fields
        .binary_search_by(|field| field.name.as_str().cmp(name))
    {
        Ok(at) => object.fields.list_mut()[at].type_id = type_id,
        Err(at) => object.fields.list_mut().insert(
            at,
            Field {
                name: name.into(),
                type_id,
                required: false,
                default: None,
                patch: None,
                map_type: None,
                wire: None,
            },
        ),
    }
}

/// Copies a type and all it refers to from one table into another and returns its new id.
pub fn import(into: &mut TypeTable, from: &TypeTable, id: TypeId) -> TypeId {
    let mut known = BTreeMap::new();
    import_with(into, from, id, &mut known)
}

fn import_with(
    into: &mut TypeTable,
    from: &TypeTable,
    id: TypeId,
    known: &mut BTreeMap<TypeId, TypeId>,
) -> TypeId {
    if let Some(done) = known.get(&id) {
        return *done;
    }
    let new_id = into.add(Type::plain(None, Shape::Any));
    known.insert(id, new_id);
    let Some(source) = from.get(id) else {
        return new_id;
    };
    let mut copy = source.clone();
    match &mut copy.shape {
        Shape::Object(object) => {
            for field in object.fields.list_mut() {
                field.type_id = import_with(into, from, field.type_id, known);
            }
            object.additional = object
                .additional
                .map(|value| import_with(into, from, value, known));
        }
        Shape::List(list) => list.item = import_with(into, from, list.item, known),
        _ => {}
    }
    if let Some(validation) = &mut copy.validation {
        let lists = [
            &mut validation.all_of,
            &mut validation.any_of,
            &mut validation.one_of,
        ];
        for nested in lists.into_iter().flatten().chain(validation.not.as_mut()) {
            *nested = import_with(into, from, *nested, known);
        }
    }
    into.set(new_id, copy);
    new_id
}

#[cfg(test)]
mod tests {
    use everflow_json::json;

    use super::*;
    use crate::model::{ListKind, MapType};

    #[test]
    fn a_custom_resource_gets_the_fields_of_every_object() {
        let schema = Schema::for_custom_resource(&json!({
            "type": "object",
            "properties": {
                "metadata": {"type": "object"},
                "spec": {
                    "type": "object",
                    "properties": {
                        "template": {
                            "type": "object",
                            "x-kubernetes-embedded-resource": true,
                            "x-kubernetes-preserve-unknown-fields": true,
                        },
                        "ports": {
                            "type": "array",
                            "x-kubernetes-list-type": "map",
                            "x-kubernetes-list-map-keys": ["port"],
                            "items": {"type": "object", "properties": {"port": {"type": "integer", "default": 80}}},
                        },
                        "labels": {
                            "type": "object",
                            "x-kubernetes-map-type": "atomic",
                            "additionalProperties": {"type": "string"},
                        },
                    },
                },
            },
        }))
        .unwrap();
        let at = |path: &[&str]| {
            schema
                .types
                .walk(schema.root, path.iter().copied())
                .unwrap()
        };
        for path in [
            &["metadata", "ownerReferences"][..],
            &["spec", "template", "metadata", "finalizers"],
        ] {
            assert!(schema.types[at(path)].as_list().is_some(), "{path:?}");
        }
        assert!(
            schema.types[at(&["spec", "template", "kind"])]
                .json_type
                .is_some()
        );
        let ports = schema.types[at(&["spec", "ports"])].as_list().unwrap();
        assert_eq!(
            ports.kind,
            ListKind::Map {
                keys: vec!["port".into()]
            }
        );
        assert_eq!(
            schema.types.field(ports.item, "port").unwrap().default,
            Some(json!(80))
        );
        let labels = schema.types[at(&["spec", "labels"])].as_object().unwrap();
        assert_eq!(labels.map_type, MapType::Atomic);
    }

    #[test]
    fn invalid_schema_is_refused_with_its_path() {
        let cases = [
            (json!([]), "schema: must be an object"),
            (
                json!({"properties": {"a": {"type": "strin"}}}),
                "schema.properties.a: unknown type \"strin\" (string, integer, number, boolean, object or array)",
            ),
            (
                json!({"items": {"minLength": "x"}}),
                "schema.items: minLength must be a number",
            ),
            (
                json!({"anyOf": [{"required": [1]}]}),
                "schema.anyOf[0]: required must be a list of strings",
            ),
            (
                json!({"x-kubernetes-validations": [1]}),
                "schema.x-kubernetes-validations[0]: must be an object",
            ),
        ];
        for (schema, expected) in cases {
            assert_eq!(
                Schema::from_structural(&schema).unwrap_err().to_string(),
                expected
            );
        }
        let mut deep = json!({});
        for _ in 0..500 {
            deep = json!({"items": deep});
        }
        assert!(Schema::from_structural(&deep).is_err());
    }

    #[test]
    fn the_view_of_a_built_in_kind_starts_at_its_type() {
        let view = builtin().schema("apps", "v1", "Deployment").unwrap();
        let containers = view
            .types
            .walk(view.root, ["spec", "template", "spec", "containers"])
            .unwrap();
        let list = view.types[containers].as_list().unwrap();
        assert_eq!(
            list.kind,
            ListKind::Map {
                keys: vec!["name".into()]
            }
        );
        let field = view.types.field(list.item, "image").unwrap();
        assert_eq!(field.wire.unwrap().number, 2);
    }
}
