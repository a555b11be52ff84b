//! Protobuf request bodies.

use super::json::Json;

/// Decodes a protobuf body in its `k8s\0` envelope.
pub fn parse(body: &[u8]) -> Result<Json, String> {
    everflow_schema::protobuf::decode(body)
        .map(|value| Json::from_value(&value))
        .map_err(|error| match error.to_string() {
            text if text.ends_with("unexpected end of the bytes") => "unexpected EOF".to_owned(),
            text => text,
        })
}
