//! Scalars in each of the five styles.

use super::analysis::{is_break, is_printable};
use super::emitter::Emitter;
use crate::Style;

const BYTE_ORDER_MARK: char = '\u{FEFF}';

impl Emitter<'_> {
    /// Writes a text in a style it allows.
    pub(super) fn write_scalar(&mut self, text: &str, style: Style) {
        let may_fold = !self.context.simple_key;
        match style {
            Style::Plain | Style::Flow => self.write_plain(text, may_fold),
            Style::SingleQuoted => self.write_single_quoted(text, may_fold),
            Style::DoubleQuoted => self.write_double_quoted(text, may_fold),
            Style::Literal => self.write_literal(text),
            Style::Folded => self.write_folded(text),
        }
    }

    fn write_plain(&mut self, text: &str, may_fold: bool) {
        if text.is_empty() {
            self.indention = false;
            return;
        }
        if !self.whitespace {
            self.put(' ');
        }
        if may_fold && self.reaches_width(text) {
            self.write_foldable(text, Quote::None);
        } else {
            self.put_text(text);
        }
        self.whitespace = false;
        self.indention = false;
    }

    fn write_single_quoted(&mut self, text: &str, may_fold: bool) {
        self.write_indicator("'", true, false, false);
        let needs_care = text
            .bytes()
            .any(|byte| matches!(byte, b'\'' | b'\n' | b'\r' | 0xC2 | 0xE2));
        if needs_care || may_fold && self.reaches_width(text) {
            self.write_foldable(
                text,
                if may_fold {
                    Quote::Foldable
                } else {
                    Quote::Single
                },
            );
        } else {
            self.put_text(text);
        }
        self.write_indicator("'", false, false, false);
        self.whitespace = false;
        self.indention = false;
    }

    /// True if the text could get past the last column; bytes are never fewer than characters.
    fn reaches_width(&self, text: &str) -> bool {
        self.column.saturating_add(text.len()) > self.profile.width
    }

    /// Writes text word by word, so that it can fold at spaces.
    fn write_foldable(&mut self, text: &str, quote: Quote) {
        let may_fold = quote != Quote::Single;
        let quoted = quote != Quote::None;
        let mut after_space = false;
        let mut after_break = false;
        let mut at = 0;
        while let Some(char) = text[at..].chars().next() {
            let rest = &text.as_bytes()[at..];
            if char == ' ' {
                let inside = !quoted || at > 0 && rest.len() > 1;
                let fold = may_fold
                    && !after_space
                    && self.column > self.profile.width
                    && inside
                    && rest.get(1) != Some(&b' ');
                if fold {
                    self.write_indent();
                } else {
                    self.put(' ');
                }
                after_space = true;
                at += 1;
            } else if is_break(rest) {
                if !after_break && char == '\n' {
                    self.put_break();
                }
                self.copy_break(char);
                after_break = true;
                at += char.len_utf8();
            } else {
                if after_break {
                    self.write_indent();
                }
                if quoted && char == '\'' {
                    self.put('\'');
                }
                let word = char.len_utf8() + word_length(&rest[char.len_utf8()..]);
                self.put_text(&text[at..at + word]);
                self.indention = false;
                after_space = false;
                after_break = false;
                at += word;
            }
        }
    }

    fn write_double_quoted(&mut self, text: &str, may_fold: bool) {
        self.write_indicator("\"", true, false, false);
        // libyaml looks for the mark at the start of the text whatever character it is at, so a
        // text that begins with one is escaped to its end.
        let escape_all = text.starts_with(BYTE_ORDER_MARK);
        let bytes = text.as_bytes();
        let may_fold = may_fold && self.profile.width != usize::MAX;
        let mut after_space = false;
        let mut at = 0;
        while let Some(char) = text[at..].chars().next() {
            let rest = &bytes[at..];
            if escape_all || matches!(char, '"' | '\\') || !is_printable(rest) || is_break(rest) {
                self.write_escape(char);
                after_space = false;
                at += char.len_utf8();
            } else if char == ' ' {
                let fold = may_fold
                    && !after_space
                    && self.column > self.profile.width
                    && at > 0
                    && rest.len() > 1;
                if fold {
                    self.write_indent();
                    if rest.get(1) == Some(&b' ') {
                        self.put('\\');
                    }
                } else {
                    self.put(' ');
                }
                after_space = true;
                at += 1;
            } else {
                let word = char.len_utf8() + word_length(&rest[char.len_utf8()..]);
                self.put_text(&text[at..at + word]);
                after_space = false;
                at += word;
            }
        }
        self.write_indicator("\"", false, false, false);
        self.whitespace = false;
        self.indention = false;
    }

    fn write_escape(&mut self, char: char) {
        self.put('\\');
        let short = match char {
            '\0' => '0',
            '\u{7}' => 'a',
            '\u{8}' => 'b',
            '\t' => 't',
            '\n' => 'n',
            '\u{B}' => 'v',
            '\u{C}' => 'f',
            '\r' => 'r',
            '\u{1B}' => 'e',
            '"' => '"',
            '\\' => '\\',
            '\u{85}' => 'N',
            '\u{A0}' => '_',
            '\u{2028}' => 'L',
            '\u{2029}' => 'P',
            _ => {
                let code = u32::from(char);
                let escape = match code {
                    0..=0xFF => format!("x{code:02X}"),
                    0x100..=0xFFFF => format!("u{code:04X}"),
                    _ => format!("U{code:08X}"),
                };
                self.put_text(&escape);
                return;
            }
        };
        self.put(short);
    }

    fn write_literal(&mut self, text: &str) {
        self.write_block_header("|", text);
        if has_exotic_break(text) {
            self.write_literal_slowly(text);
            return;
        }
        for line in text.split_inclusive('\n') {
            let content = line.strip_suffix('\n').unwrap_or(line);
            if !content.is_empty() {
                self.write_indent();
                self.put_text(content);
                self.indention = false;
            }
            if content.len() < line.len() {
                self.put_break();
            }
        }
    }

    fn write_literal_slowly(&mut self, text: &str) {
        let mut after_break = true;
        for (at, char) in text.char_indices() {
            if is_break(&text.as_bytes()[at..]) {
                self.copy_break(char);
                after_break = true;
            } else {
                if after_break {
                    self.write_indent();
                }
                self.put(char);
                self.indention = false;
                after_break = false;
            }
        }
    }

    fn write_folded(&mut self, text: &str) {
        self.write_block_header(">", text);
        let bytes = text.as_bytes();
        // libyaml means to look at what follows a run of breaks but looks at the text's start, so
        // this is the same question for every break of the text.
        let leading_breaks: usize = text
            .char_indices()
            .take_while(|(at, _)| is_break(&bytes[*at..]))
            .map(|(_, char)| char.len_utf8())
            .sum();
        let starts_with_content = bytes
            .get(leading_breaks)
            .is_some_and(|byte| !matches!(byte, b' ' | b'\t' | 0));
        let mut after_break = true;
        let mut indented_line = true;
        for (at, char) in text.char_indices() {
            if is_break(&bytes[at..]) {
                if !after_break && !indented_line && char == '\n' && starts_with_content {
                    self.put_break();
                }
                self.copy_break(char);
                after_break = true;
                continue;
            }
            if after_break {
                self.write_indent();
                indented_line = matches!(char, ' ' | '\t');
            }
            let fold = !after_break
                && char == ' '
                && bytes.get(at + 1) != Some(&b' ')
                && self.column > self.profile.width;
            if fold {
                self.write_indent();
            } else {
                self.put(char);
            }
            self.indention = false;
            after_break = false;
        }
    }

    /// `|` or `>`, the indentation hint for text that begins with blanks, and the chomping mark.
    fn write_block_header(&mut self, indicator: &str, text: &str) {
        self.write_indicator(indicator, true, false, false);
        let bytes = text.as_bytes();
        if bytes.first() == Some(&b' ') || is_break(bytes) {
            let step = if self.profile.step == 4 { "4" } else { "2" };
            self.write_indicator(step, false, false, false);
        }
        let mut from_end = text.char_indices().rev();
        let mut ends_with_break = || {
            from_end
                .next()
                .is_some_and(|(at, _)| is_break(&bytes[at..]))
        };
        if !ends_with_break() {
            self.write_indicator("-", false, false, false);
        } else if ends_with_break() || text.chars().nth(1).is_none() {
            self.write_indicator("+", false, false, false);
        }
        self.line_comment_or_break();
        self.whitespace = true;
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quote {
    /// Plain text.
    None,
    /// Single quotes that may fold.
    Foldable,
    /// Single quotes around a key.
    Single,
}

/// How many bytes can be copied before one that a quoted style has to look at.
fn word_length(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .position(|byte| !matches!(byte, b'!' | b'#'..=b'&' | b'('..=b'[' | b']'..=b'~'))
        .unwrap_or(bytes.len())
}

/// True if the text may hold a line break other than `\n` that a block can carry: U+2028, U+2029.
fn has_exotic_break(text: &str) -> bool {
    text.contains(['\u{2028}', '\u{2029}'])
}
