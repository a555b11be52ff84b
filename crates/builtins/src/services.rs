//! APIServices: those without a Service of their own are served by the API server itself.

use everflow_json::{Value, json};

use crate::Context;
use crate::status::ApiResult;

/// What is served right here is available at once.
pub fn prepare(context: &Context<'_>, object: &mut Value) -> ApiResult<()> {
    let is_local = object.pointer("/spec/service").is_none_or(Value::is_null);
    if is_local && let Some(map) = object.as_object_mut() {
        let condition = json!({
            "type": "Available",
            "status": "True",
            "lastTransitionTime": context.env.now().rfc3339(),
            "reason": "Local",
            "message": "Local APIServices are always available",
        });
        map.insert("status".into(), json!({"conditions": [condition]}));
    }
    Ok(())
}
