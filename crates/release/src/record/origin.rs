//! Which HelmRelease a manifest was rendered for, found in its text as it passes.

use everflow_api::names::label;

/// A label's value is not longer than this.
const LONGEST_VALUE: usize = 128;

/// Looks for the first origin labels in the JSON text of a manifest that comes in parts.
pub(super) struct OriginFinder {
    name: LabelFinder,
    namespace: LabelFinder,
}

impl OriginFinder {
    pub(super) fn new() -> Self {
        OriginFinder {
            name: LabelFinder::new(label::HELM_RELEASE_NAME),
            namespace: LabelFinder::new(label::HELM_RELEASE_NAMESPACE),
        }
    }

    pub(super) fn take(&mut self, part: &[u8]) {
        self.name.take(part);
        self.namespace.take(part);
    }

    /// Namespace and name.
    pub(super) fn found(self) -> Option<(String, String)> {
        Some((self.namespace.found?, self.name.found?))
    }
}

/// Looks for `KEY: VALUE` at any place.
struct LabelFinder {
    wanted: Vec<u8>,
    /// How much of `wanted` stands right before the next byte.
    matched: usize,
    value: Option<Vec<u8>>,
    found: Option<String>,
}

impl LabelFinder {
    fn new(key: &str) -> Self {
        LabelFinder {
            wanted: format!("{key}: ").into_bytes(),
            matched: 0,
            value: None,
            found: None,
        }
    }

    fn take(&mut self, part: &[u8]) {
        for byte in part {
            if self.found.is_some() {
                return;
            }
            match &mut self.value {
                None => self.advance(*byte),
                Some(value) => {
                    let ends = *byte == b'\\' && !value.is_empty() || *byte == b'"';
                    if !ends && value.len() < LONGEST_VALUE {
                        value.push(*byte);
                        continue;
                    }
                    let text = String::from_utf8_lossy(value).into_owned();
                    let text = text.trim_matches(|c| c == '\\' || c == '\'');
                    self.found = (!text.is_empty()).then(|| text.to_owned());
                    // A quote that opens the value (`\"123\"`) is no end of it.
                    if self.found.is_none() {
                        value.clear();
                    }
                }
            }
        }
    }

    fn advance(&mut self, byte: u8) {
        // No part of a key of a label repeats its beginning, which starts with the group.
        match self.wanted.get(self.matched) {
            Some(next) if *next == byte => self.matched += 1,
            _ => self.matched = usize::from(self.wanted.first() == Some(&byte)),
        }
        if self.matched == self.wanted.len() {
            self.value = Some(Vec::new());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found_in(manifest: &str, step: usize) -> Option<(String, String)> {
        let text = everflow_yaml::gojson::to_string(&everflow_json::json!(manifest));
        let mut finder = OriginFinder::new();
        for part in text.as_bytes().chunks(step) {
            finder.take(part);
        }
        finder.found()
    }

    #[test]
    fn labels_are_found_in_any_cut() {
        let manifest = "a: b\nmetadata:\n  labels:\n    helm.toolkit.fluxcd.io/name: web\n    \
                        helm.toolkit.fluxcd.io/namespace: apps\n  name: x\n";
        for step in 1..20 {
            let found = found_in(manifest, step);
            assert_eq!(found, Some(("apps".to_owned(), "web".to_owned())), "{step}");
        }
    }

    #[test]
    fn quotes_are_no_part_of_a_name() {
        let manifest = "labels:\n  helm.toolkit.fluxcd.io/name: \"123\"\n  helm.toolkit.fluxcd.io/namespace: '7'\n";
        let found = found_in(manifest, 5);
        assert_eq!(found, Some(("7".to_owned(), "123".to_owned())));
    }

    #[test]
    fn manifest_without_owner_labels_has_no_origin() {
        assert_eq!(found_in("kind: ConfigMap\nmetadata:\n  name: x\n", 7), None);
    }
}
