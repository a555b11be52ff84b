/// A string in double quotes with Go's escapes, as `%q` writes it.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            ' '..='~' => out.push(c),
            _ if is_printable(c) => out.push(c),
            _ if (c as u32) < 0x80 => out.push_str(&format!("\\x{:02x}", c as u32)),
            _ if (c as u32) < 0x1_0000 => out.push_str(&format!("\\u{:04x}", c as u32)),
            _ => out.push_str(&format!("\\U{:08x}", c as u32)),
        }
    }
    out.push('"');
    out
}

/// Whether the debug form of a string shows the character as it is. The standard library uses the
/// same categories as Go there: letters, marks, numbers, punctuation, symbols.
fn is_printable(c: char) -> bool {
    // The character goes second, because combining marks are escaped only in the first place.
    let pair: String = ['a', c].iter().collect();
    pair.escape_debug().eq(pair.chars())
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn escapes_as_go_does() {
        assert_eq!(
            quoted("a\"b\\\n\u{1}é\u{a0}\u{7f}"),
            r#""a\"b\\\n\x01é\u00a0\x7f""#
        );
    }
}
