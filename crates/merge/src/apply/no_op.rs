//! Writes that change nothing but a time.

use everflow_json::{Map, Text, Value};

use super::managed::entries_of;

/// Puts the old times of ownership back into `new` when nothing else differs from `old`, so that
/// such a write is none.
///
/// Entries are compared pairwise: a new time that changes their order counts as a change.
#[must_use]
pub fn without_time_only_changes(old: &Value, mut new: Value) -> Value {
    let (old_entries, new_entries) = (entries_of(old), entries_of(&new));
    let same_time = |(a, b): (&Value, &Value)| a.get("time") == b.get("time");
    if old_entries.len() != new_entries.len()
        || new_entries.is_empty()
        || old_entries.iter().zip(new_entries).all(same_time)
    {
        return new;
    }
    let differs = old_entries
        .iter()
        .zip(new_entries)
        .any(|(a, b)| !equal_beside(a, b, "time", |_, _| true));
    if differs || !equal_but_entries(old, &new) {
        return new;
    }
    if let (Some(target), Some(source)) = (
        new.pointer_mut("/metadata/managedFields"),
        old.pointer("/metadata/managedFields"),
    ) {
        target.clone_from(source);
    }
    new
}

/// Whether two objects are equal apart from the entries of their managed fields.
fn equal_but_entries(old: &Value, new: &Value) -> bool {
    equal_beside(old, new, "metadata", |old, new| {
        equal_beside(old, new, "managedFields", |_, _| true)
    })
}

/// Whether two values are equal, where `equal` decides about the values under one key of theirs.
fn equal_beside(
    left: &Value,
    right: &Value,
    key: &str,
    equal: impl Fn(&Value, &Value) -> bool,
) -> bool {
    let (Value::Object(left), Value::Object(right)) = (left, right) else {
        return left == right;
    };
    let others = |map: &Map| map.len() - usize::from(map.contains_key(key));
    let same =
        |((a_key, a), (b_key, b)): ((&Text, &Value), (&Text, &Value))| a_key == b_key && a == b;
    let beside = |map| Map::iter(map).filter(|(name, _)| name.as_str() != key);
    others(left) == others(right)
        && beside(left).zip(beside(right)).all(same)
        && equal(
            left.get(key).unwrap_or(&Value::Null),
            right.get(key).unwrap_or(&Value::Null),
        )
}
