//! From text to tokens, by the rules (and the order of errors) of the scanner that both Go
//! libraries share. What differs between them: go-yaml v3 looks two tokens further ahead and
//! collects comments.

use super::chars::{self, BLANK, BREAK, CLASS, END, MAYBE_BREAK};
use super::comments::CommentQueue;
use super::input::Input;
use super::token::{Mark, Token, TokenKind};
use crate::error::Error;
use crate::node::Dialect;
use std::collections::VecDeque;

/// Go's own limit on nesting, of block collections and of flow collections.
const MAX_DEPTH: usize = 10_000;

/// How far a `:` may be from the beginning of its key.
const MAX_SIMPLE_KEY: usize = 1024;

/// A place where a key may have begun that shows itself only by the `:` after it.
#[derive(Clone, Copy, Debug, Default)]
struct SimpleKey {
    possible: bool,
    required: bool,
    token: usize,
    mark: Mark,
}

pub(crate) struct Scanner<'a> {
    pub(super) text: &'a str,
    pub(super) bytes: &'a [u8],
    at_end: Option<&'a Error>,
    pub(super) multibyte: bool,
    pub(super) dialect: Dialect,

    pub(super) pos: usize,
    pub(super) line: u32,
    /// Such that `pos - line_start` is the column in characters.
    pub(super) line_start: usize,
    /// Line breaks since the last character that was not blank.
    pub(super) newlines: u32,

    pub(super) queue: VecDeque<Token<'a>>,
    tokens_parsed: usize,
    token_available: bool,
    started: bool,

    pub(super) indent: i32,
    indents: Vec<i32>,
    pub(super) flow_level: usize,
    pub(super) simple_key_allowed: bool,
    simple_keys: Vec<SimpleKey>,
    /// Token number and level of the simple keys, by number.
    key_index: VecDeque<(usize, usize)>,

    pub(super) comments: CommentQueue,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(input: &'a Input<'_>, dialect: Dialect) -> Self {
        let text: &'a str = &input.text;
        Scanner {
            text,
            bytes: text.as_bytes(),
            at_end: input.at_end.as_ref(),
            multibyte: input.multibyte,
            dialect,
            pos: 0,
            line: 0,
            line_start: 0,
            newlines: 0,
            queue: VecDeque::with_capacity(16),
            tokens_parsed: 0,
            token_available: false,
            started: false,
            indent: -1,
            indents: Vec::with_capacity(16),
            flow_level: 0,
            simple_key_allowed: true,
            simple_keys: vec![SimpleKey::default()],
            key_index: VecDeque::new(),
            comments: CommentQueue::default(),
        }
    }

    // ----- places ---------------------------------------------------------------------------

    /// The byte that many bytes ahead; 0 past the end.
    #[inline(always)]
    pub(super) fn byte(&self, ahead: usize) -> u8 {
        self.byte_at(self.pos + ahead)
    }

    #[inline(always)]
    pub(super) fn byte_at(&self, index: usize) -> u8 {
        match self.bytes.get(index) {
            Some(&byte) => byte,
            None => 0,
        }
    }

    #[inline(always)]
    pub(super) fn column(&self) -> usize {
        self.pos - self.line_start
    }

    #[inline(always)]
    pub(super) fn mark(&self) -> Mark {
        Mark {
            index: self.pos as u32 + 1,
            line: self.line,
            column: self.column() as u32,
        }
    }

    pub(super) fn is_break_at(&self, index: usize) -> bool {
        let byte = self.byte_at(index);
        match CLASS[byte as usize] {
            BREAK => true,
            MAYBE_BREAK => {
                let next = self.byte_at(index + 1);
                byte == 0xC2 && next == 0x85
                    || byte == 0xE2
                        && next == 0x80
                        && matches!(self.byte_at(index + 2), 0xA8 | 0xA9)
            }
            _ => false,
        }
    }

    #[inline(always)]
    pub(super) fn is_blankz_at(&self, index: usize) -> bool {
        let class = CLASS[self.byte_at(index) as usize];
        class & (BLANK | BREAK | END) != 0 || class & MAYBE_BREAK != 0 && self.is_break_at(index)
    }

    pub(super) fn is_breakz_at(&self, index: usize) -> bool {
        self.byte_at(index) == 0 || self.is_break_at(index)
    }

    pub(super) fn is_blank_at(&self, index: usize) -> bool {
        matches!(self.byte_at(index), b' ' | b'\t')
    }

    /// Moves over one character that is not a line break.
    pub(super) fn skip(&mut self) {
        let byte = self.byte(0);
        if !matches!(byte, b' ' | b'\t') {
            self.newlines = 0;
        }
        let width = chars::width(byte).max(1);
        self.pos += width;
        self.line_start += width - 1;
    }

    /// Moves to an index on the same line, over at least one character that is not blank.
    #[inline(always)]
    pub(super) fn skip_run(&mut self, end: usize) {
        self.newlines = 0;
        if self.multibyte {
            self.line_start += chars::continuation_bytes(&self.bytes[self.pos..end]);
        }
        self.pos = end;
    }

    /// Moves over a line break and returns what it is in a scalar's text.
    #[inline(always)]
    pub(super) fn take_break(&mut self) -> &'static str {
        let (width, text) = match self.byte(0) {
            b'\n' => (1, "\n"),
            b'\r' if self.byte(1) == b'\n' => (2, "\n"),
            b'\r' => (1, "\n"),
            0xC2 => (2, "\n"),
            0xE2 if self.byte(2) == 0xA8 => (3, "\u{2028}"),
            0xE2 => (3, "\u{2029}"),
            _ => return "",
        };
        self.pos += width;
        self.line += 1;
        self.line_start = self.pos;
        self.newlines += 1;
        text
    }

    /// `---` or `...` with nothing behind it, at the current place.
    pub(super) fn at_document_indicator(&self) -> bool {
        let first = self.byte(0);
        (first == b'-' || first == b'.')
            && self.byte(1) == first
            && self.byte(2) == first
            && self.is_blankz_at(self.pos + 3)
    }

    // ----- errors ---------------------------------------------------------------------------

    /// An error at the current place.
    #[cold]
    pub(super) fn error(&self, context: Option<Mark>, problem: &'static str) -> Error {
        if let Some(error) = self.at_end
            && self.pos + 4 > self.bytes.len()
        {
            return error.clone();
        }
        syntax_error(self.dialect, true, context, problem, self.mark())
    }

    /// The error that waits at the end of the text, once the scanner has come there.
    #[inline(always)]
    pub(super) fn check_end(&self) -> Result<(), Error> {
        match self.at_end {
            Some(error) if self.pos >= self.bytes.len() => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// The same where Go looks four characters ahead.
    #[inline(always)]
    pub(super) fn check_ahead(&self) -> Result<(), Error> {
        match self.at_end {
            Some(error) if self.pos + 4 > self.bytes.len() => Err(error.clone()),
            _ => Ok(()),
        }
    }

    // ----- the queue ------------------------------------------------------------------------

    /// The kind and place of the next token.
    #[inline(always)]
    pub(crate) fn peek(&mut self) -> Result<&Token<'a>, Error> {
        if !self.token_available {
            self.fetch_more()?;
        }
        let token = &self.queue[0];
        if self.comments.waiting() {
            self.comments.unfold(token);
        }
        Ok(token)
    }

    /// Takes the token that [`Self::peek`] showed.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> Option<Token<'a>> {
        self.token_available = false;
        self.tokens_parsed += 1;
        self.queue.pop_front()
    }

    pub(crate) fn comments_mut(&mut self) -> &mut CommentQueue {
        &mut self.comments
    }

    fn fetch_more(&mut self) -> Result<(), Error> {
        let ahead = match self.dialect {
            Dialect::Sigs => 0,
            Dialect::Kyaml => 2,
        };
        loop {
            if self.queue.len() > ahead && !self.head_may_be_key()? {
                break;
            }
            self.fetch_next()?;
        }
        self.token_available = true;
        Ok(())
    }

    fn head_may_be_key(&mut self) -> Result<bool, Error> {
        while let Some(&(token, level)) = self.key_index.front() {
            if token > self.tokens_parsed {
                break;
            }
            if token == self.tokens_parsed {
                return match level < self.simple_keys.len() {
                    true => self.key_is_valid(level),
                    false => Ok(false),
                };
            }
            self.key_index.pop_front();
        }
        Ok(false)
    }

    fn key_is_valid(&mut self, level: usize) -> Result<bool, Error> {
        let key = self.simple_keys[level];
        if !key.possible {
            return Ok(false);
        }
        if key.mark.line < self.line || self.is_too_far(key.mark) {
            if key.required {
                return Err(self.error(Some(key.mark), "could not find expected ':'"));
            }
            self.simple_keys[level].possible = false;
            return Ok(false);
        }
        Ok(true)
    }

    fn is_too_far(&self, mark: Mark) -> bool {
        let start = mark.index as usize - 1;
        let bytes = self.pos.saturating_sub(start);
        bytes > MAX_SIMPLE_KEY
            && (!self.multibyte
                || bytes - chars::continuation_bytes(&self.bytes[start..self.pos]) > MAX_SIMPLE_KEY)
    }

    pub(super) fn save_simple_key(&mut self) -> Result<(), Error> {
        if !self.simple_key_allowed {
            return Ok(());
        }
        let required = self.flow_level == 0 && self.indent == self.column() as i32;
        self.remove_simple_key()?;
        let token = self.tokens_parsed + self.queue.len();
        let level = self.simple_keys.len() - 1;
        self.simple_keys[level] = SimpleKey {
            possible: true,
            required,
            token,
            mark: self.mark(),
        };
        self.key_index.push_back((token, level));
        Ok(())
    }

    #[inline(always)]
    fn remove_simple_key(&mut self) -> Result<(), Error> {
        let level = self.simple_keys.len() - 1;
        let key = self.simple_keys[level];
        if key.possible {
            if key.required {
                return Err(self.error(Some(key.mark), "could not find expected ':'"));
            }
            self.simple_keys[level].possible = false;
            self.forget_key(key.token);
        }
        Ok(())
    }

    /// Entries are in order of token number, so the wanted one is at or near the back.
    fn forget_key(&mut self, token: usize) {
        let found = self
            .key_index
            .iter()
            .rposition(|&(number, _)| number <= token);
        if let Some(index) = found
            && self.key_index[index].0 == token
        {
            self.key_index.remove(index);
        }
    }

    #[inline(always)]
    fn push(&mut self, kind: TokenKind, start: Mark) {
        self.queue.push_back(Token::new(kind, start));
    }

    /// Inserts before the token with that number; at the end if it is gone already.
    fn insert(&mut self, number: usize, token: Token<'a>) {
        match number.checked_sub(self.tokens_parsed) {
            Some(index) if index < self.queue.len() => self.queue.insert(index, token),
            _ => self.queue.push_back(token),
        }
    }

    // ----- indentation ----------------------------------------------------------------------

    #[inline(always)]
    fn roll_indent(
        &mut self,
        column: i32,
        before: Option<usize>,
        kind: TokenKind,
        mark: Mark,
    ) -> Result<(), Error> {
        if self.flow_level > 0 || self.indent >= column {
            return Ok(());
        }
        self.indents.push(self.indent);
        self.indent = column;
        if self.indents.len() > MAX_DEPTH {
            let context = self.simple_keys.last().map(|key| key.mark);
            return Err(self.error(context, "exceeded max depth of 10000"));
        }
        let token = Token::new(kind, mark);
        match before {
            Some(number) => self.insert(number, token),
            None => self.queue.push_back(token),
        }
        Ok(())
    }

    #[inline(always)]
    fn unroll_indent(&mut self, column: i32, scan_mark: Mark) {
        if self.flow_level > 0 || self.indent <= column {
            return;
        }
        self.unroll_blocks(column, scan_mark);
    }

    fn unroll_blocks(&mut self, column: i32, scan_mark: Mark) {
        // go-yaml v2 marks the end where the scanner stands, v3 where it began to look.
        let mut mark = match self.dialect {
            Dialect::Sigs => self.mark(),
            Dialect::Kyaml => Mark {
                index: scan_mark.index - 1,
                ..scan_mark
            },
        };
        while self.indent > column {
            if self.comments.waiting() {
                mark = self.comments.block_end(mark, self.indent);
            }
            self.push(TokenKind::BlockEnd, mark);
            self.indent = self.indents.pop().unwrap_or(-1);
        }
    }

    // ----- the dispatcher -------------------------------------------------------------------

    fn fetch_next(&mut self) -> Result<(), Error> {
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
            let level = self.simple_keys.len() - 1;
            self.simple_keys[level] = SimpleKey {
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
        self.simple_keys.push(SimpleKey {
            token: self.tokens_parsed + self.queue.len(),
            mark: self.mark(),
            ..SimpleKey::default()
        });
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
            && let Some(key) = self.simple_keys.pop()
        {
            self.flow_level -= 1;
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
        let level = self.simple_keys.len() - 1;
        if self.key_is_valid(level)? {
            let key = self.simple_keys[level];
            self.insert(key.token, Token::new(TokenKind::Key, key.mark));
            let kind = TokenKind::BlockMappingStart;
            self.roll_indent(key.mark.column as i32, Some(key.token), kind, key.mark)?;
            self.simple_keys[level].possible = false;
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

/// A grammar error in the terms of both libraries, which choose the line to print differently.
#[cold]
pub(super) fn syntax_error(
    dialect: Dialect,
    in_scanner: bool,
    context: Option<Mark>,
    problem: &'static str,
    mark: Mark,
) -> Error {
    let context_line = context.map_or(0, |context| context.line);
    let scanner_line = u32::from(in_scanner);
    let go_line = match dialect {
        Dialect::Sigs if mark.line != 0 => mark.line + scanner_line,
        Dialect::Sigs => context_line,
        Dialect::Kyaml if context_line != 0 => context_line + scanner_line,
        Dialect::Kyaml if mark.line != 0 => mark.line + scanner_line,
        Dialect::Kyaml => 0,
    };
    Error::Syntax {
        problem,
        go_line,
        position: mark.position(),
    }
}
