//! The types whose message looks unlike their JSON.

use crate::model::{Shape, Type};

/// How a message relates to JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Special {
    /// Field by field.
    Plain,
    /// `{1: string}`
    Quantity,
    /// `{1: 0 or 1, 2: integer, 3: string}`
    IntOrString,
    /// `{1: seconds, 2: nanoseconds}`
    Time { micro: bool },
    /// `{1: JSON text}` (`RawExtension`, `FieldsV1`, `JSON`)
    RawJson,
    /// `{1: schema, 2: list of schemas}`
    SchemaOrArray,
    /// `{1: boolean, 2: schema}`
    SchemaOrBool,
    /// `{1: schema, 2: list of strings}`
    SchemaOrStrings,
}

/// The definition that the schema-or-something types hold.
pub(super) const JSON_SCHEMA_PROPS: &str =
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

impl Special {
    pub(super) fn of(node: &Type) -> Self {
        match node.shape {
            Shape::Quantity => return Self::Quantity,
            Shape::IntOrString => return Self::IntOrString,
            Shape::Time => return Self::Time { micro: false },
            Shape::MicroTime => return Self::Time { micro: true },
            _ => {}
        }
        let Some(name) = node.name.as_deref() else {
            return Self::Plain;
        };
        match name.rsplit_once('.').map_or(name, |(_, last)| last) {
            "RawExtension" | "FieldsV1" | "JSON" => Self::RawJson,
            "JSONSchemaPropsOrArray" => Self::SchemaOrArray,
            "JSONSchemaPropsOrBool" => Self::SchemaOrBool,
            "JSONSchemaPropsOrStringArray" => Self::SchemaOrStrings,
            _ => Self::Plain,
        }
    }
}

/// Whole objects inside another kind: messages have no place for their kind, but Kubernetes
/// writes it into JSON. Definition and field, `apiVersion` and kind of the items.
const OBJECTS_INSIDE: [(&str, &str, &str, &str); 1] = [(
    "io.k8s.api.apps.v1.StatefulSetSpec",
    "volumeClaimTemplates",
    "v1",
    "PersistentVolumeClaim",
)];

/// `apiVersion` and kind of the objects that a field holds.
pub(super) fn kind_inside(
    definition: Option<&str>,
    field: &str,
) -> Option<(&'static str, &'static str)> {
    let definition = definition?;
    OBJECTS_INSIDE
        .iter()
        .find(|(holder, name, ..)| *holder == definition && *name == field)
        .map(|(_, _, api_version, kind)| (*api_version, *kind))
}
