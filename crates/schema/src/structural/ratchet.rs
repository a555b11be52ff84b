//! Which part of an old object a part of the new one stems from.
//!
//! On updates an invalid value is tolerated when it did not change.

use everflow_json::Value;

use crate::model::{ListKind, Shape, TypeId, TypeTable};

/// A value before the update, with the type it has in the schema.
#[derive(Debug, Clone, Copy)]
pub struct Before<'v> {
    /// The value.
    pub old: &'v Value,
    /// Its type.
    pub type_id: TypeId,
}

impl<'v> Before<'v> {
    /// The old value of a field that the schema knows.
    pub fn field(&self, types: &TypeTable, name: &str) -> Option<Before<'v>> {
        let type_id = types.child(self.type_id, name)?;
        Some(Before {
            old: self.old.as_object()?.get(name)?,
            type_id,
        })
    }

    /// The old item with the same keys; only lists of type `map` have one.
    pub fn item(&self, types: &TypeTable, item: &Value) -> Option<Before<'v>> {
        let list = types.get(self.type_id)?.as_list()?;
        let ListKind::Map { keys } = &list.kind else {
            return None;
        };
        let wanted = item.as_object()?;
        let same = |old: &&Value| {
            keys.iter()
                .all(|key| old.get(key.as_str()) == wanted.get(key.as_str()))
        };
        let old = self
            .old
            .as_array()?
            .iter()
            .filter(|old| old.is_object())
            .find(same)?;
        Some(Before {
            old,
            type_id: list.item,
        })
    }

    /// Whether the new value is the old one. Lists of type `map` may change their order; an
    /// object with fields that the schema does not know counts as changed.
    pub fn equals(&self, types: &TypeTable, new: &Value) -> bool {
        match (self.old, new) {
            (Value::Array(old), Value::Array(items)) => {
                old.len() == items.len() && self.same_items(types, items)
            }
            (Value::Object(old), Value::Object(fields)) => {
                old.len() == fields.len()
                    && fields.iter().all(|(name, value)| {
                        self.field(types, name)
                            .is_some_and(|before| before.equals(types, value))
                    })
            }
            (old, new) => old == new,
        }
    }

    fn same_items(&self, types: &TypeTable, items: &[Value]) -> bool {
        let shape = types.get(self.type_id).map(|node| &node.shape);
        match shape {
            Some(Shape::List(list)) if matches!(list.kind, ListKind::Map { .. }) => {
                items.iter().all(|item| {
                    self.item(types, item)
                        .is_some_and(|before| before.equals(types, item))
                })
            }
            _ => self
                .old
                .as_array()
                .is_some_and(|old| old.as_slice() == items),
        }
    }
}
