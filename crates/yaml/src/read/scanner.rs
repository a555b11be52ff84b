//! From text to tokens, by the rules (and the order of errors) of the scanner that both Go
//! libraries share. What differs between them: go-yaml v3 looks two tokens further ahead and
//! collects comments.

use super::chars::{self, BLANK, BREAK, CLASS, END, MAYBE_BREAK};
use super::comments::CommentQueue;
use super::input::Input;
use super::stack::Stack;
use super::token::{Mark, Token, TokenKind};
use crate::error::Error;
use crate::node::Dialect;
use std::collections::VecDeque;

/// Go's own limit on nesting, of block collections and of flow collections.
pub(super) const MAX_DEPTH: usize = 10_000;

/// How far a `:` may be from the beginning of its key.
const MAX_SIMPLE_KEY: usize = 1024;

/// A place where a key may have begun that shows itself only by the `:` after it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SimpleKey {
    pub(super) possible: bool,
    pub(super) required: bool,
    pub(super) token: usize,
    pub(super) mark: Mark,
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
    pub(super) tokens_parsed: usize,
    token_available: bool,
    pub(super) started: bool,

    pub(super) indent: i32,
    indents: Stack<i32, 16>,
    pub(super) flow_level: usize,
    pub(super) simple_key_allowed: bool,
    /// Of the innermost flow collection, or of the blocks around all.
    pub(super) simple_key: SimpleKey,
    /// Of the levels further out.
    pub(super) outer_keys: Vec<SimpleKey>,
    /// Token number and level of the simple keys, by number.
    pub(super) key_index: VecDeque<(usize, usize)>,

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
            indents: Stack::new(),
            flow_level: 0,
            simple_key_allowed: true,
            simple_key: SimpleKey::default(),
            outer_keys: Vec::new(),
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

    /// Whether the token behind the next one is a scalar, and surely not a key to be.
    #[inline(always)]
    pub(super) fn second_is_scalar(&self) -> bool {
        matches!(self.queue.get(1), Some(token) if token.kind == TokenKind::Scalar)
            && self.key_index.is_empty()
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
                return self.key_is_valid(level);
            }
            self.key_index.pop_front();
        }
        Ok(false)
    }

    pub(super) fn key_is_valid(&mut self, level: usize) -> Result<bool, Error> {
        let key = match level == self.outer_keys.len() {
            true => self.simple_key,
            // A level that is closed has no key any more.
            false => self.outer_keys.get(level).copied().unwrap_or_default(),
        };
        if !key.possible {
            return Ok(false);
        }
        if key.mark.line < self.line || self.is_too_far(key.mark) {
            if key.required {
                return Err(self.error(Some(key.mark), "could not find expected ':'"));
            }
            match level == self.outer_keys.len() {
                true => self.simple_key.possible = false,
                false => self.outer_keys[level].possible = false,
            }
            return Ok(false);
        }
        Ok(true)
    }

    pub(super) fn is_too_far(&self, mark: Mark) -> bool {
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
        let level = self.outer_keys.len();
        self.simple_key = SimpleKey {
            possible: true,
            required,
            token,
            mark: self.mark(),
        };
        self.key_index.push_back((token, level));
        Ok(())
    }

    #[inline(always)]
    pub(super) fn remove_simple_key(&mut self) -> Result<(), Error> {
        let key = self.simple_key;
        if key.possible {
            if key.required {
                return Err(self.error(Some(key.mark), "could not find expected ':'"));
            }
            self.simple_key.possible = false;
            self.forget_key(key.token);
        }
        Ok(())
    }

    /// Entries are in order of token number, so the wanted one is at or near the back.
    pub(super) fn forget_key(&mut self, token: usize) {
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
    pub(super) fn push(&mut self, kind: TokenKind, start: Mark) {
        self.queue.push_back(Token::new(kind, start));
    }

    /// Inserts before the token with that number; at the end if it is gone already.
    pub(super) fn insert(&mut self, number: usize, token: Token<'a>) {
        match number.checked_sub(self.tokens_parsed) {
            Some(index) if index < self.queue.len() => self.queue.insert(index, token),
            _ => self.queue.push_back(token),
        }
    }

    // ----- indentation ----------------------------------------------------------------------

    #[inline(always)]
    pub(super) fn roll_indent(
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
            let context = Some(self.simple_key.mark);
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
    pub(super) fn unroll_indent(&mut self, column: i32, scan_mark: Mark) {
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
