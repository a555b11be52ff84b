//! Values that must not be shown, and texts they might have got into.

use std::collections::BTreeMap;
use std::fmt;

/// A value that no message, log or event may show: whatever prints it prints `***`.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    /// Hides a value.
    pub fn new(value: T) -> Self {
        Secret(value)
    }

    /// The value itself, for the one place that needs it.
    pub fn reveal(&self) -> &T {
        &self.0
    }
}

impl From<&str> for Secret<String> {
    fn from(value: &str) -> Self {
        Secret(value.to_owned())
    }
}

impl From<String> for Secret<String> {
    fn from(value: String) -> Self {
        Secret(value)
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl<T> fmt::Display for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The data of a Kubernetes Secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SecretData {
    name: String,
    entries: BTreeMap<String, Vec<u8>>,
}

impl SecretData {
    /// A Secret by its `NAMESPACE/NAME` and its decoded data.
    pub fn new(name: impl Into<String>, entries: BTreeMap<String, Vec<u8>>) -> Self {
        SecretData {
            name: name.into(),
            entries,
        }
    }

    /// `NAMESPACE/NAME`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The content of a key.
    pub fn bytes(&self, key: &str) -> Option<&[u8]> {
        self.entries.get(key).map(Vec::as_slice)
    }

    /// The content of a key as text.
    pub fn text(&self, key: &str) -> Option<String> {
        let bytes = self.bytes(key)?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    }
}

impl fmt::Debug for SecretData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretData({}: {:?})", self.name, self.entries.keys())
    }
}

/// Shorter values are not hidden in texts: that would protect nothing and garble every message.
const SHORTEST: usize = 4;
const STARS: &str = "*****";
/// Where a text was cut.
pub(crate) const CUT: char = '…';

/// Takes secrets out of texts that foreign servers had a hand in.
#[derive(Clone, Default)]
pub struct Mask {
    /// The longest first, so that no part of one is left when another is hidden.
    values: Vec<String>,
}

impl Mask {
    /// Hides these values.
    pub fn new(values: impl IntoIterator<Item = String>) -> Self {
        let mut values: Vec<String> = values
            .into_iter()
            .filter(|value| value.trim().len() >= SHORTEST)
            .flat_map(|value| [value.trim().to_owned(), value])
            .collect();
        values.sort_by(|left, right| right.len().cmp(&left.len()).then(left.cmp(right)));
        values.dedup();
        Mask { values }
    }

    /// The text without the secrets, and without the beginning of one where the text was cut.
    pub fn apply(&self, text: &str) -> String {
        let values = self.values.iter();
        let hidden = values.fold(text.to_owned(), |text, value| text.replace(value, STARS));
        match hidden.contains(CUT) {
            true => self
                .values
                .iter()
                .fold(hidden, |text, value| without_beginning(&text, value)),
            false => hidden,
        }
    }
}

/// The text without the longest beginning of a secret that stands before the mark of a cut.
fn without_beginning(text: &str, value: &str) -> String {
    let ends = value
        .char_indices()
        .map(|(at, _)| at)
        .filter(|at| *at >= SHORTEST);
    let beginnings = ends.map(|end| format!("{}{CUT}", &value[..end])).rev();
    match beginnings
        .into_iter()
        .find(|beginning| text.contains(beginning.as_str()))
    {
        Some(beginning) => text.replace(&beginning, &format!("{STARS}{CUT}")),
        None => text.to_owned(),
    }
}

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mask({} values)", self.values.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_shows_stars() {
        let secret: Secret<String> = "hunter2".into();
        assert_eq!(format!("{secret} {secret:?}"), "*** ***");
        let data = SecretData::new(
            "a/b",
            BTreeMap::from([("token".to_owned(), b"hunter2".to_vec())]),
        );
        assert_eq!(format!("{data:?}"), r#"SecretData(a/b: ["token"])"#);
    }

    #[test]
    fn the_beginning_of_a_secret_at_a_cut_is_hidden() {
        let mask = Mask::new(["supersecret".to_owned()]);
        assert_eq!(mask.apply("bad token supers…"), "bad token *****…");
        assert_eq!(mask.apply("bad token supersecret…"), "bad token *****…");
        assert_eq!(mask.apply("so supers"), "so supers");
        assert_eq!(mask.apply("sup…"), "sup…");
    }

    #[test]
    fn the_longest_secret_is_hidden_first_and_short_values_stay() {
        let mask = Mask::new([
            "secret".to_owned(),
            "secret-long\n".to_owned(),
            "gh".to_owned(),
        ]);
        assert_eq!(
            mask.apply("missing secret-long or secret"),
            "missing ***** or *****"
        );
    }
}
