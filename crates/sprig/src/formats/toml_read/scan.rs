//! Characters, white space, keys and strings.

use everflow_gotemplate::gofmt;

use super::{Fault, Read};
use crate::text::runes::{REPLACEMENT, decode};

pub(super) struct Scanner<'a> {
    pub text: &'a [u8],
    pub at: usize,
    pub line: usize,
    /// Where the string that is being read starts.
    start: usize,
}

/// A character in single quotes with escapes.
pub(super) fn quoted(c: char) -> String {
    if c == '\'' {
        return r"'\''".to_owned();
    }
    if c == '"' {
        return "'\"'".to_owned();
    }
    let text = gofmt::quote(c.to_string().as_bytes());
    format!("'{}'", &text[1..text.len() - 1])
}

/// As [`quoted`]; the end of the text counts as a zero character.
pub(super) fn quoted_or_end(c: Option<char>) -> String {
    quoted(c.unwrap_or('\0'))
}

/// A character in single quotes as it is, or a word for the end.
pub(super) fn plain_or_end(c: Option<char>) -> String {
    match c {
        Some(c) => format!("'{c}'"),
        None => "end of file".to_owned(),
    }
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self {
            text,
            at: 0,
            line: 1,
            start: 0,
        }
    }

    /// A complaint about the current place.
    pub(super) fn fail<T>(&self, message: String) -> Read<T> {
        let at_end = self.at >= self.text.len();
        let after_break = self.at > 0 && self.text.get(self.at - 1) == Some(&b'\n');
        let line = if at_end && after_break {
            self.line - 1
        } else {
            self.line
        };
        Err(Fault { line, message })
    }

    pub(super) fn peek(&self) -> Read<Option<char>> {
        if self.at >= self.text.len() {
            return Ok(None);
        }
        let rest = &self.text[self.at..];
        let (c, width) = decode(rest);
        if c == REPLACEMENT && width == 1 {
            return self.fail(format!("invalid UTF-8 byte: 0x{:02x}", rest[0]));
        }
        let lone_return = c == '\r' && rest.get(1) != Some(&b'\n');
        let control =
            matches!(c, '\0'..='\u{8}' | '\u{b}'..='\u{c}' | '\u{e}'..='\u{1f}' | '\u{7f}');
        if control || lone_return {
            return self.fail(format!(
                "TOML files cannot contain control characters: '0x{:02x}'",
                c as u32
            ));
        }
        Ok(Some(c))
    }

    pub(super) fn next(&mut self) -> Read<Option<char>> {
        let c = self.peek()?;
        if let Some(c) = c {
            self.at += c.len_utf8();
            if c == '\n' {
                self.line += 1;
            }
        }
        Ok(c)
    }

    pub(super) fn accept(&mut self, wanted: char) -> Read<bool> {
        let found = self.peek()? == Some(wanted);
        if found {
            self.next()?;
        }
        Ok(found)
    }

    pub(super) fn skip_spaces(&mut self) -> Read<()> {
        while matches!(self.peek()?, Some(' ' | '\t')) {
            self.next()?;
        }
        Ok(())
    }

    /// Skips spaces, line breaks and comments.
    pub(super) fn skip_blank(&mut self) -> Read<()> {
        loop {
            match self.peek()? {
                Some(' ' | '\t' | '\n' | '\r') => drop(self.next()?),
                Some('#') => self.skip_comment()?,
                _ => return Ok(()),
            }
        }
    }

    pub(super) fn skip_comment(&mut self) -> Read<()> {
        while !matches!(self.peek()?, None | Some('\n')) {
            self.next()?;
        }
        Ok(())
    }

    /// One part of a key, quoted or not.
    pub(super) fn key_part(&mut self) -> Read<String> {
        match self.peek()? {
            Some('"') => {
                self.next()?;
                self.basic_string()
            }
            Some('\'') => {
                self.next()?;
                self.literal_string()
            }
            _ => {
                let mut part = String::new();
                while let Some(c @ ('a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-')) = self.peek()? {
                    part.push(c);
                    self.next()?;
                }
                Ok(part)
            }
        }
    }

    fn broken_line<T>(&self) -> Read<T> {
        let message = "strings cannot contain newlines".to_owned();
        Err(Fault {
            line: self.line - 1,
            message,
        })
    }

    /// The rest of a string after its opening quote.
    pub(super) fn basic_string(&mut self) -> Read<String> {
        self.start = self.at;
        let mut out = String::new();
        loop {
            match self.next()? {
                None => return self.fail("unexpected EOF; expected '\"'".to_owned()),
                Some('\n' | '\r') => return self.broken_line(),
                Some('"') => return Ok(out),
                Some('\\') => self.escape(&mut out)?,
                Some(c) => out.push(c),
            }
        }
    }

    /// The rest of a string in single quotes.
    pub(super) fn literal_string(&mut self) -> Read<String> {
        let mut out = String::new();
        loop {
            match self.next()? {
                None => return self.fail("unexpected EOF; expected \"'\"".to_owned()),
                Some('\n' | '\r') => return self.broken_line(),
                Some('\'') => return Ok(out),
                Some(c) => out.push(c),
            }
        }
    }

    /// The rest of a string in three quotes of either kind.
    pub(super) fn long_string(&mut self, quote: char) -> Read<String> {
        self.start = self.at;
        let mut out = String::new();
        if self.peek()? == Some('\r') {
            self.next()?;
        }
        self.accept('\n')?;
        loop {
            match self.next()? {
                None => {
                    let wanted = if quote == '"' { "'\"\"\"'" } else { "\"'''\"" };
                    return self.fail(format!("unexpected EOF; expected {wanted}"));
                }
                Some(c) if c == quote => {
                    let mut count = 1;
                    while count < 6 && self.accept(quote)? {
                        count += 1;
                    }
                    if count == 6 {
                        let shown = quote.to_string().repeat(6);
                        return self.fail(format!("unexpected '{shown}'"));
                    }
                    // Up to two quotes may stand before the closing three.
                    let inside = if count < 3 { count } else { count - 3 };
                    out.extend(std::iter::repeat_n(quote, inside));
                    if count >= 3 {
                        return Ok(out);
                    }
                }
                Some('\\') if quote == '"' => {
                    if !self.skip_escaped_break()? {
                        self.escape(&mut out)?;
                    }
                }
                Some(c) => out.push(c),
            }
        }
    }

    /// A backslash before a line break swallows all white space that follows.
    fn skip_escaped_break(&mut self) -> Read<bool> {
        let rest = &self.text[self.at..];
        let blank = rest.iter().take_while(|b| b" \t\r\n".contains(b)).count();
        if !rest[..blank].contains(&b'\n') {
            return Ok(false);
        }
        for _ in 0..blank {
            self.next()?;
        }
        Ok(true)
    }

    fn escape(&mut self, out: &mut String) -> Read<()> {
        let c = self.next()?;
        let digits = match c {
            Some('b') => return push(out, '\u{8}'),
            Some('t') => return push(out, '\t'),
            Some('n') => return push(out, '\n'),
            Some('f') => return push(out, '\u{c}'),
            Some('r') => return push(out, '\r'),
            Some('e') => return push(out, '\u{1b}'),
            Some(c @ ('"' | '\\')) => return push(out, c),
            Some(c @ (' ' | '\t')) => return self.fail(format!("invalid escape: '\\{c}'")),
            Some('x') => ('x', 2, "two"),
            Some('u') => ('u', 4, "four"),
            Some('U') => ('U', 8, "eight"),
            other => {
                let c = other.unwrap_or('\0');
                return self.fail(format!("invalid escape in string '\\{c}'"));
            }
        };
        let (letter, count, word) = digits;
        let start = self.at;
        for _ in 0..count {
            let hex = self.next()?.is_some_and(|c| c.is_ascii_hexdigit());
            if !hex {
                let shown = gofmt::quote(&self.text[self.start..self.at]);
                return self.fail(format!(
                    "expected {word} hexadecimal digits after '\\{letter}', but got {shown} instead"
                ));
            }
        }
        let digits = String::from_utf8_lossy(&self.text[start..self.at]).into_owned();
        let code = u32::from_str_radix(&digits, 16)
            .ok()
            .and_then(char::from_u32);
        match code {
            Some(c) => push(out, c),
            None => self.fail(format!(
                "Escaped character '\\u{digits}' is not valid UTF-8."
            )),
        }
    }
}

fn push(out: &mut String, c: char) -> Read<()> {
    out.push(c);
    Ok(())
}
