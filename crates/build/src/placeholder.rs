//! What stands where a value cannot be had.

use serde_json::{Map, Value, json};

use crate::finish::to_base64;

/// Clearly no value, and yet a name that most fields take.
pub const PLACEHOLDER: &str = "placeholder";

/// How SOPS begins a value that it has encrypted.
const ENCRYPTED: &str = "ENC[AES256_GCM,";

/// Puts placeholders in the place of an object's encrypted values.
pub fn fill(object: &mut Value) {
    let Value::Object(fields) = object else {
        return;
    };
    if fields.remove("sops").is_none() {
        return;
    }
    let secret = fields.get("kind") == Some(&json!("Secret"));
    for (name, value) in fields.iter_mut() {
        let text = match secret && name == "data" {
            true => to_base64(PLACEHOLDER.as_bytes()),
            false => PLACEHOLDER.to_owned(),
        };
        replace(value, &text);
    }
}

fn replace(value: &mut Value, text: &str) {
    match value {
        Value::String(cipher) if cipher.starts_with(ENCRYPTED) => {
            *value = match cipher.rsplit_once("type:").map(|(_, kind)| kind) {
                Some("int]") => json!(0),
                Some("float]") => json!(0.0),
                Some("bool]") => json!(false),
                _ => json!(text),
            };
        }
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, text)),
        Value::Object(fields) => {
            // Comments are encrypted too, as keys.
            let all = std::mem::replace(fields, Map::new()).into_iter();
            let plain = all.filter(|(name, _)| !name.starts_with("#ENC["));
            *fields = plain.collect();
            fields.values_mut().for_each(|field| replace(field, text));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encrypted_values_give_way() {
        let cipher = |kind: &str| format!("ENC[AES256_GCM,data:x,iv:y,tag:z,type:{kind}]");
        let mut secret = json!({
            "kind": "Secret", "apiVersion": "v1", "metadata": { "name": "a" },
            "data": { "key": cipher("str") }, "stringData": { "b": cipher("str"), "c": "plain" },
            "sops": { "mac": "m" },
        });
        fill(&mut secret);
        assert_eq!(secret["data"]["key"], "cGxhY2Vob2xkZXI=");
        assert_eq!(
            secret["stringData"],
            json!({ "b": "placeholder", "c": "plain" })
        );
        assert!(secret.get("sops").is_none());
        let mut other = json!({
            "kind": "X", "spec": { "port": cipher("int"), "list": [cipher("bool")] }, "sops": {},
        });
        fill(&mut other);
        assert_eq!(other["spec"], json!({ "port": 0, "list": [false] }));
        let mut plain = json!({ "kind": "Secret", "data": { "key": cipher("str") } });
        let before = plain.clone();
        fill(&mut plain);
        assert_eq!(plain, before);
    }
}
