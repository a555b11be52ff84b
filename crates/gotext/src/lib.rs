//! Texts as Go's `strconv` quotes them, and its tables of characters. Error messages of every Go tool have quoted names in
//! them: whoever words such a message quotes here.

#![forbid(unsafe_code)]

mod quote;
mod unicode_tables;

pub use quote::*;

/// Text in double quotes (`%q` of a string).
pub fn quoted(text: &str) -> String {
    quote(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_quoted_with_the_escapes_of_go() {
        for (text, expected) in [
            ("plain", r#""plain""#),
            ("a\"b\\\n\u{1}é\u{a0}\u{7f}", r#""a\"b\\\n\x01é\u00a0\x7f""#),
            ("\u{7}\u{8}\u{c}\r\t\u{b}", r#""\a\b\f\r\t\v""#),
            ("\u{feff}\u{200b}\u{ad}", r#""\ufeff\u200b\u00ad""#),
            ("e\u{301}", "\"e\u{301}\""),
            ("\u{e0001}", r#""\U000e0001""#),
        ] {
            assert_eq!(quoted(text), expected);
        }
    }

    #[test]
    fn quoted_text_unquotes_to_the_original() {
        for text in [
            "",
            "a\"b\\",
            "\u{0}\u{7f}\u{80}",
            "日本\u{2028}",
            "\u{10ffff}",
        ] {
            assert_eq!(unquote(quoted(text).as_bytes()).unwrap(), text.as_bytes());
        }
    }
}
