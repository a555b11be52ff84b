//! Which token comes next, and what it means for the ones before it.

use super::chars::{BREAK, CLASS, MAYBE_BREAK};
use super::scanner::{MAX_DEPTH, Scanner, SimpleKey};
use super::token::{Token, TokenKind};
use crate::error::Error;
use crate::node::Dialect;

impl<'a> Scanner<'a> {
    pub(super) fn fetch_next(&mut self) -> Result<(), Error> {
        if !self.started {
            self.started = true;
            self.check_end()?;
            self.push(TokenKind::StreamStart, self.mark());
            return Ok(());
        }
        let scan_mark = self.mark();
        self.skip_to_next_token()?;
        self.unroll_indent(self.column() as i32, scan_mark);
        self.check_ahead()?;
        let byte = self.byte(0);
        if byte == 0 {
            return self.fetch_stream_end();
        }
        if self.column() == 0 {
            if byte == b'%' {
                return self.fetch_directive();
            }
            if (byte == b'-' || byte == b'.') && self.at_document_indicator() {
                return self.fetch_document_indicator(byte);
            }
        }
        if self.dialect == Dialect::Sigs {
            return self.fetch_content(byte);
        }
        let mut comment_mark = self.mark();
        if let Some(last) = self.queue.back()
            && (byte == b':' && self.flow_level == 0 || byte == b',' && self.flow_level > 0)
        {
            comment_mark = last.start;
        }
        self.fetch_content(byte)?;
        match self.queue.back() {
            // What follows a `-` on its line is the head of what comes next.
            Some(last) if last.kind == TokenKind::BlockEntry => Ok(()),
            _ => self.scan_line_comment(comment_mark),
        }
    }

    fn fetch_content(&mut self, byte: u8) -> Result<(), Error> {
        let in_flow = self.flow_level > 0;
        match byte {
            b'[' => self.fetch_flow_start(TokenKind::FlowSequenceStart),
            b'{' => self.fetch_flow_start(TokenKind::FlowMappingStart),
            b']' => self.fetch_flow_end(TokenKind::FlowSequenceEnd),
            b'}' => self.fetch_flow_end(TokenKind::FlowMappingEnd),
            b',' => self.fetch_flow_entry(),
            b'-' if self.is_blankz_at(self.pos + 1) => self.fetch_block_entry(),
            b'?' if in_flow || self.is_blankz_at(self.pos + 1) => self.fetch_key(),
            b':' if in_flow || self.is_blankz_at(self.pos + 1) => self.fetch_value(),
            b'*' | b'&' | b'!' => self.fetch_property(byte),
            b'|' if !in_flow => self.fetch_block_scalar(true),
            b'>' if !in_flow => self.fetch_block_scalar(false),
            b'\'' | b'"' => self.fetch_scalar(|scanner| scanner.scan_quoted(byte == b'\'')),
            b'|' | b'>' | b' ' | b'\t' | b'#' | b'%' | b'@' | b'`' => Err(self.no_token()),
            _ => self.fetch_scalar(Self::scan_plain),
        }
    }

    /// A plain or quoted scalar. Most are keys with the `:` right behind them; those need not wait
    /// in line as keys that are merely possible.
    #[inline(always)]
    fn fetch_scalar(
        &mut self,
        scan: impl FnOnce(&mut Self) -> Result<Token<'a>, Error>,
    ) -> Result<(), Error> {
        let start = self.mark();
        let may_be_key = self.simple_key_allowed;
        if may_be_key {
            self.remove_simple_key()?;
        }
        let required = self.flow_level == 0 && self.indent == start.column as i32;
        self.simple_key_allowed = false;
        let number = self.tokens_parsed + self.queue.len();
        let scanned = scan(self);
        if may_be_key
            && scanned.is_ok()
            && self.flow_level == 0
            && self.byte(0) == b':'
            && self.is_blankz_at(self.pos + 1)
            && self.line == start.line
            && !self.is_too_far(start)
        {
            let column = start.column as i32;
            self.roll_indent(column, None, TokenKind::BlockMappingStart, start)?;
            self.push(TokenKind::Key, start);
            self.queue.push_back(scanned?);
            self.take_indicator(TokenKind::Value);
            return Ok(());
        }
        if may_be_key {
            let level = self.outer_keys.len();
            self.simple_key = SimpleKey {
                possible: true,
                required,
                token: number,
                mark: start,
            };
            self.key_index.push_back((number, level));
        }
        self.queue.push_back(scanned?);
        Ok(())
    }

    fn no_token(&self) -> Error {
        self.error(
            Some(self.mark()),
            "found character that cannot start any token",
        )
    }

    fn fetch_stream_end(&mut self) -> Result<(), Error> {
        if self.column() != 0 {
            self.line_start = self.pos;
            self.line += 1;
        }
        self.unroll_indent(-1, self.mark());
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        self.push(TokenKind::StreamEnd, self.mark());
        Ok(())
    }

    fn fetch_directive(&mut self) -> Result<(), Error> {
        self.unroll_indent(-1, self.mark());
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        let token = self.scan_directive()?;
        self.queue.push_back(token);
        Ok(())
    }

    fn fetch_document_indicator(&mut self, byte: u8) -> Result<(), Error> {
        self.unroll_indent(-1, self.mark());
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        let start = self.mark();
        self.newlines = 0;
        self.pos += 3;
        let kind = match byte {
            b'-' => TokenKind::DocumentStart,
            _ => TokenKind::DocumentEnd,
        };
        self.push(kind, start);
        Ok(())
    }

    /// Pushes the token of the one character that stands here.
    #[inline(always)]
    fn take_indicator(&mut self, kind: TokenKind) {
        self.push(kind, self.mark());
        self.newlines = 0;
        self.pos += 1;
    }

    fn fetch_flow_start(&mut self, kind: TokenKind) -> Result<(), Error> {
        self.save_simple_key()?;
        self.outer_keys.push(self.simple_key);
        self.simple_key = SimpleKey {
            token: self.tokens_parsed + self.queue.len(),
            mark: self.mark(),
            ..SimpleKey::default()
        };
        self.flow_level += 1;
        if self.flow_level > MAX_DEPTH {
            return Err(self.error(Some(self.mark()), "exceeded max depth of 10000"));
        }
        self.simple_key_allowed = true;
        self.take_indicator(kind);
        Ok(())
    }

    fn fetch_flow_end(&mut self, kind: TokenKind) -> Result<(), Error> {
        self.remove_simple_key()?;
        if self.flow_level > 0
            && let Some(outer) = self.outer_keys.pop()
        {
            self.flow_level -= 1;
            let key = std::mem::replace(&mut self.simple_key, outer);
            self.forget_key(key.token);
        }
        self.simple_key_allowed = false;
        self.take_indicator(kind);
        Ok(())
    }

    fn fetch_flow_entry(&mut self) -> Result<(), Error> {
        self.remove_simple_key()?;
        self.simple_key_allowed = true;
        self.take_indicator(TokenKind::FlowEntry);
        Ok(())
    }

    fn fetch_block_entry(&mut self) -> Result<(), Error> {
        if self.flow_level == 0 {
            if !self.simple_key_allowed {
                return Err(self.error(
                    Some(self.mark()),
                    "block sequence entries are not allowed in this context",
                ));
            }
            let kind = TokenKind::BlockSequenceStart;
            self.roll_indent(self.column() as i32, None, kind, self.mark())?;
        }
        self.remove_simple_key()?;
        self.simple_key_allowed = true;
        self.take_indicator(TokenKind::BlockEntry);
        Ok(())
    }

    fn fetch_key(&mut self) -> Result<(), Error> {
        if self.flow_level == 0 {
            if !self.simple_key_allowed {
                return Err(self.error(
                    Some(self.mark()),
                    "mapping keys are not allowed in this context",
                ));
            }
            let kind = TokenKind::BlockMappingStart;
            self.roll_indent(self.column() as i32, None, kind, self.mark())?;
        }
        self.remove_simple_key()?;
        self.simple_key_allowed = self.flow_level == 0;
        self.take_indicator(TokenKind::Key);
        Ok(())
    }

    fn fetch_value(&mut self) -> Result<(), Error> {
        if self.key_is_valid(self.outer_keys.len())? {
            let key = self.simple_key;
            self.insert(key.token, Token::new(TokenKind::Key, key.mark));
            let kind = TokenKind::BlockMappingStart;
            self.roll_indent(key.mark.column as i32, Some(key.token), kind, key.mark)?;
            self.simple_key.possible = false;
            self.forget_key(key.token);
            self.simple_key_allowed = false;
        } else {
            if self.flow_level == 0 {
                if !self.simple_key_allowed {
                    return Err(self.error(
                        Some(self.mark()),
                        "mapping values are not allowed in this context",
                    ));
                }
                let kind = TokenKind::BlockMappingStart;
                self.roll_indent(self.column() as i32, None, kind, self.mark())?;
            }
            self.simple_key_allowed = self.flow_level == 0;
        }
        self.take_indicator(TokenKind::Value);
        Ok(())
    }

    /// An alias, an anchor or a tag.
    fn fetch_property(&mut self, byte: u8) -> Result<(), Error> {
        self.save_simple_key()?;
        self.simple_key_allowed = false;
        let token = match byte {
            b'!' => self.scan_tag()?,
            b'*' => self.scan_anchor(TokenKind::Alias)?,
            _ => self.scan_anchor(TokenKind::Anchor)?,
        };
        self.queue.push_back(token);
        Ok(())
    }

    fn fetch_block_scalar(&mut self, literal: bool) -> Result<(), Error> {
        self.remove_simple_key()?;
        self.simple_key_allowed = true;
        let token = self.scan_block_scalar(literal)?;
        self.queue.push_back(token);
        Ok(())
    }

    /// Moves over blanks, comments and line breaks.
    fn skip_to_next_token(&mut self) -> Result<(), Error> {
        let scan_mark = self.mark();
        loop {
            if self.column() == 0 && self.at_byte_order_mark() {
                self.skip();
            }
            let tabs = self.flow_level > 0 || !self.simple_key_allowed;
            let mut pos = self.pos;
            while self.byte_at(pos) == b' ' || tabs && self.byte_at(pos) == b'\t' {
                pos += 1;
            }
            self.pos = pos;
            if self.comments.waiting() {
                self.reconsider_line_comment();
            }
            if self.byte(0) == b'#' {
                match self.dialect {
                    Dialect::Sigs => self.skip_comment(),
                    Dialect::Kyaml => self.scan_comments(scan_mark)?,
                }
            }
            if !self.is_break_at(self.pos) {
                return Ok(());
            }
            self.take_break();
            if self.flow_level == 0 {
                self.simple_key_allowed = true;
            }
        }
    }

    /// Go looks for the mark at the beginning of its buffer, not where the scanner stands: while a
    /// second mark is there, every line loses its first character.
    fn at_byte_order_mark(&self) -> bool {
        self.byte_at(0) == 0xEF
            && self.text.starts_with('\u{FEFF}')
            && (self.pos == 0 || self.pos + 4 <= self.bytes.len().min(512))
    }

    pub(super) fn skip_comment(&mut self) {
        self.skip_run(self.line_end(self.pos));
    }

    /// Where the line ends on which an index is.
    pub(super) fn line_end(&self, mut at: usize) -> usize {
        loop {
            let run = self.bytes[at..]
                .iter()
                .position(|&byte| CLASS[byte as usize] & (BREAK | MAYBE_BREAK) != 0);
            let Some(run) = run else {
                return self.bytes.len();
            };
            at += run;
            if self.is_break_at(at) {
                return at;
            }
            at += 1;
        }
    }
}
