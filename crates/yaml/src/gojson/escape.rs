//! String literals.

/// Whether `<`, `>` and `&` become `\u003c`, `\u003e` and `\u0026`, as Go does unless told not to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HtmlEscape {
    /// `json.Marshal` and every encoder left as it is.
    On,
    /// An encoder after `SetEscapeHTML(false)`.
    Off,
}

const HEX: [char; 16] = [
    '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f',
];

/// Bytes that end a run of text that can be copied as it is: control characters, `"`, `\`, the
/// three HTML characters, and 0xE2, which begins U+2028 and U+2029.
const STOPS: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 0x20 {
        table[byte] = true;
        byte += 1;
    }
    table[b'"' as usize] = true;
    table[b'\\' as usize] = true;
    table[b'<' as usize] = true;
    table[b'>' as usize] = true;
    table[b'&' as usize] = true;
    table[0xE2] = true;
    table
};

/// Appends the text as a JSON string, quotes included.
pub fn write_escaped(out: &mut String, text: &str, html: HtmlEscape) {
    out.push('"');
    write_body(out, text, html);
    out.push('"');
}

/// Appends bytes as a JSON string; each byte that is not part of valid UTF-8 becomes `\ufffd`.
pub fn write_escaped_bytes(out: &mut String, bytes: &[u8], html: HtmlEscape) {
    out.push('"');
    for chunk in bytes.utf8_chunks() {
        write_body(out, chunk.valid(), html);
        for _ in chunk.invalid() {
            out.push_str("\\ufffd");
        }
    }
    out.push('"');
}

fn write_body(out: &mut String, text: &str, html: HtmlEscape) {
    let bytes = text.as_bytes();
    let mut copied = 0;
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        if !STOPS[byte as usize] {
            at += 1;
            continue;
        }
        let width = match byte {
            b'<' | b'>' | b'&' if html == HtmlEscape::Off => 0,
            0xE2 if is_line_separator(&bytes[at..]) => 3,
            0xE2 => 0,
            _ => 1,
        };
        if width == 0 {
            at += 1;
            continue;
        }
        out.push_str(&text[copied..at]);
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            0x08 => out.push_str("\\b"),
            0x0C => out.push_str("\\f"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            0xE2 => {
                out.push_str("\\u202");
                out.push(HEX[usize::from(bytes[at + 2] & 0xF)]);
            }
            _ => {
                out.push_str("\\u00");
                out.push(HEX[usize::from(byte >> 4)]);
                out.push(HEX[usize::from(byte & 0xF)]);
            }
        }
        at += width;
        copied = at;
    }
    out.push_str(&text[copied..]);
}

/// True at the first byte of U+2028 or U+2029, which Go escapes because JavaScript ends a line there.
fn is_line_separator(bytes: &[u8]) -> bool {
    matches!(bytes, [0xE2, 0x80, 0xA8 | 0xA9, ..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(text: &str, html: HtmlEscape) -> String {
        let mut out = String::new();
        write_escaped(&mut out, text, html);
        out
    }

    #[test]
    fn html_characters_depend_on_the_setting() {
        assert_eq!(escaped("<&>", HtmlEscape::On), r#""\u003c\u0026\u003e""#);
        assert_eq!(escaped("<&>", HtmlEscape::Off), r#""<&>""#);
    }

    #[test]
    fn line_separators_are_always_escaped_but_their_neighbours_are_not() {
        assert_eq!(
            escaped("\u{2028}\u{2029}\u{2030}", HtmlEscape::Off),
            "\"\\u2028\\u2029\u{2030}\""
        );
    }

    #[test]
    fn each_bad_byte_becomes_one_replacement() {
        let mut out = String::new();
        write_escaped_bytes(&mut out, b"a\xf4\x90\x80\x80b", HtmlEscape::On);
        assert_eq!(out, r#""a\ufffd\ufffd\ufffd\ufffdb""#);
    }
}
