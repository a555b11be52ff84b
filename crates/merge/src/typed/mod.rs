//! Structured merge: validating, comparing, merging and pruning documents by their schema.

mod compare;
mod errors;
mod fast_path;
mod field_set;
mod fits;
mod list_items;
mod merge;
mod reconcile;
mod remove;
mod types;
mod validate;

use std::borrow::Cow;

use everflow_json::{Map, Value};
use everflow_schema::SchemaView;

pub use compare::Comparison;
pub use errors::{FieldError, FieldErrors};

use crate::MergeError;
use crate::depth::{MAX_DEPTH, ensure_depth};
use crate::fieldpath::{FieldSet, PathElement};
use types::TypeView;

/// A document together with its type.
#[derive(Debug, Clone)]
pub struct TypedValue<'s> {
    value: Cow<'s, Value>,
    view: TypeView<'s>,
}

/// Whether the items of associative lists may share keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplicates {
    /// Stored objects may have them.
    Allow,
    /// Applied documents may not.
    Refuse,
}

impl<'s> TypedValue<'s> {
    /// Checks a document against its schema.
    ///
    /// # Errors
    /// [`MergeError::Typed`] with everything that does not fit, [`MergeError::TooDeep`], and
    /// [`MergeError::NoType`] for a schema without a root.
    pub fn new(
        value: Value,
        schema: SchemaView<'s>,
        duplicates: Duplicates,
    ) -> Result<Self, MergeError> {
        Self::of(Cow::Owned(value), schema, duplicates)
    }

    /// As [`TypedValue::new`], for a document that may be borrowed.
    ///
    /// # Errors
    /// Those of [`TypedValue::new`].
    pub fn of(
        value: Cow<'s, Value>,
        schema: SchemaView<'s>,
        duplicates: Duplicates,
    ) -> Result<Self, MergeError> {
        let root = TypeView::root(schema);
        let allow_duplicates = duplicates == Duplicates::Allow;
        if let Some(view) = root
            && fits::surely_fits(&value, view, allow_duplicates, MAX_DEPTH)
        {
            return Ok(Self { value, view });
        }
        Self::checked(value, schema, duplicates)
    }

    /// As [`TypedValue::of`], for an object whose `metadata.managedFields` are not looked at: what it is compared with
    /// has the same.
    ///
    /// # Errors
    /// Those of [`TypedValue::new`].
    pub(crate) fn beside_managed_fields(
        value: &'s Value,
        schema: SchemaView<'s>,
    ) -> Result<Self, MergeError> {
        let value = Cow::Borrowed(value);
        match TypeView::root(schema) {
            Some(view) if fits::surely_fits_beside_managed_fields(&value, view, MAX_DEPTH) => {
                Ok(Self { value, view })
            }
            _ => Self::checked(value, schema, Duplicates::Allow),
        }
    }

    fn checked(
        value: Cow<'s, Value>,
        schema: SchemaView<'s>,
        duplicates: Duplicates,
    ) -> Result<Self, MergeError> {
        let root = TypeView::root(schema);
        let allow_duplicates = duplicates == Duplicates::Allow;
        ensure_depth(&value)?;
        let view = root.ok_or(MergeError::NoType)?;
        validate::validate(&value, view, allow_duplicates)?;
        Ok(Self { value, view })
    }

    /// The document.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The document without its type.
    #[must_use]
    pub fn into_value(self) -> Value {
        self.value.into_owned()
    }

    /// The set of all leaves, list items and map keys that the document mentions.
    #[must_use]
    pub fn field_set(&self) -> FieldSet {
        field_set::field_set(&self.value, self.view)
    }

    /// What a newer document of the same type changes.
    ///
    /// # Errors
    /// [`MergeError::Typed`].
    pub fn compare(&self, newer: &TypedValue<'_>) -> Result<Comparison, MergeError> {
        Ok(compare::compare(&self.value, &newer.value, self.view)?)
    }

    /// What [`TypedValue::compare`] says of two documents that are known to fit their schema, both without
    /// `metadata.managedFields`. None means unknown: run the full comparison.
    pub(crate) fn compare_fast_path(
        old: &Value,
        new: &Value,
        schema: SchemaView<'_>,
    ) -> Option<Comparison> {
        fast_path::compare(old, new, TypeView::root(schema)?)
    }

    /// Merges an applied document of the same type into this one; nothing is removed.
    ///
    /// # Errors
    /// [`MergeError::Typed`].
    pub fn merge(&self, applied: &TypedValue<'_>) -> Result<Self, MergeError> {
        let value = merge::merge(&self.value, &applied.value, self.view)?;
        Ok(Self {
            value: Cow::Owned(value),
            view: self.view,
        })
    }

    /// The document without the given fields and items.
    #[must_use]
    pub fn without(&self, gone: &FieldSet) -> Self {
        let value = self.value.clone().into_owned();
        Self {
            value: Cow::Owned(remove::remove_items(value, gone, self.view)),
            view: self.view,
        }
    }

    /// The set with the declared struct fields on the way to its members added: `.spec` for
    /// `.spec.replicas`, but not the keys of maps.
    #[must_use]
    pub fn with_named_fields(&self, set: &FieldSet) -> FieldSet {
        set.map_members(
            Some(self.view),
            &|view: Option<TypeView<'s>>, element, member, parent| {
                let Some(atom) = view.map(TypeView::atom) else {
                    return (member, None);
                };
                match element {
                    PathElement::Field(name) => {
                        let Some(map) = atom.map else {
                            return (member, None);
                        };
                        (
                            member || (parent && map.has_field(name)),
                            map.value_type(name),
                        )
                    }
                    PathElement::Key(_) => (member, atom.list.map(|list| list.item)),
                    _ => (member, None),
                }
            },
        )
    }

    /// As [`TypedValue::reconcile`] of any object of the schema.
    pub(crate) fn reconciled(set: &FieldSet, schema: SchemaView<'_>) -> Option<FieldSet> {
        reconcile::reconcile(set, TypeView::root(schema)?)
    }

    /// The set as the current schema records it, or none when it already is so.
    #[must_use]
    pub fn reconcile(&self, set: &FieldSet) -> Option<FieldSet> {
        reconcile::reconcile(set, self.view)
    }
}

/// Walks two maps key by key in order.
fn zip_maps<'v>(
    left: Option<&'v Map>,
    right: Option<&'v Map>,
    mut visit: impl FnMut(&'v str, Option<&'v Value>, Option<&'v Value>),
) {
    let mut left = left.into_iter().flatten().peekable();
    let mut right = right.into_iter().flatten().peekable();
    loop {
        let order = match (left.peek(), right.peek()) {
            (None, None) => return,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some((l, _)), Some((r, _))) => l.cmp(r),
        };
        let l = if order.is_le() { left.next() } else { None };
        let r = if order.is_ge() { right.next() } else { None };
        if let Some((key, _)) = l.or(r) {
            visit(key, l.map(|(_, value)| value), r.map(|(_, value)| value));
        }
    }
}
