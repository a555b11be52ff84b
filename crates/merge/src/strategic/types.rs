//! What strategic merge patch asks of the schema.

use everflow_schema::{PatchRule, SchemaView, Shape, Type, TypeTable};

use super::failure;
use crate::MergeError;

/// The type of an object or of the items of a list.
#[derive(Debug, Clone, Copy)]
pub(super) struct PatchType<'s> {
    table: &'s TypeTable,
    node: Option<&'s Type>,
}

/// How a field is patched.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FieldRule<'s> {
    pub(super) strategy: Strategy,
    pub(super) retain_keys: bool,
    pub(super) merge_key: &'s str,
}

/// How lists and objects of a field come together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Strategy {
    /// Objects merge, lists are replaced.
    #[default]
    Unset,
    Merge,
    Replace,
}

impl<'s> FieldRule<'s> {
    fn of(rule: Option<&'s PatchRule>) -> Self {
        let Some(rule) = rule else {
            return Self::default();
        };
        let strategy = match (rule.merge, rule.replace) {
            (true, _) => Strategy::Merge,
            (false, true) => Strategy::Replace,
            (false, false) => Strategy::Unset,
        };
        Self {
            strategy,
            retain_keys: rule.retain_keys,
            merge_key: rule.merge_key.as_deref().unwrap_or_default(),
        }
    }
}

impl<'s> PatchType<'s> {
    /// The type of whole objects.
    pub(super) fn root(schema: SchemaView<'s>) -> Self {
        Self {
            table: schema.types,
            node: schema.root_type(),
        }
    }

    /// The kind of Go type, as errors name it.
    pub(super) fn go_kind(self) -> &'static str {
        match self.node.map(|node| &node.shape) {
            Some(Shape::Object(object)) if object.fields.is_empty() => "map",
            Some(Shape::Object(_)) => "struct",
            Some(Shape::List(_)) => "slice",
            Some(Shape::Scalar { .. }) => "string",
            _ => "interface",
        }
    }

    /// The type and rule of a field that holds an object.
    pub(super) fn object_field(self, name: &str) -> Result<(Self, FieldRule<'s>), MergeError> {
        let object = self
            .node
            .and_then(Type::as_object)
            .filter(|object| !object.fields.is_empty());
        let Some(object) = object else {
            return Err(failure(format!(
                "merging an object in json but data type is not struct, instead is: {}",
                self.go_kind()
            )));
        };
        let Some(field) = object.field(name) else {
            let full = self
                .node
                .and_then(|node| node.name.as_deref())
                .unwrap_or_default();
            let short = full.rsplit('.').next().unwrap_or_default();
            return Err(failure(format!(
                "unable to find api field in struct {short} for the json field {}",
                crate::go_text::quote(name)
            )));
        };
        let inner = Self {
            table: self.table,
            node: self.table.get(field.type_id),
        };
        Ok((inner, FieldRule::of(field.patch.as_deref())))
    }

    /// The type of the items and the rule of a field that holds a list.
    pub(super) fn list_field(self, name: &str) -> Result<(Self, FieldRule<'s>), MergeError> {
        let (list, rule) = self.object_field(name)?;
        let Some(list) = list.node.and_then(Type::as_list) else {
            return Err(failure(format!(
                "expected slice or array type, but got: {}",
                self.go_kind()
            )));
        };
        let item = self.table.get(list.item);
        if item.is_some_and(|item| item.as_list().is_some()) {
            return Err(failure("unexpected slice of slice"));
        }
        Ok((
            Self {
                table: self.table,
                node: item,
            },
            rule,
        ))
    }
}
