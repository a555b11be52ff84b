//! Protobuf request bodies.

use super::json::Json;

/// Decodes a protobuf body in its `k8s\0` envelope.
pub fn parse(body: &[u8]) -> Result<Json, String> {
    everflow_schema::protobuf::decode(body)
        .map(|value| Json::from_value(&value))
        .map_err(|error| error.to_string())
}
