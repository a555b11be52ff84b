//! The symbols of the recordings: what stands for addresses, ids and keys, and for values of the run.

use std::collections::BTreeMap;

use everflow_json::Value;
use sha1::Sha1;
use sha2::{Digest, Sha256};

use crate::keys::Keys;

pub const SINK: &str = "127.0.0.1:18080";
pub const TLS: &str = "127.0.0.1:18443";
pub const MTLS: &str = "127.0.0.1:18444";
pub const NATS: &str = "127.0.0.1:14222";
pub const DEAD: &str = "127.0.0.1:18999";
pub const ISSUER: &str = "http://127.0.0.1:18081";

/// Values of the run: any text fits.
const WILD: [&str; 16] = [
    "$TIME",
    "$HTTPDATE",
    "$DATE",
    "$CLOCK",
    "$FRACTION",
    "$SECONDS",
    "$UNIX",
    "$SPANID",
    "$HEX",
    "$PORT",
    "$HOSTNAME",
    "$LENGTH",
    "$JWT",
    "$TOKEN",
    "$X",
    "$NONCE",
];

/// Fills in symbols.
pub struct Symbols<'k> {
    plain: BTreeMap<&'static str, &'k str>,
}

impl<'k> Symbols<'k> {
    pub fn new(keys: &'k Keys) -> Self {
        let plain = BTreeMap::from([
            ("$SINK", SINK),
            ("$TLS", TLS),
            ("$MTLS", MTLS),
            ("$NATS", NATS),
            ("$DEAD", DEAD),
            ("$ISSUER", ISSUER),
            ("$CA", keys.ca.as_str()),
            ("$OTHER_CA", keys.other_ca.as_str()),
            ("$CLIENT_CERT", keys.client_cert.as_str()),
            ("$CLIENT_KEY", keys.client_key.as_str()),
            ("$RSA_KEY", keys.rsa_pem.as_str()),
            ("$RSA_JSON", keys.rsa_json.as_str()),
        ]);
        Symbols { plain }
    }

    /// A tree with its symbols filled in.
    pub fn fill(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::from(self.text(text)),
            Value::Array(items) => Value::Array(items.iter().map(|item| self.fill(item)).collect()),
            Value::Object(map) => Value::Object(
                map.iter()
                    .map(|(key, value)| {
                        (everflow_json::Text::from(self.text(key)), self.fill(value))
                    })
                    .collect(),
            ),
            other => other.clone(),
        }
    }

    /// A text with its symbols filled in.
    pub fn text(&self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            rest = &rest[at..];
            let name_end = rest[1..]
                .find(|c: char| !c.is_ascii_uppercase() && !c.is_ascii_digit() && c != '_');
            let (name, behind) = rest.split_at(name_end.map_or(rest.len(), |end| end + 1));
            let argument = behind.strip_prefix('(').and_then(|inner| {
                let end = closing(inner)?;
                Some((&inner[..end], &inner[end + 1..]))
            });
            match (
                self.function(name, argument.map(|(inner, _)| inner)),
                argument,
            ) {
                (Some(value), Some((_, after))) => {
                    out.push_str(&value);
                    rest = after;
                }
                _ => {
                    out.push_str(self.plain.get(name).copied().unwrap_or(name));
                    rest = behind;
                }
            }
        }
        out.push_str(rest);
        out
    }

    fn function(&self, name: &str, argument: Option<&str>) -> Option<String> {
        let argument = argument?;
        Some(match name {
            "$UID" => uid(argument),
            "$UID8" => uid(argument)[..8].to_owned(),
            "$SHA1" => hex(&Sha1::digest(self.text(argument))),
            "$SHA256" => hex(&Sha256::digest(self.text(argument))),
            "$TRACEID" => {
                let (object, revision) = argument.split_once(':')?;
                hex(&Sha256::digest(format!("{}:{revision}", uid(object)))[..16])
            }
            "$REPEAT" => {
                let (text, count) = argument.split_once(',')?;
                text.repeat(count.parse().ok()?)
            }
            _ => return None,
        })
    }
}

/// Where the parenthesis closes that has just been opened.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 1;
    for (at, char) in text.char_indices() {
        match char {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// The unique id of `KIND/NAME`.
pub fn uid(object: &str) -> String {
    let digits = hex(&Sha256::digest(object));
    format!(
        "{}-{}-4{}-8{}-{}",
        &digits[..8],
        &digits[8..12],
        &digits[12..15],
        &digits[15..18],
        &digits[18..30]
    )
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a text fits a recorded one, in which values of the run may be anything.
pub fn fits(recorded: &str, text: &str) -> bool {
    let first = WILD
        .iter()
        .filter_map(|wild| Some((recorded.find(wild)?, wild.len())));
    let Some((at, length)) = first.min_by_key(|(at, length)| (*at, usize::MAX - length)) else {
        return recorded == text;
    };
    let Some(rest) = text.strip_prefix(&recorded[..at]) else {
        return false;
    };
    let behind = &recorded[at + length..];
    (0..=rest.len())
        .filter(|end| rest.is_char_boundary(*end))
        .any(|end| fits(behind, &rest[end..]))
}
