//! The controllers without which objects never settle.

use serde_json::Value;

use crate::rest::Call;

/// Called after every committed write.
pub fn after_write(_call: &Call<'_>, _object: &Value, _previous: Option<&Value>) {}

/// Called after every removal.
pub fn after_delete(call: &Call<'_>, object: &Value) {
    if call.resource.group.is_empty() && call.resource.plural == "services" {
        call.server.allocator().release(object);
    }
}
