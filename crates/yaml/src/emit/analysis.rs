//! What a scalar's text allows: plain, quoted or as a block.

/// The forms a text can be written in without changing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Analysis {
    /// The text holds a line break, so it cannot be a key on one line.
    pub multiline: bool,
    /// Plain inside `{}` or `[]`.
    pub flow_plain: bool,
    /// Plain in a block.
    pub block_plain: bool,
    /// `'…'`
    pub single_quoted: bool,
    /// `|` and `>`
    pub block: bool,
}

const EMPTY: Analysis = Analysis {
    multiline: false,
    flow_plain: false,
    block_plain: true,
    single_quoted: true,
    block: false,
};

const HARMLESS: Analysis = Analysis {
    multiline: false,
    flow_plain: true,
    block_plain: true,
    single_quoted: true,
    block: true,
};

/// Bytes that never matter after the first place: ASCII letters, digits and most punctuation.
const ORDINARY: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0x21;
    while byte < 0x7F {
        table[byte] = true;
        byte += 1;
    }
    let special = b",?[]{}:#";
    let mut at = 0;
    while at < special.len() {
        table[special[at] as usize] = false;
        at += 1;
    }
    table
};

/// True for a byte that has no meaning of its own, unless it comes first.
pub(super) fn is_ordinary(byte: u8) -> bool {
    ORDINARY[usize::from(byte)]
}

/// What was seen on the way through a text.
#[derive(Default)]
struct Seen {
    block_indicator: bool,
    flow_indicator: bool,
    line_break: bool,
    special: bool,
    tab: bool,
    space_first: bool,
    space_last: bool,
    break_first: bool,
    break_last: bool,
    space_after_break: bool,
    break_after_space: bool,
}

/// Looks a text over. `tabs_in_blocks` is the one difference between the two libraries: v3 keeps
/// `|` for text with tabs, v2 falls back to double quotes.
pub(super) fn analyze(text: &str, tabs_in_blocks: bool) -> Analysis {
    let bytes = text.as_bytes();
    let Some(&first) = bytes.first() else {
        return EMPTY;
    };
    let mut seen = Seen::default();
    if bytes.starts_with(b"---") || bytes.starts_with(b"...") {
        seen.block_indicator = true;
        seen.flow_indicator = true;
    }
    first_byte(first, bytes.get(1).copied(), &mut seen);
    if !seen.flow_indicator && bytes.iter().all(|byte| ORDINARY[usize::from(*byte)]) {
        return HARMLESS;
    }
    scan(text, &mut seen);
    seen.verdict(tabs_in_blocks)
}

fn first_byte(first: u8, second: Option<u8>, seen: &mut Seen) {
    let blank_follows = matches!(second, None | Some(b' ' | b'\t'));
    match first {
        b'#' | b',' | b'[' | b']' | b'{' | b'}' | b'&' | b'*' | b'!' | b'|' | b'>' | b'\''
        | b'"' | b'%' | b'@' | b'`' => {
            seen.flow_indicator = true;
            seen.block_indicator = true;
        }
        b'?' | b':' => {
            seen.flow_indicator = true;
            seen.block_indicator |= blank_follows;
        }
        b'-' if blank_follows => {
            seen.flow_indicator = true;
            seen.block_indicator = true;
        }
        _ => {}
    }
}

fn scan(text: &str, seen: &mut Seen) {
    let bytes = text.as_bytes();
    let mut previous_space = false;
    let mut previous_break = false;
    let mut after_blank = true;
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        if ORDINARY[usize::from(byte)] {
            at += 1;
            while at < bytes.len() && ORDINARY[usize::from(bytes[at])] {
                at += 1;
            }
            previous_space = false;
            previous_break = false;
            after_blank = false;
            continue;
        }
        let width = char_width(byte);
        let last = at + width >= bytes.len();
        match byte {
            b' ' => {
                seen.space_first |= at == 0;
                seen.space_last |= last;
                seen.space_after_break |= previous_break;
                previous_space = true;
                previous_break = false;
            }
            b'\t' => {
                seen.tab = true;
                previous_space = false;
                previous_break = false;
            }
            _ => {
                if at > 0 {
                    indicator_inside(byte, bytes.get(at + 1).copied(), after_blank, seen);
                }
                seen.special |= !is_printable(&bytes[at..]);
                let is_break = is_break(&bytes[at..]);
                if is_break {
                    seen.line_break = true;
                    seen.break_first |= at == 0;
                    seen.break_last |= last;
                    seen.break_after_space |= previous_space;
                }
                previous_space = false;
                previous_break = is_break;
            }
        }
        after_blank = matches!(byte, b' ' | b'\t' | 0) || previous_break;
        at += width;
    }
}

fn indicator_inside(byte: u8, next: Option<u8>, after_blank: bool, seen: &mut Seen) {
    match byte {
        b',' | b'?' | b'[' | b']' | b'{' | b'}' => seen.flow_indicator = true,
        b':' => {
            seen.flow_indicator = true;
            seen.block_indicator |= matches!(next, None | Some(b' ' | b'\t'));
        }
        b'#' if after_blank => {
            seen.flow_indicator = true;
            seen.block_indicator = true;
        }
        _ => {}
    }
}

impl Seen {
    fn verdict(&self, tabs_in_blocks: bool) -> Analysis {
        let blank_at_edge =
            self.space_first || self.space_last || self.break_first || self.break_last;
        let unquotable = self.break_after_space || self.special || self.tab;
        let plain = !(blank_at_edge || self.space_after_break || unquotable || self.line_break);
        Analysis {
            multiline: self.line_break,
            flow_plain: plain && !self.flow_indicator,
            block_plain: plain && !self.block_indicator,
            single_quoted: !(self.space_after_break || unquotable),
            block: !(self.space_last
                || self.break_after_space
                || self.special
                || self.tab && !tabs_in_blocks),
        }
    }
}

/// How many bytes the character that begins with this byte has.
pub(super) fn char_width(first: u8) -> usize {
    match first {
        0..=0x7F => 1,
        0x80..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xFF => 4,
    }
}

/// True if a character can stand in the output as it is. Nothing above U+FFFF can.
pub(super) fn is_printable(bytes: &[u8]) -> bool {
    match bytes {
        [b'\n' | 0x20..=0x7E, ..] => true,
        [0xC2, second, ..] => *second >= 0xA0,
        [0xED, second, ..] => *second < 0xA0,
        [0xEF, 0xBB, 0xBF, ..] | [0xEF, 0xBF, 0xBE | 0xBF, ..] => false,
        [first, ..] => matches!(first, 0xC3..=0xEF),
        [] => false,
    }
}

/// True at a line break; YAML 1.1 has five of them.
pub(super) fn is_break(bytes: &[u8]) -> bool {
    matches!(
        bytes,
        [b'\n' | b'\r', ..] | [0xC2, 0x85, ..] | [0xE2, 0x80, 0xA8 | 0xA9, ..]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_words_may_be_plain() {
        for text in ["a", "a-b", "http://x", "a b", "-a", "é"] {
            assert!(analyze(text, false).block_plain, "{text}");
        }
    }

    #[test]
    fn indicators_forbid_plain() {
        for text in ["- a", "#a", "a: b", "a #b", "a:", "---", "&a", " a", "a "] {
            assert!(!analyze(text, false).block_plain, "{text}");
        }
        assert!(!analyze("a,b", false).flow_plain);
        assert!(analyze("a,b", false).block_plain);
    }

    #[test]
    fn only_v3_keeps_blocks_with_tabs() {
        assert!(!analyze("a\tb\n", false).block);
        assert!(analyze("a\tb\n", true).block);
        assert!(!analyze("a\tb", true).single_quoted);
    }
}
