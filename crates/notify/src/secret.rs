//! Values that must not be shown, and texts they might have got into.

use std::collections::BTreeMap;
use std::fmt;

use everflow_json::Value;

use crate::url::{Part, escape};

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
        let mut mask = Mask::default();
        mask.hide(values);
        mask
    }

    /// Hides whatever may be a part of a text that could not be read: an error may repeat any of it.
    pub(crate) fn of_parts(text: &str) -> Self {
        Mask::new(parts(text))
    }

    /// Hides these values, too.
    pub(crate) fn hide(&mut self, values: impl IntoIterator<Item = String>) {
        let values = values.into_iter();
        let values = values.filter(|value| value.trim().len() >= SHORTEST);
        self.values.extend(values.flat_map(forms));
        self.values
            .sort_by(|left, right| right.len().cmp(&left.len()).then(left.cmp(right)));
        self.values.dedup();
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

/// The words of a text.
pub(crate) fn parts(text: &str) -> impl Iterator<Item = String> {
    let parts = text.split(|char: char| !char.is_alphanumeric() && !"-_.%+".contains(char));
    let parts = parts.filter(|part| !matches!(*part, "http" | "https" | "socks5"));
    parts.map(str::to_owned)
}

/// A value as it may stand in an answer: as it is, without what is around it, within JSON and in an address.
fn forms(value: String) -> [String; 5] {
    let bare = value.trim().to_owned();
    let quoted = Value::from(bare.as_str()).to_string();
    let quoted = quoted.strip_prefix('"').unwrap_or(&quoted);
    let in_json = quoted.strip_suffix('"').unwrap_or(quoted).to_owned();
    let in_path = escape(&bare, Part::Segment);
    let in_query = escape(&bare, Part::Query);
    [value, bare, in_json, in_path, in_query]
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
    fn a_secret_is_hidden_in_json_and_in_addresses_too() {
        let mask = Mask::new(["se\"cr/et+".to_owned()]);
        let shown = mask.apply(r#"{"a":"se\"cr/et+"} /x/se%22cr%2Fet+ ?q=se%22cr%2Fet%2B"#);
        assert_eq!(shown, r#"{"a":"*****"} /x/***** ?q=*****"#);
    }

    #[test]
    fn no_part_of_what_could_not_be_read_is_shown() {
        let mask = Mask::of_parts("http://user:hunter2x/y@h");
        let shown = mask.apply("invalid port \":hunter2x\" after host");
        assert_eq!(shown, "invalid port \":*****\" after host");
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
