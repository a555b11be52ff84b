//! What the conformance tests of the readers share.
#![allow(clippy::expect_used)]

use base64::Engine;
use everflow_json::Value;

/// The bytes of a case.
pub fn input(case: &Value) -> Vec<u8> {
    if let Some(text) = case["yaml"].as_str() {
        return text.as_bytes().to_vec();
    }
    if let Some(text) = case["yaml_b64"].as_str() {
        return base64::engine::general_purpose::STANDARD
            .decode(text)
            .expect("base64");
    }
    let mut bytes = Vec::new();
    for part in case["yaml_parts"].as_array().expect("an input") {
        let text = part[0].as_str().expect("text");
        let times = part[1].as_u64().expect("a number");
        for _ in 0..times {
            bytes.extend_from_slice(text.as_bytes());
        }
    }
    bytes
}

/// A recorded answer with text in place of base64, bad bytes replaced.
#[allow(dead_code)]
pub fn readable(recorded: &Value) -> Value {
    match recorded {
        Value::String(text) => match text.strip_prefix("b64:") {
            Some(encoded) => {
                let bytes = base64::engine::general_purpose::STANDARD
                    .decode(encoded)
                    .expect("base64");
                String::from_utf8_lossy(&bytes).into()
            }
            None => recorded.clone(),
        },
        Value::Array(items) => items.iter().map(readable).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| (key.clone(), readable(value)))
            .collect(),
        other => other.clone(),
    }
}
