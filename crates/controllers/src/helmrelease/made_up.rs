//! Placeholders for values of ConfigMaps and Secrets that cannot be had.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everflow_api::common::ConfigKind;
use everflow_api::helm::ValuesReference;
use everflow_build::{PLACEHOLDER, placeholder_of};
use everflow_json::{Value, json};

use crate::configs::data;

/// The key of the values where a reference names none.
const DEFAULT_KEY: &str = "values.yaml";

/// Puts placeholders for what references ask for and the objects do not have: a word for a single value, and
/// nothing for a whole document, also where it is only a placeholder itself.
pub(super) fn complete(
    references: &[ValuesReference],
    holders: &mut BTreeMap<(ConfigKind, String), Value>,
) {
    for reference in references.iter().filter(|reference| !reference.optional) {
        let kind = reference.kind;
        let holder = holders.entry((kind, reference.name.clone()));
        let holder = holder.or_insert_with(|| json!({"kind": kind.as_str(), "data": {}}));
        holder["kind"] = json!(kind.as_str());
        let key = reference.values_key.as_deref().unwrap_or(DEFAULT_KEY);
        let there = data(holder).remove(key);
        let text = match (&reference.target_path, there) {
            (Some(path), None) => placeholder_of(&words(path)),
            (None, None) => String::new(),
            (None, Some(text)) if text.trim().starts_with(PLACEHOLDER) => String::new(),
            (_, Some(_)) => continue,
        };
        holder["data"][key] = match kind {
            ConfigKind::Secret => json!(STANDARD.encode(text)),
            ConfigKind::ConfigMap => json!(text),
        };
    }
}

/// The last part of a path as the name of a variable: `ingress.hostName` speaks of a host as `HOST_NAME` does.
fn words(path: &str) -> String {
    let last = path.rsplit('.').next().unwrap_or(path);
    let mut name = String::new();
    for character in last.chars() {
        match character {
            'A'..='Z' if name.ends_with(|before: char| before.is_ascii_lowercase()) => {
                name.push('_');
                name.push(character);
            }
            'a'..='z' | 'A'..='Z' | '0'..='9' => name.push(character),
            _ if name.ends_with('_') => {}
            _ => name.push('_'),
        }
    }
    name.trim_matches('_').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(name: &str, more: impl FnOnce(&mut ValuesReference)) -> ValuesReference {
        let mut reference = ValuesReference {
            kind: ConfigKind::Secret,
            name: name.into(),
            ..ValuesReference::default()
        };
        more(&mut reference);
        reference
    }

    #[test]
    fn placeholders_are_added_for_missing_values_only() {
        let at = |name: &str, key: &str, path: &str| {
            reference(name, |reference| {
                reference.values_key = Some(key.into());
                reference.target_path = Some(path.into());
            })
        };
        let references = [
            reference("gone", |_| ()),
            reference("encrypted", |_| ()),
            reference("optional", |reference| reference.optional = true),
            at("there", "known", "a"),
            at("there", "unknown", "ingress.hostName"),
        ];
        let mut holders = BTreeMap::from([
            (
                (ConfigKind::Secret, "encrypted".to_owned()),
                json!({"data": {"values.yaml": STANDARD.encode("placeholder")}}),
            ),
            (
                (ConfigKind::Secret, "there".to_owned()),
                json!({"data": {"known": STANDARD.encode("real")}}),
            ),
        ]);
        complete(&references, &mut holders);
        let told: Vec<(String, String, String)> = holders
            .iter()
            .flat_map(|((_, name), holder)| {
                let all = data(holder).into_iter();
                all.map(|(key, value)| (name.clone(), key, value))
            })
            .collect();
        let line = |name: &str, key: &str, value: &str| {
            (name.to_owned(), key.to_owned(), value.to_owned())
        };
        assert_eq!(
            told,
            [
                line("encrypted", "values.yaml", ""),
                line("gone", "values.yaml", ""),
                line("there", "known", "real"),
                line("there", "unknown", "host-name.placeholder.example"),
            ]
        );
    }
}
