//! A bound on nesting, so that no document can exhaust the stack of the recursive walks.

use everflow_json::Value;

use crate::MergeError;

/// Documents nested deeper than this are refused. Real manifests stay far below 100 levels.
pub const MAX_DEPTH: usize = 512;

/// Refuses a document that nests deeper than [`MAX_DEPTH`].
///
/// # Errors
/// [`MergeError::TooDeep`].
pub(crate) fn ensure_depth(value: &Value) -> Result<(), MergeError> {
    if fits_in(value, MAX_DEPTH) {
        Ok(())
    } else {
        Err(MergeError::TooDeep { limit: MAX_DEPTH })
    }
}

/// Whether a document nests no deeper than so many levels.
pub(crate) fn fits_in(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels > 0 && items.iter().all(|item| fits_in(item, levels - 1)),
        Value::Object(map) => levels > 0 && map.values().all(|item| fits_in(item, levels - 1)),
        _ => true,
    }
}
