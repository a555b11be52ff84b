//! How the schema model looks to the structured merge.
//!
//! Structured merge knows three sorts of types: scalars, lists and maps, where a struct is a map
//! with declared fields. A type may allow several sorts at once; then the value decides. Parts
//! without a declared type are deduced from their values: maps merge key by key, lists are one
//! value.

use everflow_json::Value;
use everflow_schema::{
    Field, ListKind, MapType, ObjectType, ScalarKind, SchemaView, Shape, Type, TypeId, TypeTable,
};
use smol_str::SmolStr;

pub(super) const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";

/// The scalar types that structured merge tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scalar {
    Numeric,
    String,
    Boolean,
    Untyped,
}

/// A type as structured merge sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TypeView<'s> {
    table: &'s TypeTable,
    pub(super) node: TypeNode<'s>,
    /// An enclosing node asks to keep unknown fields; this reaches everything below it.
    preserve: bool,
    /// The relationship that a field declares in place of its type's own.
    map_type: Option<MapType>,
    /// The merge key of a list without a list type of its own.
    fallback_keys: Option<&'s [SmolStr]>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum TypeNode<'s> {
    Declared(&'s Type),
    /// Maps merge by key, lists are atomic.
    Deduced,
    /// Everything is one value.
    Atomic,
}

/// The sorts of values that a type allows, after a value has narrowed them down.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Atom<'s> {
    pub(crate) scalar: Option<Scalar>,
    pub(crate) list: Option<ListView<'s>>,
    pub(crate) map: Option<MapView<'s>>,
}

/// A list type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListView<'s> {
    pub(crate) item: TypeView<'s>,
    /// None for an atomic list; the keys (none of them: a set) for an associative one.
    pub(crate) associative: Option<&'s [SmolStr]>,
}

/// A map or struct type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MapView<'s> {
    table: &'s TypeTable,
    object: Option<&'s ObjectType>,
    preserve: bool,
    /// The type of undeclared keys; none when they are not allowed.
    pub(crate) element: Option<TypeView<'s>>,
    pub(crate) atomic: bool,
    /// A map of unknown content: reconciliation leaves it alone.
    pub(crate) is_deduced: bool,
}

impl<'s> TypeView<'s> {
    /// The type of whole objects of a schema.
    pub(crate) fn root(schema: SchemaView<'s>) -> Option<Self> {
        schema
            .root_type()
            .map(|root| Self::declared(schema.types, root, false))
    }

    fn declared(table: &'s TypeTable, node: &'s Type, preserve: bool) -> Self {
        // A named type is shared: what its users preserve does not reach into it.
        let inherited = preserve && node.name.is_none();
        Self {
            table,
            node: TypeNode::Declared(node),
            preserve: inherited || node.preserve_unknown_fields,
            map_type: None,
            fallback_keys: None,
        }
    }

    fn special(table: &'s TypeTable, node: TypeNode<'s>) -> Self {
        Self {
            table,
            node,
            preserve: false,
            map_type: None,
            fallback_keys: None,
        }
    }

    fn by_id(table: &'s TypeTable, id: TypeId, preserve: bool) -> Self {
        match table.get(id) {
            Some(node) => Self::declared(table, node, preserve),
            None => Self::special(table, TypeNode::Deduced),
        }
    }

    fn of_field(table: &'s TypeTable, field: &'s Field, preserve: bool) -> Self {
        let mut view = Self::by_id(table, field.type_id, preserve);
        view.map_type = field.map_type;
        if let Some(rule) = field.patch.as_deref().filter(|rule| rule.merge) {
            view.fallback_keys = Some(rule.merge_key.as_slice());
        }
        view
    }

    /// The type of a field that is declared here.
    pub(super) fn of_declared(self, field: &'s Field) -> Self {
        Self::of_field(self.table, field, self.preserve)
    }

    /// The type under a key of an object that is declared here; none when the key is not allowed.
    pub(super) fn of_key(self, object: &'s ObjectType, key: &str) -> Option<Self> {
        match object.field(key) {
            Some(field) => Some(self.of_declared(field)),
            None => self.map_of(object).element,
        }
    }

    /// Whether an object that is declared here is one value.
    pub(super) fn is_atomic(self, object: &ObjectType) -> bool {
        self.map_type.unwrap_or(object.map_type) == MapType::Atomic
    }

    /// The sorts of values that the type allows.
    pub(crate) fn atom(self) -> Atom<'s> {
        let node = match self.node {
            TypeNode::Declared(node) => node,
            TypeNode::Deduced => return self.untyped(false),
            TypeNode::Atomic => return self.untyped(true),
        };
        let mut atom = Atom {
            scalar: None,
            list: None,
            map: None,
        };
        match &node.shape {
            Shape::Any | Shape::IntOrString => return self.untyped(false),
            Shape::Quantity | Shape::Time | Shape::MicroTime => atom.scalar = Some(Scalar::Untyped),
            Shape::Scalar { scalar, format } => {
                atom.scalar = Some(scalar_of(*scalar, format.as_deref()));
            }
            Shape::Object(_) if node.name.as_deref() == Some(RAW_EXTENSION) => {
                return self.untyped(true);
            }
            Shape::Object(object) => {
                atom.map = Some(self.map_of(object));
                if node.json_type.is_none() {
                    let rest = self.untyped(false);
                    (atom.scalar, atom.list) = (rest.scalar, rest.list);
                }
            }
            Shape::List(list) => {
                let associative = match &list.kind {
                    ListKind::Atomic if list.kind_declared => None,
                    ListKind::Atomic => self.fallback_keys,
                    ListKind::Set => Some(&[] as &[SmolStr]),
                    ListKind::Map { keys } => Some(keys.as_slice()),
                };
                let associative = match self.map_type {
                    Some(MapType::Atomic) => None,
                    _ => associative,
                };
                let item = Self::by_id(self.table, list.item, self.preserve);
                atom.list = Some(ListView { item, associative });
                if node.json_type.is_none() {
                    let rest = self.untyped(false);
                    (atom.scalar, atom.map) = (rest.scalar, rest.map);
                }
            }
        }
        atom
    }

    fn untyped(self, atomic: bool) -> Atom<'s> {
        let whole = Self::special(self.table, TypeNode::Atomic);
        let element = if atomic {
            whole
        } else {
            Self::special(self.table, TypeNode::Deduced)
        };
        Atom {
            scalar: Some(Scalar::Untyped),
            list: Some(ListView {
                item: whole,
                associative: None,
            }),
            map: Some(MapView {
                table: self.table,
                object: None,
                preserve: false,
                element: Some(element),
                atomic: atomic || self.map_type == Some(MapType::Atomic),
                is_deduced: !atomic,
            }),
        }
    }

    pub(super) fn map_of(self, object: &'s ObjectType) -> MapView<'s> {
        let deduced = || Some(Self::special(self.table, TypeNode::Deduced));
        let mut is_deduced = false;
        let element = match (object.additional, object.additional_allowed) {
            (Some(id), _) => Some(Self::by_id(self.table, id, self.preserve)),
            (None, Some(true)) => deduced(),
            (None, Some(false)) => None,
            (None, None) if self.preserve || object.fields.is_empty() => deduced(),
            (None, None) => None,
        };
        if object.additional.is_none() && element.is_some() && object.fields.is_empty() {
            is_deduced = true;
        }
        MapView {
            table: self.table,
            object: Some(object),
            preserve: self.preserve,
            element,
            atomic: self.is_atomic(object),
            is_deduced,
        }
    }
}

fn scalar_of(kind: ScalarKind, format: Option<&str>) -> Scalar {
    match (kind, format) {
        (ScalarKind::Integer | ScalarKind::Number, _) => Scalar::Numeric,
        (ScalarKind::Boolean, _) => Scalar::Boolean,
        (ScalarKind::String, None | Some("" | "byte")) => Scalar::String,
        // Times, IP addresses and the like: the text is not looked at.
        (ScalarKind::String, Some(_)) => Scalar::Untyped,
    }
}

impl<'s> MapView<'s> {
    /// The declared field with this name.
    pub(crate) fn declared(&self, name: &str) -> Option<&'s Field> {
        self.object.and_then(|object| object.field(name))
    }

    /// Whether the field is declared.
    pub(crate) fn has_field(&self, name: &str) -> bool {
        self.declared(name).is_some()
    }

    /// The type of the value under a key; none when the key is not allowed.
    pub(crate) fn value_type(&self, key: &str) -> Option<TypeView<'s>> {
        match self.declared(key) {
            Some(field) => Some(TypeView::of_field(self.table, field, self.preserve)),
            None => self.element,
        }
    }
}

impl<'s> Atom<'s> {
    /// Narrows the sorts down to the one that the value has, where it is allowed.
    pub(crate) fn narrowed(self, value: Option<&Value>) -> Self {
        let none = Atom {
            scalar: None,
            list: None,
            map: None,
        };
        match value {
            Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) if self.scalar.is_some() => {
                Atom {
                    scalar: self.scalar,
                    ..none
                }
            }
            Some(Value::Array(_)) if self.list.is_some() => Atom {
                list: self.list,
                ..none
            },
            Some(Value::Object(_)) if self.map.is_some() => Atom {
                map: self.map,
                ..none
            },
            _ => self,
        }
    }

    /// Whether two narrowed forms of one type allow the same sorts.
    pub(crate) fn same_sorts(&self, other: &Self) -> bool {
        self.scalar.is_some() == other.scalar.is_some()
            && self.list.is_some() == other.list.is_some()
            && self.map.is_some() == other.map.is_some()
    }

    /// The sort to treat a value as: a map if allowed, else a scalar, else a list.
    pub(crate) fn sort(self) -> Sort<'s> {
        match (self.map, self.scalar, self.list) {
            (Some(map), _, _) => Sort::Map(map),
            (None, Some(scalar), _) => Sort::Scalar(scalar),
            (None, None, Some(list)) => Sort::List(list),
            // No type is without any sort; an untyped scalar allows the most.
            (None, None, None) => Sort::Scalar(Scalar::Untyped),
        }
    }
}

/// What a value is treated as.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sort<'s> {
    Map(MapView<'s>),
    Scalar(Scalar),
    List(ListView<'s>),
}
