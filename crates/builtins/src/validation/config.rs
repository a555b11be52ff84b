//! ConfigMaps and Secrets.

use base64::Engine as _;
use everflow_json::Value;

use super::super::at::{At, or_null};
use super::super::{Context, meta, names};
use crate::field::{Errors, FieldError, Path};

/// The most bytes of data that one of them may hold.
const MOST: usize = 1024 * 1024;

fn decoded_len(text: &str) -> usize {
    text.len() / 4 * 3 - text.bytes().rev().take_while(|byte| *byte == b'=').count()
}

/// Checks a ConfigMap.
pub fn config_map(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    let root = At::root(object);
    let (data, binary) = (root.child("data"), root.child("binaryData"));
    let mut size = 0;
    for (key, entry) in data.entries() {
        for problem in names::config_key(key) {
            entry.invalid_as(errors, key, problem);
        }
        if binary.value.get(key).is_some() {
            entry.invalid_as(errors, key, "duplicate of key present in binaryData");
        }
        size += entry.text().len();
    }
    for (key, entry) in binary.entries() {
        for problem in names::config_key(key) {
            entry.invalid_as(errors, key, problem);
        }
        size += decoded_len(entry.text());
    }
    if size > MOST {
        // The real server names a field without a name here.
        let mut error = FieldError::too_long(&Path::new("[]"), MOST as i64);
        error.verbatim = None;
        errors.push(error);
    }
}

fn immutable_data(new: &Value, old: &Value, parts: &[&'static str], errors: &mut Errors) {
    if old.get("immutable") != Some(&Value::Bool(true)) {
        return;
    }
    let root = At::root(new);
    let problem = "field is immutable when `immutable` is set";
    if !root.child("immutable").is_true() {
        root.child("immutable").forbidden(errors, problem);
    }
    for part in parts {
        let part_now = root.child(part);
        if part_now.value != or_null(old.get(part)) {
            part_now.forbidden(errors, problem);
        }
    }
}

/// Checks a changed ConfigMap.
pub fn config_map_update(context: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    immutable_data(new, old, &["data", "binaryData"], errors);
    meta::validate(new, true, true, names::dns_subdomain, errors);
    config_map(context, new, errors);
}

/// Checks a Secret.
pub fn secret(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    let root = At::root(object);
    let data = root.child("data");
    let mut size = 0;
    for (key, entry) in data.entries() {
        for problem in names::config_key(key) {
            entry.invalid_as(errors, key, problem);
        }
        size += decoded_len(entry.text());
    }
    if size > MOST {
        data.too_long(errors, MOST);
    }
    match root.child("type").text() {
        "kubernetes.io/service-account-token" => {
            let metadata = root.child("metadata");
            let annotations = metadata.child("annotations");
            let name = annotations.key("kubernetes.io/service-account.name");
            if name.is_empty() {
                name.required(errors, "");
            }
        }
        "kubernetes.io/dockercfg" => docker_config(&data.key(".dockercfg"), errors),
        "kubernetes.io/dockerconfigjson" => docker_config(&data.key(".dockerconfigjson"), errors),
        "kubernetes.io/basic-auth" => {
            let keys = [data.key("username"), data.key("password")];
            if keys.iter().all(|key| !key.is_set()) {
                keys.iter().for_each(|key| key.required(errors, ""));
            }
        }
        "kubernetes.io/ssh-auth" => {
            let key = data.key("ssh-privatekey");
            if key.is_empty() {
                key.required(errors, "");
            }
        }
        "kubernetes.io/tls" => {
            for key in [data.key("tls.crt"), data.key("tls.key")] {
                if !key.is_set() {
                    key.required(errors, "");
                }
            }
        }
        _ => {}
    }
}

fn docker_config(at: &At<'_, '_>, errors: &mut Errors) {
    if !at.is_set() {
        at.required(errors, "");
        return;
    }
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(at.text())
        .unwrap_or_default();
    let problem = match everflow_schema::go_json::parse(&bytes) {
        Err(why) => why,
        Ok(everflow_schema::go_json::Json::Object(_) | everflow_schema::go_json::Json::Null) => {
            return;
        }
        Ok(other) => format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            other.kind()
        ),
    };
    at.invalid_as(errors, "<secret contents redacted>", problem);
}

/// Checks a changed Secret.
pub fn secret_update(context: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    At::root(new)
        .child("type")
        .unchanged(or_null(old.get("type")), errors);
    immutable_data(new, old, &["data"], errors);
    meta::validate(new, true, true, names::dns_subdomain, errors);
    secret(context, new, errors);
}

/// Checks a changed ServiceAccount.
pub fn service_account_update(_: &Context<'_>, new: &Value, _: &Value, errors: &mut Errors) {
    meta::validate(new, true, true, names::dns_subdomain, errors);
}

/// Warnings about a Secret whose certificate and key do not fit.
pub fn secret_warnings(object: &Value, _: Option<&Value>) -> Vec<String> {
    let data = |key: &str| {
        let text = object
            .pointer(&format!("/data/{key}"))
            .and_then(Value::as_str)?;
        base64::engine::general_purpose::STANDARD.decode(text).ok()
    };
    if object.get("type").and_then(Value::as_str) != Some("kubernetes.io/tls") {
        return Vec::new();
    }
    let has = |bytes: &Option<Vec<u8>>| {
        bytes
            .as_ref()
            .is_some_and(|bytes| String::from_utf8_lossy(bytes).contains("-----BEGIN "))
    };
    let (certificate, key) = (data("tls.crt"), data("tls.key"));
    if !has(&certificate) {
        return vec!["tls: failed to find any PEM data in certificate input".to_owned()];
    }
    if !has(&key) {
        return vec!["tls: failed to find any PEM data in key input".to_owned()];
    }
    Vec::new()
}
