//! JSON merge patch (RFC 7386), and the making of such patches.

use everflow_json::{Map, Value};

use crate::MergeError;
use crate::depth::ensure_depth;

/// Applies the merge patch `patch` to `document`: objects merge by key, null removes a key, and
/// anything else replaces.
///
/// # Errors
/// [`MergeError::MergePatchNotAnObject`] when the patch is no object (the server answers 400).
pub fn apply(document: &Value, patch: &Value) -> Result<Value, MergeError> {
    ensure_depth(document)?;
    ensure_depth(patch)?;
    let Value::Object(patch) = patch else {
        return Err(MergeError::MergePatchNotAnObject {
            found: crate::go_text::json_kind(patch),
        });
    };
    let mut result = document.clone();
    match &mut result {
        Value::Object(target) => merge_into(target, patch),
        other => *other = without_nulls(&Value::Object(patch.clone())),
    }
    Ok(result)
}

fn merge_into(target: &mut Map, patch: &Map) {
    for (key, change) in patch {
        match (target.get_mut(key), change) {
            (_, Value::Null) => {
                target.remove(key);
            }
            (Some(Value::Object(current)), Value::Object(change)) => merge_into(current, change),
            // A list or scalar that replaces a present object or null is taken as it is; where the
            // key was absent or no object, nulls inside of objects say "absent".
            (Some(current @ Value::Object(_)), change) => *current = change.clone(),
            (Some(current), change) => *current = without_nulls(change),
            (None, change) => {
                target.insert(key.clone(), without_nulls(change));
            }
        }
    }
}

/// The value with all null members of objects left out; nulls in lists stay.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(_, item)| !item.is_null())
                .map(|(key, item)| (key.clone(), without_nulls(item)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}

/// The merge patch that turns `original` into `modified`; an empty object when they are equal.
///
/// # Errors
/// [`MergeError::TooDeep`].
pub fn create(original: &Value, modified: &Value) -> Result<Value, MergeError> {
    ensure_depth(original)?;
    ensure_depth(modified)?;
    let empty = Map::new();
    let original = original.as_object().unwrap_or(&empty);
    let modified = modified.as_object().unwrap_or(&empty);
    Ok(Value::Object(difference(original, modified)))
}

fn difference(original: &Map, modified: &Map) -> Map {
    let mut patch = Map::new();
    for (key, new) in modified {
        match (original.get(key), new) {
            (None, new) => {
                patch.insert(key.clone(), new.clone());
            }
            (Some(Value::Object(old)), Value::Object(new)) => {
                let inner = difference(old, new);
                if !inner.is_empty() {
                    patch.insert(key.clone(), Value::Object(inner));
                }
            }
            (Some(old), new) if old == new => {}
            (Some(_), new) => {
                patch.insert(key.clone(), new.clone());
            }
        }
    }
    for key in original.keys().filter(|key| !modified.contains_key(key)) {
        patch.insert(key.clone(), Value::Null);
    }
    patch
}

/// The merge patch of a client-side apply: what changed from `current` to `modified`, without
/// removing what only `current` has, and with the removal of what `original` (the last applied
/// document) had and `modified` has no more.
///
/// # Errors
/// [`MergeError::TooDeep`].
pub fn create_three_way(
    original: &Value,
    modified: &Value,
    current: &Value,
) -> Result<Value, MergeError> {
    let mut changes = create(current, modified)?;
    keep_only(&mut changes, false);
    let mut removals = create(original, modified)?;
    keep_only(&mut removals, true);
    // The removals are nulls of the first patch, which a merge keeps.
    if let (Value::Object(target), Value::Object(patch)) = (&mut removals, &changes) {
        merge_into(target, patch);
    }
    Ok(removals)
}

/// Keeps of a patch only its nulls, or only the rest. Objects that end up empty are dropped.
fn keep_only(patch: &mut Value, nulls: bool) {
    let Value::Object(map) = patch else { return };
    map.retain(|_, item| match item {
        Value::Null => nulls,
        Value::Object(inner) if inner.is_empty() => !nulls,
        Value::Object(_) => {
            keep_only(item, nulls);
            item.as_object().is_some_and(|inner| !inner.is_empty())
        }
        _ => !nulls,
    });
}

#[cfg(test)]
mod tests {
    use everflow_json::json;

    use super::*;

    #[test]
    fn cases_of_the_rfc() {
        let cases = [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (
                json!({"a": "b"}),
                json!({"b": "c"}),
                json!({"a": "b", "b": "c"}),
            ),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (
                json!({"a": "b", "b": "c"}),
                json!({"a": null}),
                json!({"b": "c"}),
            ),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (
                json!({"a": {"b": "c"}}),
                json!({"a": {"b": "d", "c": null}}),
                json!({"a": {"b": "d"}}),
            ),
            (
                json!({"a": [{"b": "c"}]}),
                json!({"a": [1]}),
                json!({"a": [1]}),
            ),
            (
                json!({"e": null}),
                json!({"a": 1}),
                json!({"e": null, "a": 1}),
            ),
            (
                json!({}),
                json!({"a": {"bb": {"ccc": null}}}),
                json!({"a": {"bb": {}}}),
            ),
        ];
        for (document, patch, wanted) in cases {
            assert_eq!(
                apply(&document, &patch).unwrap(),
                wanted,
                "{document} + {patch}"
            );
        }
        assert!(matches!(
            apply(&json!({}), &json!([])),
            Err(MergeError::MergePatchNotAnObject { found: "array" })
        ));
    }

    #[test]
    fn created_patches_lead_to_the_target() {
        let old = json!({"a": 1, "b": {"c": [1], "d": 2}, "e": "x"});
        let new = json!({"a": 1, "b": {"c": [1, 2]}, "f": {}});
        let patch = create(&old, &new).unwrap();
        assert_eq!(
            patch,
            json!({"b": {"c": [1, 2], "d": null}, "e": null, "f": {}})
        );
        assert_eq!(apply(&old, &patch).unwrap(), new);
    }

    #[test]
    fn three_way_keeps_what_others_added() {
        let original = json!({"a": 1, "b": 2, "n": {"x": 1, "y": 1}});
        let modified = json!({"a": 5, "n": {"x": 1}});
        let current = json!({"a": 1, "b": 2, "n": {"x": 1, "y": 1}, "server": true});
        assert_eq!(
            create_three_way(&original, &modified, &current).unwrap(),
            json!({"a": 5, "b": null, "n": {"y": null}})
        );
    }
}
