//! A scanner that finds the same errors at the same bytes as Go's.

use super::error::JsonError;

/// Go's limit for arrays and objects inside each other.
const MAX_DEPTH: usize = 10_000;

/// A piece of JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    ArrayStart,
    ArrayEnd,
    ObjectStart,
    ObjectEnd,
    /// Between a key and its value.
    Colon,
    Comma,
    /// A string with its quotes.
    String(&'a [u8]),
    Number(&'a [u8]),
    True,
    False,
    Null,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expect {
    Value,
    FirstItem,
    FirstKey,
    Key,
    Colon,
    AfterItem,
    AfterField,
    End,
}

/// Reads one value token by token; white space is skipped.
pub(super) struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    expect: Expect,
    /// Open collections, true for objects.
    open: Vec<bool>,
}

impl<'a> Scanner<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Scanner {
            bytes,
            at: 0,
            expect: Expect::Value,
            open: Vec::new(),
        }
    }

    /// How many bytes were read.
    pub fn offset(&self) -> usize {
        self.at
    }

    /// The next token, or `None` after the value is complete.
    pub fn next(&mut self) -> Result<Option<Token<'a>>, JsonError> {
        if self.expect == Expect::End {
            return Ok(None);
        }
        self.skip_space();
        let byte = self.peek().ok_or(JsonError::UnexpectedEnd)?;
        match self.expect {
            Expect::FirstItem if byte == b']' => Ok(Some(self.close(Token::ArrayEnd))),
            Expect::Value | Expect::FirstItem => self.value(byte).map(Some),
            Expect::FirstKey if byte == b'}' => Ok(Some(self.close(Token::ObjectEnd))),
            Expect::FirstKey | Expect::Key if byte == b'"' => {
                let text = self.string()?;
                self.expect = Expect::Colon;
                Ok(Some(Token::String(text)))
            }
            Expect::FirstKey | Expect::Key => {
                Err(self.invalid(byte, "looking for beginning of object key string"))
            }
            Expect::Colon if byte == b':' => Ok(Some(self.mark(Token::Colon, Expect::Value))),
            Expect::Colon => Err(self.invalid(byte, "after object key")),
            Expect::AfterItem => match byte {
                b',' => Ok(Some(self.mark(Token::Comma, Expect::Value))),
                b']' => Ok(Some(self.close(Token::ArrayEnd))),
                _ => Err(self.invalid(byte, "after array element")),
            },
            Expect::AfterField => match byte {
                b',' => Ok(Some(self.mark(Token::Comma, Expect::Key))),
                b'}' => Ok(Some(self.close(Token::ObjectEnd))),
                _ => Err(self.invalid(byte, "after object key:value pair")),
            },
            Expect::End => Ok(None),
        }
    }

    /// Fails if anything but white space follows the value.
    pub fn expect_nothing_more(&mut self) -> Result<(), JsonError> {
        self.skip_space();
        match self.peek() {
            Some(byte) => Err(self.invalid(byte, "after top-level value")),
            None => Ok(()),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.peek() {
            self.at += 1;
        }
    }

    fn invalid(&self, byte: u8, context: &'static str) -> JsonError {
        JsonError::invalid(byte, context, self.at + 1)
    }

    fn mark(&mut self, token: Token<'a>, next: Expect) -> Token<'a> {
        self.at += 1;
        self.expect = next;
        token
    }

    fn close(&mut self, token: Token<'a>) -> Token<'a> {
        self.at += 1;
        self.open.pop();
        self.after_value();
        token
    }

    fn after_value(&mut self) {
        self.expect = match self.open.last() {
            None => Expect::End,
            Some(true) => Expect::AfterField,
            Some(false) => Expect::AfterItem,
        };
    }

    fn value(&mut self, byte: u8) -> Result<Token<'a>, JsonError> {
        let token = match byte {
            b'{' => return self.open(true),
            b'[' => return self.open(false),
            b'"' => Token::String(self.string()?),
            b'-' | b'0'..=b'9' => Token::Number(self.number()?),
            b't' => self.literal("true", LITERAL_TRUE, Token::True)?,
            b'f' => self.literal("false", LITERAL_FALSE, Token::False)?,
            b'n' => self.literal("null", LITERAL_NULL, Token::Null)?,
            _ => return Err(self.invalid(byte, "looking for beginning of value")),
        };
        self.after_value();
        Ok(token)
    }

    fn open(&mut self, object: bool) -> Result<Token<'a>, JsonError> {
        if self.open.len() >= MAX_DEPTH {
            return Err(JsonError::TooDeep);
        }
        self.open.push(object);
        Ok(if object {
            self.mark(Token::ObjectStart, Expect::FirstKey)
        } else {
            self.mark(Token::ArrayStart, Expect::FirstItem)
        })
    }

    fn literal(
        &mut self,
        word: &str,
        contexts: &[&'static str],
        token: Token<'a>,
    ) -> Result<Token<'a>, JsonError> {
        for (expected, context) in word.bytes().zip(contexts) {
            match self.peek() {
                None => return Err(JsonError::UnexpectedEnd),
                Some(byte) if byte != expected => return Err(self.invalid(byte, context)),
                Some(_) => self.at += 1,
            }
        }
        Ok(token)
    }

    /// From the opening to the closing quote.
    fn string(&mut self) -> Result<&'a [u8], JsonError> {
        let start = self.at;
        self.at += 1;
        loop {
            match self.peek().ok_or(JsonError::UnexpectedEnd)? {
                b'"' => {
                    self.at += 1;
                    return Ok(&self.bytes[start..self.at]);
                }
                b'\\' => self.escape()?,
                byte @ 0..=0x1F => return Err(self.invalid(byte, "in string literal")),
                _ => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Result<(), JsonError> {
        self.at += 1;
        let byte = self.peek().ok_or(JsonError::UnexpectedEnd)?;
        match byte {
            b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => self.at += 1,
            b'u' => {
                self.at += 1;
                for _ in 0..4 {
                    let digit = self.peek().ok_or(JsonError::UnexpectedEnd)?;
                    if !digit.is_ascii_hexdigit() {
                        return Err(self.invalid(digit, "in \\u hexadecimal character escape"));
                    }
                    self.at += 1;
                }
            }
            _ => return Err(self.invalid(byte, "in string escape code")),
        }
        Ok(())
    }

    fn number(&mut self) -> Result<&'a [u8], JsonError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits("in numeric literal")?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        Ok(&self.bytes[start..self.at])
    }

    /// At least one digit.
    fn digits(&mut self, context: &'static str) -> Result<(), JsonError> {
        match self.peek() {
            None => return Err(JsonError::UnexpectedEnd),
            Some(byte) if !byte.is_ascii_digit() => return Err(self.invalid(byte, context)),
            Some(_) => {}
        }
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        Ok(())
    }
}

const LITERAL_TRUE: &[&str] = &[
    "looking for beginning of value",
    "in literal true (expecting 'r')",
    "in literal true (expecting 'u')",
    "in literal true (expecting 'e')",
];
const LITERAL_FALSE: &[&str] = &[
    "looking for beginning of value",
    "in literal false (expecting 'a')",
    "in literal false (expecting 'l')",
    "in literal false (expecting 's')",
    "in literal false (expecting 'e')",
];
const LITERAL_NULL: &[&str] = &[
    "looking for beginning of value",
    "in literal null (expecting 'u')",
    "in literal null (expecting 'l')",
    "in literal null (expecting 'l')",
];
