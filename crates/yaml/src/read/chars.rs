//! What each byte means to the scanner.

/// Space and tab.
pub(super) const BLANK: u8 = 1;
/// Carriage return and line feed.
pub(super) const BREAK: u8 = 2;
/// First byte of a character that may be a line break: U+0085, U+2028, U+2029.
pub(super) const MAYBE_BREAK: u8 = 4;
/// Ends a plain scalar inside `[` or `{`.
pub(super) const FLOW: u8 = 8;
/// `:` and `#`, which may end a plain scalar depending on what is beside them.
pub(super) const MARK: u8 = 16;
/// Letters, digits, `_` and `-`.
pub(super) const WORD: u8 = 32;
/// The byte past the end.
pub(super) const END: u8 = 64;
/// Quotes and the backslash.
pub(super) const QUOTE: u8 = 128;

/// One bit for each question the scanner asks of a byte.
pub(super) static CLASS: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut table = [0u8; 256];
    let mut byte = 0usize;
    while byte < 256 {
        table[byte] = match byte as u8 {
            0 => END,
            b' ' | b'\t' => BLANK,
            b'\r' | b'\n' => BREAK,
            0xC2 | 0xE2 => MAYBE_BREAK,
            b',' | b'?' | b'[' | b']' | b'{' | b'}' => FLOW,
            b':' | b'#' => MARK,
            b'\'' | b'"' | b'\\' => QUOTE,
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'_' | b'-' => WORD,
            _ => 0,
        };
        byte += 1;
    }
    table
}

/// How many bytes a character has that begins with this byte; 0 for a byte that begins none.
pub(super) fn width(byte: u8) -> usize {
    match byte {
        0x00..=0x7F => 1,
        0xC0..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF7 => 4,
        _ => 0,
    }
}

/// How many characters fewer than bytes there are.
pub(super) fn continuation_bytes(bytes: &[u8]) -> usize {
    bytes.iter().filter(|&&byte| byte & 0xC0 == 0x80).count()
}
