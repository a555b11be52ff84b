//! Cuts template text into tokens.

use crate::gofmt::{decode_rune, is_digit, is_letter, is_print};

/// The sorts of tokens. Keywords stand behind [`Kind::Dot`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Error,
    Bool,
    /// A printable ASCII character without a meaning of its own, such as a comma.
    Char,
    CharConstant,
    Complex,
    Assign,
    Declare,
    Eof,
    Field,
    Identifier,
    LeftDelim,
    LeftParen,
    Number,
    Pipe,
    RawString,
    RightDelim,
    RightParen,
    Space,
    String,
    Text,
    Variable,
    // Keywords from here on.
    Block,
    Break,
    Continue,
    Dot,
    Define,
    Else,
    End,
    If,
    Nil,
    Range,
    Template,
    With,
}

impl Kind {
    pub fn is_keyword(self) -> bool {
        self >= Kind::Block
    }
}

/// A token: where it starts and ends in the text, and the line it starts on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub kind: Kind,
    pub start: usize,
    pub end: usize,
    pub line: usize,
}

impl Token {
    /// What the parser holds before it has read anything.
    pub const NONE: Token = Token {
        kind: Kind::Error,
        start: 0,
        end: 0,
        line: 0,
    };
}

/// The marks around actions.
#[derive(Clone, Debug)]
pub(crate) struct Delimiters {
    pub left: String,
    pub right: String,
}

impl Default for Delimiters {
    fn default() -> Self {
        Delimiters {
            left: "{{".to_owned(),
            right: "}}".to_owned(),
        }
    }
}

/// The scanner.
pub(super) struct Lexer<'s> {
    input: &'s [u8],
    left: &'s [u8],
    right: &'s [u8],
    position: usize,
    start: usize,
    line: usize,
    start_line: usize,
    paren_depth: i32,
    inside_action: bool,
    break_is_keyword: bool,
    continue_is_keyword: bool,
    /// The text of the last [`Kind::Error`] token.
    pub message: String,
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn is_alphanumeric(rune: u32) -> bool {
    rune == u32::from(b'_') || is_letter(rune) || is_digit(rune)
}

fn has_left_trim(text: &[u8]) -> bool {
    text.len() >= 2 && text[0] == b'-' && is_space(text[1])
}

fn has_right_trim(text: &[u8]) -> bool {
    text.len() >= 2 && is_space(text[0]) && text[1] == b'-'
}

fn newlines(text: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', text).count()
}

/// Where `needle` starts.
fn find(text: &[u8], needle: &[u8]) -> Option<usize> {
    let (&first, rest) = needle.split_first()?;
    memchr::memchr_iter(first, text).find(|at| text[at + 1..].starts_with(rest))
}

/// `%#U`.
fn describe(rune: u32) -> String {
    match char::from_u32(rune) {
        Some(c) if is_print(rune) => format!("U+{rune:04X} '{c}'"),
        _ => format!("U+{rune:04X}"),
    }
}

fn keyword(word: &[u8]) -> Option<Kind> {
    Some(match word {
        b"block" => Kind::Block,
        b"break" => Kind::Break,
        b"continue" => Kind::Continue,
        b"define" => Kind::Define,
        b"else" => Kind::Else,
        b"end" => Kind::End,
        b"if" => Kind::If,
        b"range" => Kind::Range,
        b"nil" => Kind::Nil,
        b"template" => Kind::Template,
        b"with" => Kind::With,
        _ => return None,
    })
}

impl<'s> Lexer<'s> {
    pub fn new(input: &'s [u8], delimiters: &'s Delimiters, loop_keywords: (bool, bool)) -> Self {
        Lexer {
            input,
            left: delimiters.left.as_bytes(),
            right: delimiters.right.as_bytes(),
            position: 0,
            start: 0,
            line: 1,
            start_line: 1,
            paren_depth: 0,
            inside_action: false,
            break_is_keyword: loop_keywords.0,
            continue_is_keyword: loop_keywords.1,
            message: String::new(),
        }
    }

    /// The next token. After an error there are only errors.
    pub fn next_token(&mut self) -> Token {
        if self.inside_action {
            self.inside_action()
        } else {
            self.text()
        }
    }

    fn rest(&self) -> &'s [u8] {
        &self.input[self.position..]
    }

    fn emit(&mut self, kind: Kind) -> Token {
        let token = Token {
            kind,
            start: self.start,
            end: self.position,
            line: self.start_line,
        };
        self.start = self.position;
        self.start_line = self.line;
        token
    }

    fn error(&mut self, message: impl Into<String>) -> Token {
        self.message = message.into();
        let token = Token {
            kind: Kind::Error,
            start: self.start,
            end: self.start,
            line: self.start_line,
        };
        self.start = 0;
        self.position = 0;
        self.input = &[];
        token
    }

    /// Drops the text up to the position.
    fn ignore(&mut self) {
        self.line += newlines(&self.input[self.start..self.position]);
        self.start = self.position;
        self.start_line = self.line;
    }

    /// The next character without taking it; `None` at the end.
    fn peek(&self) -> Option<u32> {
        match self.input.get(self.position) {
            None => None,
            Some(&byte) if byte < 0x80 => Some(u32::from(byte)),
            Some(_) => Some(decode_rune(self.rest()).0),
        }
    }

    fn advance(&mut self) {
        if let Some(&byte) = self.input.get(self.position) {
            self.position += match byte < 0x80 {
                true => 1,
                false => decode_rune(self.rest()).1,
            };
            if byte == b'\n' {
                self.line += 1;
            }
        }
    }

    fn next(&mut self) -> Option<u32> {
        let rune = self.peek();
        self.advance();
        rune
    }

    fn accept(&mut self, valid: &[u8]) -> bool {
        match self.input.get(self.position) {
            Some(byte) if valid.contains(byte) => {
                self.advance();
                true
            }
            _ => false,
        }
    }

    fn accept_run(&mut self, valid: &[u8]) {
        while self.accept(valid) {}
    }

    /// Text up to the next action.
    fn text(&mut self) -> Token {
        loop {
            let Some(offset) = find(self.rest(), self.left) else {
                self.position = self.input.len();
                if self.position > self.start {
                    self.line += newlines(&self.input[self.start..]);
                    return self.emit(Kind::Text);
                }
                return self.emit(Kind::Eof);
            };
            if offset > 0 {
                let delimiter = self.position + offset;
                let mut end = delimiter;
                if has_left_trim(&self.input[delimiter + self.left.len()..]) {
                    let text = &self.input[self.start..delimiter];
                    end -= text.iter().rev().take_while(|b| is_space(**b)).count();
                }
                self.position = end;
                self.line += newlines(&self.input[self.start..end]);
                let token = self.emit(Kind::Text);
                self.position = delimiter;
                self.ignore();
                if token.end > token.start {
                    return token;
                }
            }
            if let Some(token) = self.left_delimiter() {
                return token;
            }
        }
    }

    /// The left delimiter, known to be there. `None` after a comment.
    fn left_delimiter(&mut self) -> Option<Token> {
        self.position += self.left.len();
        let after_marker = if has_left_trim(self.rest()) { 2 } else { 0 };
        if self.input[self.position + after_marker..].starts_with(b"/*") {
            self.position += after_marker;
            self.ignore();
            return self.comment();
        }
        let token = self.emit(Kind::LeftDelim);
        self.inside_action = true;
        self.position += after_marker;
        self.ignore();
        self.paren_depth = 0;
        Some(token)
    }

    /// Whether a right delimiter is here, and whether it trims.
    fn at_right_delimiter(&self) -> Option<bool> {
        let rest = self.rest();
        if has_right_trim(rest) && rest[2..].starts_with(self.right) {
            return Some(true);
        }
        rest.starts_with(self.right).then_some(false)
    }

    fn skip_spaces(&mut self) {
        let count = self.rest().iter().take_while(|b| is_space(**b)).count();
        self.position += count;
    }

    fn comment(&mut self) -> Option<Token> {
        self.position += 2;
        let Some(offset) = find(self.rest(), b"*/") else {
            return Some(self.error("unclosed comment"));
        };
        self.position += offset + 2;
        let Some(trim) = self.at_right_delimiter() else {
            return Some(self.error("comment ends before closing delimiter"));
        };
        if trim {
            self.position += 2;
        }
        self.position += self.right.len();
        if trim {
            self.skip_spaces();
        }
        self.ignore();
        None
    }

    fn right_delimiter(&mut self, trim: bool) -> Token {
        if trim {
            self.position += 2;
            self.ignore();
        }
        self.position += self.right.len();
        let token = self.emit(Kind::RightDelim);
        if trim {
            self.skip_spaces();
            self.ignore();
        }
        self.inside_action = false;
        token
    }

    fn inside_action(&mut self) -> Token {
        if let Some(trim) = self.at_right_delimiter() {
            return match self.paren_depth {
                0 => self.right_delimiter(trim),
                _ => self.error("unclosed left paren"),
            };
        }
        let Some(rune) = self.peek() else {
            return self.error("unclosed action");
        };
        let byte = u8::try_from(rune).unwrap_or(0x80);
        if is_space(byte) {
            return self.space();
        }
        match byte {
            b'+' | b'-' | b'0'..=b'9' => return self.number(),
            b'.' => return self.dot(),
            _ if is_alphanumeric(rune) => return self.identifier(),
            _ => self.advance(),
        }
        match byte {
            b'=' => self.emit(Kind::Assign),
            b':' => match self.next() {
                Some(0x3d) => self.emit(Kind::Declare),
                _ => self.error("expected :="),
            },
            b'|' => self.emit(Kind::Pipe),
            b'"' => self.quoted(b'"'),
            b'\'' => self.quoted(b'\''),
            b'`' => self.raw_string(),
            b'$' => self.field_or_variable(Kind::Variable),
            b'(' => {
                self.paren_depth += 1;
                self.emit(Kind::LeftParen)
            }
            b')' => {
                self.paren_depth -= 1;
                match self.paren_depth {
                    0.. => self.emit(Kind::RightParen),
                    _ => self.error("unexpected right paren"),
                }
            }
            0x20..=0x7e => self.emit(Kind::Char),
            _ => self.error(format!(
                "unrecognized character in action: {}",
                describe(rune)
            )),
        }
    }

    /// A dot starts a field or a number.
    fn dot(&mut self) -> Token {
        match self.input.get(self.position + 1) {
            None | Some(b'0'..=b'9') => self.number(),
            Some(_) => {
                self.advance();
                self.field_or_variable(Kind::Field)
            }
        }
    }

    fn space(&mut self) -> Token {
        let mut count = 0;
        while self.input.get(self.position).is_some_and(|b| is_space(*b)) {
            self.advance();
            count += 1;
        }
        // The last space may belong to a trimming right delimiter.
        let last = &self.input[self.position - 1..];
        if has_right_trim(last) && last[2..].starts_with(self.right) {
            self.position -= 1;
            if self.input[self.position] == b'\n' {
                self.line -= 1;
            }
            if count == 1 {
                return self.right_delimiter(true);
            }
        }
        self.emit(Kind::Space)
    }

    fn skip_alphanumeric(&mut self) {
        while self.peek().is_some_and(is_alphanumeric) {
            self.advance();
        }
    }

    fn bad_character(&mut self) -> Token {
        let rune = self.peek().unwrap_or(0);
        self.error(format!("bad character {}", describe(rune)))
    }

    fn identifier(&mut self) -> Token {
        self.skip_alphanumeric();
        if !self.at_terminator() {
            return self.bad_character();
        }
        let word = &self.input[self.start..self.position];
        let kind = match keyword(word) {
            Some(Kind::Break) if !self.break_is_keyword => Kind::Identifier,
            Some(Kind::Continue) if !self.continue_is_keyword => Kind::Identifier,
            Some(kind) => kind,
            None if word == b"true" || word == b"false" => Kind::Bool,
            None => Kind::Identifier,
        };
        self.emit(kind)
    }

    fn field_or_variable(&mut self, kind: Kind) -> Token {
        if self.at_terminator() {
            return self.emit(match kind {
                Kind::Variable => Kind::Variable,
                _ => Kind::Dot,
            });
        }
        self.skip_alphanumeric();
        match self.at_terminator() {
            true => self.emit(kind),
            false => self.bad_character(),
        }
    }

    /// Whether an identifier may end here.
    fn at_terminator(&self) -> bool {
        match self.input.get(self.position) {
            None => true,
            Some(b' ' | b'\t' | b'\r' | b'\n' | b'.' | b',' | b'|' | b':' | b')' | b'(') => true,
            Some(_) => self.rest().starts_with(self.right),
        }
    }

    /// A string or character constant; the opening mark is taken.
    fn quoted(&mut self, mark: u8) -> Token {
        let (kind, complaint) = match mark {
            b'"' => (Kind::String, "unterminated quoted string"),
            _ => (Kind::CharConstant, "unterminated character constant"),
        };
        loop {
            match self.next() {
                Some(0x5c) if !matches!(self.next(), None | Some(0x0a)) => {}
                Some(0x5c) | None | Some(0x0a) => return self.error(complaint),
                Some(rune) if rune == u32::from(mark) => return self.emit(kind),
                Some(_) => {}
            }
        }
    }

    fn raw_string(&mut self) -> Token {
        loop {
            match self.next() {
                None => return self.error("unterminated raw quoted string"),
                Some(0x60) => return self.emit(Kind::RawString),
                Some(_) => {}
            }
        }
    }

    fn number(&mut self) -> Token {
        if !self.scan_number() {
            return self.bad_number();
        }
        if !matches!(self.peek(), Some(0x2b | 0x2d)) {
            return self.emit(Kind::Number);
        }
        match self.scan_number() && self.input[self.position - 1] == b'i' {
            true => self.emit(Kind::Complex),
            false => self.bad_number(),
        }
    }

    fn bad_number(&mut self) -> Token {
        let text = crate::gofmt::quote(&self.input[self.start..self.position]);
        self.error(format!("bad number syntax: {text}"))
    }

    fn scan_number(&mut self) -> bool {
        let mut digits: &[u8] = b"0123456789_";
        let mut exponent: &[u8] = b"eE";
        self.accept(b"+-");
        if self.accept(b"0") {
            if self.accept(b"xX") {
                (digits, exponent) = (b"0123456789abcdefABCDEF_", b"pP");
            } else if self.accept(b"oO") {
                (digits, exponent) = (b"01234567_", b"");
            } else if self.accept(b"bB") {
                (digits, exponent) = (b"01_", b"");
            }
        }
        self.accept_run(digits);
        if self.accept(b".") {
            self.accept_run(digits);
        }
        if self.accept(exponent) {
            self.accept(b"+-");
            self.accept_run(b"0123456789_");
        }
        self.accept(b"i");
        if self.peek().is_some_and(is_alphanumeric) {
            self.advance();
            return false;
        }
        true
    }
}
