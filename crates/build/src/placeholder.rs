//! What stands where a value cannot be had.

use everflow_json::{Map, Value, json};

use crate::finish::to_base64;
use crate::substitute::is_name;

/// Clearly no value, and yet a name that most fields take.
pub const PLACEHOLDER: &str = "placeholder";

/// What stands for a variable: of the form that its name speaks of, so that fields which want an
/// address or a number take it, and else different for each, so that names differ. All addresses are
/// of those reserved for documents.
pub fn of_variable(name: &str) -> String {
    let upper = name.to_ascii_uppercase();
    let words: Vec<&str> = upper.split('_').collect();
    let has = |known: &[&str]| words.iter().any(|word| known.contains(word));
    let own = upper.to_ascii_lowercase().replace('_', "-");
    let own = own.trim_matches('-');
    let newer = has(&["IPV6", "IP6", "V6"]);
    let shaped = if has(&["CIDR", "CIDRS", "SUBNET", "NETWORK", "RANGE"]) {
        match newer {
            true => "2001:db8::/64",
            false => "192.0.2.0/24",
        }
    } else if newer {
        ADDRESS_V6
    } else if has(&[
        "IP", "IPS", "ADDR", "ADDRESS", "VIP", "IPV4", "V4", "GATEWAY",
    ]) {
        ADDRESS
    } else if has(&["PORT"]) {
        "8080"
    } else if has(&["UID", "GID", "PUID", "PGID", "ASN"]) {
        "65000"
    } else if has(&["REPLICAS", "COUNT"]) {
        "1"
    } else if has(&["SIZE", "CAPACITY"]) {
        "1Gi"
    } else if has(&["DOMAIN", "HOST", "HOSTNAME", "FQDN"]) {
        return format!("{own}.{PLACEHOLDER}.example");
    } else if has(&["EMAIL", "MAIL"]) {
        return format!("{own}@{PLACEHOLDER}.example");
    } else if has(&["TIMEZONE", "TZ"]) {
        "Etc/UTC"
    } else {
        return format!("{PLACEHOLDER}-{own}");
    };
    shaped.to_owned()
}

/// What stands for an address.
const ADDRESS: &str = "192.0.2.1";
/// What stands for an address of the newer kind.
const ADDRESS_V6: &str = "2001:db8::1";

/// Puts ranges where a NetworkPolicy has addresses that stand for variables: names often do not say
/// which of the two a variable holds.
pub fn fit(object: &mut Value) {
    if object["kind"] != "NetworkPolicy" {
        return;
    }
    let Some(Value::Object(spec)) = object.get_mut("spec") else {
        return;
    };
    let directions = ["ingress", "egress"];
    let rules = spec
        .iter_mut()
        .filter(|(name, _)| directions.contains(&name.as_str()));
    rules.for_each(|(_, rules)| widen(rules));
}

fn widen(value: &mut Value) {
    match value {
        Value::String(text) if text == ADDRESS => *text = format!("{text}/32").into(),
        Value::String(text) if text == ADDRESS_V6 => *text = format!("{text}/128").into(),
        Value::Array(items) => items.iter_mut().for_each(widen),
        Value::Object(fields) => fields.values_mut().for_each(widen),
        _ => {}
    }
}

/// How SOPS begins a value that it has encrypted.
const ENCRYPTED: &str = "ENC[AES256_GCM,";

/// Whether it is encrypted what an object is.
pub fn is_nameless(object: &Value) -> bool {
    let fields = [
        &object["apiVersion"],
        &object["kind"],
        &object["metadata"]["name"],
    ];
    let mut texts = fields.iter().filter_map(|field| field.as_str());
    object["sops"].is_object() && texts.any(|text| text.starts_with(ENCRYPTED))
}

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
        let encoded = secret && name == "data";
        let shown = |text: &str| match encoded {
            true => to_base64(text.as_bytes()),
            false => text.to_owned(),
        };
        if secret && matches!(name.as_str(), "data" | "stringData") {
            // What others take from it as a variable is the same as if it were not there.
            let keys = value.as_object_mut().into_iter().flatten();
            keys.for_each(|(key, value)| replace(value, &shown(&of_key(key))));
        }
        replace(value, &shown(PLACEHOLDER));
    }
}

/// What stands for a value of a Secret.
fn of_key(key: &str) -> String {
    let shaped = SHAPED.iter().find(|(known, _)| *known == key);
    match shaped {
        Some((_, text)) => (*text).to_owned(),
        None if is_name(key) => of_variable(key),
        None => PLACEHOLDER.to_owned(),
    }
}

/// Keys of Secrets whose values the API server reads.
const SHAPED: [(&str, &str); 2] = [
    (".dockerconfigjson", r#"{"auths":{}}"#),
    (".dockercfg", "{}"),
];

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
    fn placeholder_values_follow_the_variable_name() {
        for (name, text) in [
            ("NAS_IP", "192.0.2.1"),
            ("cluster_pod_cidr", "192.0.2.0/24"),
            ("SECRET_DOMAIN", "secret-domain.placeholder.example"),
            ("SHIPPING", "placeholder-shipping"),
            ("_USER_NAME", "placeholder-user-name"),
            ("API_PORT", "8080"),
            ("LAN_IPV4", "192.0.2.1"),
            ("LAN_IPV6", "2001:db8::1"),
            ("POD_CIDR_V6", "2001:db8::/64"),
        ] {
            assert_eq!(of_variable(name), text, "{name}");
        }
    }

    #[test]
    fn network_policies_get_ranges() {
        let mut policy = json!({
            "kind": "NetworkPolicy",
            "spec": { "egress": [{ "to": [{ "ipBlock": {
                "cidr": "0.0.0.0/0", "except": ["192.0.2.1", "192.0.2.0/24", "2001:db8::1"],
            } }] }] },
        });
        fit(&mut policy);
        let except = &policy["spec"]["egress"][0]["to"][0]["ipBlock"]["except"];
        assert_eq!(
            *except,
            json!(["192.0.2.1/32", "192.0.2.0/24", "2001:db8::1/128"])
        );
        let mut service = json!({ "kind": "Service", "spec": { "ingress": "192.0.2.1" } });
        let before = service.clone();
        fit(&mut service);
        assert_eq!(service, before);
    }

    #[test]
    fn encrypted_values_are_replaced_by_placeholders() {
        let cipher = |kind: &str| format!("ENC[AES256_GCM,data:x,iv:y,tag:z,type:{kind}]");
        let mut secret = json!({
            "kind": "Secret", "apiVersion": "v1", "metadata": { "name": "a" },
            "data": { "a.key": cipher("str") },
            "stringData": { "NAS_SERVER": cipher("str"), "NAS_IP": cipher("str"), "c": "plain" },
            "sops": { "mac": "m" },
        });
        fill(&mut secret);
        assert_eq!(secret["data"]["a.key"], "cGxhY2Vob2xkZXI=");
        assert_eq!(
            secret["stringData"],
            json!({ "NAS_SERVER": "placeholder-nas-server", "NAS_IP": "192.0.2.1", "c": "plain" })
        );
        assert!(secret.get("sops").is_none());
        let mut registry = json!({
            "kind": "Secret", "data": { ".dockerconfigjson": cipher("str") },
            "type": "kubernetes.io/dockerconfigjson", "sops": {},
        });
        fill(&mut registry);
        assert_eq!(registry["data"][".dockerconfigjson"], "eyJhdXRocyI6e319");
        let mut other = json!({
            "kind": "X", "spec": { "port": cipher("int"), "list": [cipher("bool")] }, "sops": {},
        });
        fill(&mut other);
        assert_eq!(other["spec"], json!({ "port": 0, "list": [false] }));
        let nameless = json!({ "kind": cipher("str"), "sops": {} });
        assert!(is_nameless(&nameless) && !is_nameless(&registry));
        let mut plain = json!({ "kind": "Secret", "data": { "key": cipher("str") } });
        let before = plain.clone();
        fill(&mut plain);
        assert_eq!(plain, before);
    }
}
