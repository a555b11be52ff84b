//! What happens between decoding and the rules of the kind: namespaces must exist and live.

use serde_json::{Value, json};

use crate::kinds::meta;
use crate::rest::Call;
use crate::status::{ApiError, ApiResult};

/// Admission of a new object.
pub fn create(call: &Call<'_>, object: &mut Value) -> ApiResult<()> {
    let resource = &call.resource;
    if !resource.namespaced {
        return Ok(());
    }
    let namespace = call.target.namespace.as_str();
    let Some(found) = call.server.store().get("/namespaces", namespace) else {
        return Err(ApiError::not_found(
            &crate::status::GroupResource {
                group: "",
                resource: "namespaces",
            },
            namespace,
        ));
    };
    let terminating = meta::is_terminating(&found.value)
        || found.value.pointer("/status/phase").and_then(Value::as_str) == Some("Terminating");
    if terminating {
        let name = meta::text(object, "name");
        let why = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        let mut error = ApiError::forbidden(&resource.group_resource(), name, &why);
        if let Some(details) = error.details.as_mut().and_then(Value::as_object_mut) {
            details.insert("causes".into(), json!([{"reason": "NamespaceTerminating", "message": format!("namespace {namespace} is being terminated"), "field": "metadata.namespace"}]));
        }
        return Err(error);
    }
    Ok(())
}

/// Admission of a changed object.
pub fn update(_call: &Call<'_>, _new: &mut Value, _old: &Value) -> ApiResult<()> {
    Ok(())
}
