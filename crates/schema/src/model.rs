//! The type model that built-in kinds and custom resources share.
//!
//! A [`TypeTable`] is an arena: every type has a [`TypeId`] and refers to other types by id, so
//! recursive definitions need no indirection and walking is cheap.

use everflow_json::Value;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::fields::Fields;
use crate::validation::Validation;

/// The number of a type in its [`TypeTable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TypeId(pub u32);

/// One node of a schema: what a value may look like and how it merges.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Type {
    /// The OpenAPI definition name (`io.k8s.api.core.v1.Pod`) of a named built-in type.
    pub name: Option<SmolStr>,
    /// The `type` keyword as declared, when there is one.
    pub json_type: Option<JsonType>,
    /// What a value of this type is made of.
    pub shape: Shape,
    /// Whether `null` is a value of this type (`nullable`).
    pub nullable: bool,
    /// The default of this schema node. Structural schemas have it on every node; of built-in
    /// types only the [`Field`] has it.
    #[serde(with = "crate::json_text")]
    pub default: Option<Value>,
    /// `x-kubernetes-preserve-unknown-fields: true` on this node.
    pub preserve_unknown_fields: bool,
    /// `x-kubernetes-embedded-resource: true` on this node.
    pub embedded_resource: bool,
    /// Value constraints; built-in types have none in their published schema.
    pub validation: Option<Box<Validation>>,
}

impl Type {
    /// A nameless type of the given shape without any further facts.
    pub fn plain(json_type: Option<JsonType>, shape: Shape) -> Self {
        Self {
            name: None,
            json_type,
            shape,
            nullable: false,
            default: None,
            preserve_unknown_fields: false,
            embedded_resource: false,
            validation: None,
        }
    }

    /// The object shape, when this is an object or map.
    pub fn as_object(&self) -> Option<&ObjectType> {
        match &self.shape {
            Shape::Object(object) => Some(object),
            _ => None,
        }
    }

    /// The list shape, when this is a list.
    pub fn as_list(&self) -> Option<&ListType> {
        match &self.shape {
            Shape::List(list) => Some(list),
            _ => None,
        }
    }
}

/// The `type` keyword of OpenAPI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum JsonType {
    /// `string`
    String,
    /// `integer`
    Integer,
    /// `number`
    Number,
    /// `boolean`
    Boolean,
    /// `object`
    Object,
    /// `array`
    Array,
}

impl JsonType {
    /// The keyword's text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Object => "object",
            Self::Array => "array",
        }
    }

    /// The type with the given keyword.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "string" => Self::String,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            "object" => Self::Object,
            "array" => Self::Array,
            _ => return None,
        })
    }
}

/// What values of a type are made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Shape {
    /// Anything: no type is declared (`apiextensions.v1.JSON`, a CRD node that only says
    /// preserve-unknown-fields).
    Any,
    /// A string, number, integer or boolean.
    Scalar {
        /// Which of them.
        scalar: ScalarKind,
        /// The `format` keyword (`int32`, `byte`, `date-time`, `duration` and others).
        format: Option<SmolStr>,
    },
    /// An integer or a string (`intstr.IntOrString`, `x-kubernetes-int-or-string`).
    IntOrString,
    /// `resource.Quantity`: a string or a number, compared and printed in canonical form.
    Quantity,
    /// `metav1.Time`: RFC 3339 in whole seconds.
    Time,
    /// `metav1.MicroTime`: RFC 3339 with exactly six decimals.
    MicroTime,
    /// An object with known fields, a map, or a free-form object.
    Object(ObjectType),
    /// A list.
    List(ListType),
}

/// The scalar JSON types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ScalarKind {
    /// A string.
    String,
    /// An integer.
    Integer,
    /// A number.
    Number,
    /// A boolean.
    Boolean,
}

/// An object: known fields, or a map from any key to one type, or (neither) a free-form object.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ObjectType {
    /// The known fields, sorted by name.
    pub fields: Fields,
    /// The type of the values under all other keys (`additionalProperties: SCHEMA`).
    pub additional: Option<TypeId>,
    /// `additionalProperties` as a boolean, where it is one.
    pub additional_allowed: Option<bool>,
    /// The names listed in `required`, in the order of the schema.
    pub required: Vec<SmolStr>,
    /// Whether server-side apply merges the object field by field or replaces it whole.
    pub map_type: MapType,
    /// Whether the schema says `x-kubernetes-map-type` itself.
    pub map_type_declared: bool,
}

impl ObjectType {
    /// The field with the given JSON name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.find(name)
    }

    /// The type of the value under a key: a known field's, or that of additional properties.
    pub fn child(&self, key: &str) -> Option<TypeId> {
        self.field(key)
            .map(|field| field.type_id)
            .or(self.additional)
    }

    /// Whether the object has neither known fields nor a type for its values.
    pub fn is_free_form(&self) -> bool {
        self.fields.is_empty() && self.additional.is_none()
    }
}

/// `x-kubernetes-map-type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum MapType {
    /// Merged key by key.
    #[default]
    Granular,
    /// One value: the last applier owns it whole.
    Atomic,
}

/// A list and how its items merge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ListType {
    /// The type of the items.
    pub item: TypeId,
    /// `x-kubernetes-list-type`; a list without one is atomic.
    pub kind: ListKind,
    /// Whether the schema says `x-kubernetes-list-type` itself.
    pub kind_declared: bool,
}

/// `x-kubernetes-list-type` with its keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ListKind {
    /// One value: the last applier owns it whole.
    Atomic,
    /// A set of scalars.
    Set,
    /// A map: items with the same values in these fields are the same item.
    Map {
        /// `x-kubernetes-list-map-keys`, in the order of the schema.
        keys: Vec<SmolStr>,
    },
}

/// A known field of an object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Field {
    /// The name in JSON.
    pub name: SmolStr,
    /// The type of the value.
    pub type_id: TypeId,
    /// Whether the schema's `required` names the field.
    pub required: bool,
    /// The default in the schema.
    #[serde(with = "crate::json_text")]
    pub default: Option<Value>,
    /// `x-kubernetes-patch-strategy` and `x-kubernetes-patch-merge-key`.
    pub patch: Option<Box<PatchRule>>,
    /// `x-kubernetes-map-type` declared on the field, which overrides that of its type.
    pub map_type: Option<MapType>,
    /// How the field travels in protobuf and when Go leaves it out of JSON.
    pub wire: Option<WireField>,
}

/// How strategic merge patch treats a field.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PatchRule {
    /// Items or fields are merged.
    pub merge: bool,
    /// The value is replaced.
    pub replace: bool,
    /// `$retainKeys` clears the fields it does not list.
    pub retain_keys: bool,
    /// The field that tells items of a merged list apart; lists of scalars have none.
    pub merge_key: Option<SmolStr>,
}

impl PatchRule {
    /// Reads the comma-separated text of `x-kubernetes-patch-strategy`.
    pub fn parse(strategy: &str, merge_key: Option<&str>) -> Self {
        let has = |name: &str| strategy.split(',').any(|part| part == name);
        Self {
            merge: has("merge"),
            replace: has("replace"),
            retain_keys: has("retainKeys"),
            merge_key: merge_key.map(SmolStr::new),
        }
    }

    /// The text of `x-kubernetes-patch-strategy`.
    pub fn strategy_text(&self) -> String {
        let mut parts = Vec::new();
        if self.merge {
            parts.push("merge");
        }
        if self.replace {
            parts.push("replace");
        }
        if self.retain_keys {
            parts.push("retainKeys");
        }
        parts.join(",")
    }
}

/// A field's place in the protobuf message, and the Go facts that decide what JSON shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireField {
    /// The protobuf field number.
    pub number: u32,
    /// The numbers of the messages that hold the field where JSON has it inline (a volume's
    /// source), outermost first; 0 stands for none.
    pub embedded_in: [u32; 2],
    /// How the value is encoded.
    pub encoding: WireEncoding,
    /// The Go field is a pointer: a zero value on the wire was set on purpose.
    pub pointer: bool,
    /// JSON leaves the empty value out: the Go tag has `omitempty` (which Go ignores on structs)
    /// or `omitzero`.
    pub omit_empty: bool,
}

/// Protobuf encodings in use by Kubernetes' messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WireEncoding {
    /// A variable-length integer (int32, int64).
    Varint,
    /// A variable-length integer that is a boolean.
    Bool,
    /// Eight bytes holding a double.
    Double,
    /// Four bytes holding a float.
    Float,
    /// UTF-8 text.
    String,
    /// Bytes, base64 in JSON.
    Bytes,
    /// A nested message, by the shape of the field's type.
    Message,
    /// A list inside a message of its own, in its field 1 (`ExtraValue`, `Verbs`).
    ListMessage,
}

/// All types of one schema.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TypeTable {
    types: Vec<Type>,
}

impl TypeTable {
    /// A table without types.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a type and returns its id.
    pub fn add(&mut self, new: Type) -> TypeId {
        let id = TypeId(u32::try_from(self.types.len()).unwrap_or(u32::MAX));
        self.types.push(new);
        id
    }

    /// Replaces the type behind an id handed out by [`TypeTable::add`]; unknown ids change nothing.
    pub fn set(&mut self, id: TypeId, new: Type) {
        if let Some(slot) = self.types.get_mut(id.0 as usize) {
            *slot = new;
        }
    }

    /// The type with the given id.
    pub fn get(&self, id: TypeId) -> Option<&Type> {
        self.types.get(id.0 as usize)
    }

    /// How many types there are.
    pub fn len(&self) -> usize {
        self.types.len()
    }

    /// Whether there are no types.
    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
    }

    /// All types in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (TypeId, &Type)> {
        (0u32..).map(TypeId).zip(self.types.iter())
    }

    /// The type under a key of an object type.
    pub fn child(&self, id: TypeId, key: &str) -> Option<TypeId> {
        self.get(id)?.as_object()?.child(key)
    }

    /// The field with the given name of an object type.
    pub fn field(&self, id: TypeId, name: &str) -> Option<&Field> {
        self.get(id)?.as_object()?.field(name)
    }

    /// The type of a list's items.
    pub fn item(&self, id: TypeId) -> Option<TypeId> {
        self.get(id)?.as_list().map(|list| list.item)
    }

    /// Follows a path of keys; a list is entered by any step, which is then not looked at.
    pub fn walk<'p>(
        &self,
        from: TypeId,
        path: impl IntoIterator<Item = &'p str>,
    ) -> Option<TypeId> {
        path.into_iter().try_fold(from, |id, step| {
            self.item(id).or_else(|| self.child(id, step))
        })
    }
}

impl std::ops::Index<TypeId> for TypeTable {
    type Output = Type;

    /// The type with the given id. Ids are only valid in the table that handed them out.
    fn index(&self, id: TypeId) -> &Type {
        &self.types[id.0 as usize]
    }
}
