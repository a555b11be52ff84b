//! Whether a text, written plain, would be read back as something other than a string.

use crate::read::{Timestamp, resolve_plain};
use crate::{Dialect, ScalarKind};

/// True if the library that prints would itself read the plain text as a string.
///
/// `<<` counts as one: both libraries know it only as a key.
pub(super) fn reads_as_string(text: &str, dialect: Dialect) -> bool {
    match resolve_plain(dialect, text) {
        // go-yaml v2 reads dates as strings, yet quotes strings that look like dates.
        ScalarKind::String => dialect == Dialect::Kyaml || Timestamp::parse(text).is_none(),
        ScalarKind::Merge => true,
        _ => false,
    }
}

/// The short YAML 1.1 booleans: v2 reads them, v3 reads strings but quotes them all the same.
pub(super) fn is_old_bool(text: &str) -> bool {
    matches!(
        text,
        "y" | "Y"
            | "yes"
            | "Yes"
            | "YES"
            | "on"
            | "On"
            | "ON"
            | "n"
            | "N"
            | "no"
            | "No"
            | "NO"
            | "off"
            | "Off"
            | "OFF"
    )
}

/// Sexagesimal numbers such as `1:30`: nobody reads them any more, yet both libraries quote them.
pub(super) fn is_sexagesimal(text: &str) -> bool {
    if !matches!(text.as_bytes().first(), Some(b'+' | b'-' | b'0'..=b'9')) {
        return false;
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if !unsigned.starts_with(|first: char| first.is_ascii_digit()) || !unsigned.contains(':') {
        return false;
    }
    let (whole, fraction) = match unsigned.split_once('.') {
        Some((whole, fraction)) => (whole, fraction),
        None => (unsigned, ""),
    };
    let digit_or_underscore = |byte: u8| byte.is_ascii_digit() || byte == b'_';
    let mut parts = whole.split(':');
    let head = parts.next().unwrap_or_default();
    head.bytes().all(digit_or_underscore)
        && fraction.bytes().all(digit_or_underscore)
        && parts.all(|part| match part.as_bytes() {
            [ones] => ones.is_ascii_digit(),
            [tens, ones] => matches!(tens, b'0'..=b'5') && ones.is_ascii_digit(),
            _ => false,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_dates_and_words_of_both_dialects() {
        for text in [
            "",
            "1",
            "-1",
            "0x1F",
            "0o17",
            "017",
            "08",
            "1_000",
            "1e3",
            ".5",
            "1.",
            "+1",
            "0b-1",
            "true",
            "~",
            "null",
            ".inf",
            "-.inf",
            "+.INF",
            ".nan",
            "2024-01-01",
            "2024-1-2T3:4:5Z",
            "2024-01-01 10:11:12.5",
            "18446744073709551615",
            "99999999999999999999",
        ] {
            assert!(!reads_as_string(text, Dialect::Sigs), "{text}");
            assert!(!reads_as_string(text, Dialect::Kyaml), "{text}");
        }
        for text in [
            "a",
            "1e309",
            "0o8",
            "0x",
            "-.nan",
            "1:30",
            "2024-13-01",
            "2024-02-30",
            "1.2.3",
            "tRUE",
            "+",
            "-",
            ".",
            "._5",
            "0xFFFFFFFFFFFFFFFFF",
            "<<",
        ] {
            assert!(reads_as_string(text, Dialect::Sigs), "{text}");
            assert!(reads_as_string(text, Dialect::Kyaml), "{text}");
        }
    }

    #[test]
    fn short_booleans_are_v2_only() {
        assert!(!reads_as_string("yes", Dialect::Sigs));
        assert!(reads_as_string("yes", Dialect::Kyaml));
    }

    #[test]
    fn sexagesimal() {
        assert!(is_sexagesimal("1:30"));
        assert!(is_sexagesimal("-1_0:59.5"));
        assert!(!is_sexagesimal("1:60"));
        assert!(!is_sexagesimal("1"));
        assert!(!is_sexagesimal("a:1"));
    }
}
