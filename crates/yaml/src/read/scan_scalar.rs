//! Plain and quoted scalars.

use super::chars::{BLANK, BREAK, CLASS, END, FLOW, MARK, MAYBE_BREAK, QUOTE};
use super::scanner::Scanner;
use super::token::{Mark, Token};
use crate::error::Error;
use crate::node::Style;
use std::borrow::Cow;

/// Line breaks inside a scalar, which become a space or fewer line breaks.
#[derive(Default)]
pub(super) struct Fold {
    pub(super) first: &'static str,
    pub(super) rest: String,
}

impl Fold {
    /// Writes what the line breaks become and forgets them.
    fn write(&mut self, text: &mut String) {
        if self.first != "\n" {
            text.push_str(self.first);
            text.push_str(&self.rest);
        } else if self.rest.is_empty() {
            text.push(' ');
        } else {
            text.push_str(&self.rest);
        }
        self.first = "";
        self.rest.clear();
    }
}

impl<'a> Scanner<'a> {
    pub(super) fn scan_plain(&mut self) -> Result<Token<'a>, Error> {
        let start = self.mark();
        let from = self.pos;
        let end = self.plain_line();
        let first = &self.text[from..end];
        if !self.is_break_at(self.pos) {
            self.check_end()?;
            return Ok(Token::scalar(start, Style::Plain, Cow::Borrowed(first)));
        }
        let text = self.plain_lines(start, first)?;
        self.check_end()?;
        Ok(Token::scalar(start, Style::Plain, text))
    }

    /// Takes the rest of a line of plain text with the blanks behind it, and returns where the text
    /// ended.
    #[inline(always)]
    fn plain_line(&mut self) -> usize {
        let mut stop = BREAK | MAYBE_BREAK | MARK;
        if self.flow_level > 0 {
            stop |= FLOW;
        }
        let mut at = self.pos;
        loop {
            let rest = &self.bytes[at..];
            let run = rest
                .iter()
                .position(|&byte| CLASS[byte as usize] & stop != 0);
            let Some(run) = run else {
                at = self.bytes.len();
                break;
            };
            at += run;
            match self.bytes[at] {
                b':' if !self.is_blankz_at(at + 1) => {}
                b'#' if at == self.pos || !self.is_blank_at(at - 1) => {}
                0xC2 | 0xE2 if !self.is_break_at(at) => {}
                _ => break,
            }
            at += 1;
        }
        let text = &self.bytes[self.pos..at];
        let blanks = text
            .iter()
            .rev()
            .take_while(|&&byte| matches!(byte, b' ' | b'\t'))
            .count();
        let end = at - blanks;
        if end > self.pos {
            self.skip_run(end);
        }
        self.pos = at;
        end
    }

    /// The lines after the first.
    fn plain_lines(&mut self, start: Mark, first: &'a str) -> Result<Cow<'a, str>, Error> {
        let indent = self.indent + 1;
        let mut text = Cow::Borrowed(first);
        let mut fold = Fold::default();
        let mut leading_blanks = false;
        loop {
            // Blanks and line breaks.
            loop {
                match self.byte(0) {
                    b' ' => self.pos += 1,
                    b'\t' => {
                        if leading_blanks && (self.column() as i32) < indent {
                            return Err(self.error(
                                Some(start),
                                "found a tab character that violates indentation",
                            ));
                        }
                        self.pos += 1;
                    }
                    _ if self.is_break_at(self.pos) => {
                        let taken = self.take_break();
                        if leading_blanks {
                            fold.rest.push_str(taken);
                        } else {
                            fold.first = taken;
                            leading_blanks = true;
                        }
                    }
                    _ => break,
                }
            }
            if self.flow_level == 0 && (self.column() as i32) < indent {
                break;
            }
            self.check_ahead()?;
            if self.column() == 0 && self.at_document_indicator() || self.byte(0) == b'#' {
                break;
            }
            let from = self.pos;
            let end = self.plain_line();
            if end > from {
                let owned = text.to_mut();
                fold.write(owned);
                owned.push_str(&self.text[from..end]);
                leading_blanks = false;
            }
            if !self.is_break_at(self.pos) {
                break;
            }
        }
        if leading_blanks {
            self.simple_key_allowed = true;
        }
        Ok(text)
    }

    pub(super) fn scan_quoted(&mut self, single: bool) -> Result<Token<'a>, Error> {
        let start = self.mark();
        let style = match single {
            true => Style::SingleQuoted,
            false => Style::DoubleQuoted,
        };
        self.newlines = 0;
        self.pos += 1;
        // Most quoted scalars are one line without escapes.
        let quote = if single { b'\'' } else { b'"' };
        let mut at = self.pos;
        loop {
            let stop = QUOTE | BREAK | MAYBE_BREAK;
            let run = self.bytes[at..]
                .iter()
                .position(|&byte| CLASS[byte as usize] & stop != 0);
            at = run.map_or(self.bytes.len(), |run| at + run);
            match self.byte_at(at) {
                b'"' | b'\\' if single => at += 1,
                b'\'' if !single => at += 1,
                _ => break,
            }
        }
        if self.byte_at(at) == quote && !(single && self.byte_at(at + 1) == b'\'') {
            let text = &self.text[self.pos..at];
            self.skip_run(at + 1);
            self.check_end()?;
            return Ok(Token::scalar(start, style, Cow::Borrowed(text)));
        }
        let text = self.quoted_text(start, single)?;
        self.skip();
        self.check_end()?;
        Ok(Token::scalar(start, style, Cow::Owned(text)))
    }

    /// The text up to the closing quote, with escapes and folds undone.
    fn quoted_text(&mut self, start: Mark, single: bool) -> Result<String, Error> {
        let mut text = String::new();
        let mut fold = Fold::default();
        loop {
            self.check_ahead()?;
            if self.column() == 0 && self.at_document_indicator() {
                return Err(self.error(Some(start), "found unexpected document indicator"));
            }
            if self.byte(0) == 0 {
                return Err(self.error(Some(start), "found unexpected end of stream"));
            }
            let mut leading_blanks = self.quoted_run(start, single, &mut text)?;
            if self.byte(0) == if single { b'\'' } else { b'"' } {
                return Ok(text);
            }
            let from = self.pos;
            let mut blanks = from;
            loop {
                if self.is_blank_at(self.pos) {
                    self.pos += 1;
                    if !leading_blanks {
                        blanks = self.pos;
                    }
                } else if self.is_break_at(self.pos) {
                    let taken = self.take_break();
                    if leading_blanks {
                        fold.rest.push_str(taken);
                    } else {
                        fold.first = taken;
                        leading_blanks = true;
                    }
                } else {
                    break;
                }
            }
            if leading_blanks {
                fold.write_quoted(&mut text);
            } else {
                text.push_str(&self.text[from..blanks]);
            }
        }
    }

    /// Characters that are not blank; true after an escaped line break.
    fn quoted_run(&mut self, start: Mark, single: bool, text: &mut String) -> Result<bool, Error> {
        loop {
            let from = self.pos;
            let mut at = from;
            while CLASS[self.byte_at(at) as usize] & (QUOTE | BLANK | BREAK | MAYBE_BREAK | END)
                == 0
            {
                at += 1;
            }
            if at > from {
                text.push_str(&self.text[from..at]);
                self.skip_run(at);
            }
            match self.byte(0) {
                b'\'' if single && self.byte(1) == b'\'' => {
                    text.push('\'');
                    self.skip_run(at + 2);
                }
                b'\'' if single => return Ok(false),
                b'"' if !single => return Ok(false),
                b'\\' if !single => {
                    if self.is_break_at(self.pos + 1) {
                        self.skip();
                        self.take_break();
                        return Ok(true);
                    }
                    self.escape(start, text)?;
                }
                byte @ (b'\'' | b'"' | b'\\') => {
                    text.push(byte as char);
                    self.skip();
                }
                _ if self.is_blankz_at(self.pos) => return Ok(false),
                // U+0080 to U+00BF or U+2000 to U+2FFF that is no line break.
                lead => {
                    let end = self.pos + super::chars::width(lead);
                    text.push_str(&self.text[self.pos..end]);
                    self.skip();
                }
            }
        }
    }

    fn escape(&mut self, start: Mark, text: &mut String) -> Result<(), Error> {
        let digits = match self.byte(1) {
            b'x' => 2,
            b'u' => 4,
            b'U' => 8,
            other => {
                let Some(plain) = escaped_character(other) else {
                    return Err(self.error(Some(start), "found unknown escape character"));
                };
                text.push(plain);
                self.skip_run(self.pos + 2);
                return Ok(());
            }
        };
        self.skip_run(self.pos + 2);
        let mut value: u64 = 0;
        for index in 0..digits {
            let Some(digit) = (self.byte(index) as char).to_digit(16) else {
                return Err(self.error(Some(start), "did not find expected hexdecimal number"));
            };
            value = (value << 4) | u64::from(digit);
        }
        let Some(character) = u32::try_from(value).ok().and_then(char::from_u32) else {
            return Err(self.error(Some(start), "found invalid Unicode character escape code"));
        };
        text.push(character);
        self.skip_run(self.pos + digits);
        Ok(())
    }
}

impl Fold {
    /// As [`Fold::write`], but a line break that was escaped leaves nothing.
    fn write_quoted(&mut self, text: &mut String) {
        if self.first.is_empty() {
            text.push_str(&self.rest);
            self.rest.clear();
        } else {
            self.write(text);
        }
    }
}

fn escaped_character(byte: u8) -> Option<char> {
    Some(match byte {
        b'0' => '\0',
        b'a' => '\x07',
        b'b' => '\x08',
        b't' | b'\t' => '\t',
        b'n' => '\n',
        b'v' => '\x0B',
        b'f' => '\x0C',
        b'r' => '\r',
        b'e' => '\x1B',
        b' ' => ' ',
        b'"' => '"',
        b'\'' => '\'',
        b'\\' => '\\',
        b'N' => '\u{85}',
        b'_' => '\u{A0}',
        b'L' => '\u{2028}',
        b'P' => '\u{2029}',
        _ => return None,
    })
}
