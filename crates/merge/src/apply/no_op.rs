//! Writes that change nothing but a time.

use serde_json::Value;

use super::managed::entries_of;

/// Puts the old times of ownership back into `new` when nothing else differs from `old`, so that
/// such a write is none.
///
/// Entries are compared pairwise: a new time that changes their order counts as a change.
#[must_use]
pub fn without_time_only_changes(old: &Value, new: Value) -> Value {
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
        .any(|(a, b)| !equal_but_time(a, b));
    if differs {
        return new;
    }
    let mut candidate = new.clone();
    if let (Some(target), Some(source)) = (
        candidate.pointer_mut("/metadata/managedFields"),
        old.pointer("/metadata/managedFields"),
    ) {
        target.clone_from(source);
    }
    if candidate == *old { candidate } else { new }
}

fn equal_but_time(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            let known = |(key, _): &(&String, &Value)| key.as_str() != "time";
            left.iter().filter(known).eq(right.iter().filter(known))
        }
        (left, right) => left == right,
    }
}
