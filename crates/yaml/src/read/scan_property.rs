//! Directives, anchors, aliases and tags.

use super::chars::{CLASS, WORD, width};
use super::scanner::Scanner;
use super::token::{Mark, Token, TokenData, TokenKind};
use crate::error::Error;
use std::borrow::Cow;

impl<'a> Scanner<'a> {
    fn is_word(&self) -> bool {
        CLASS[self.byte(0) as usize] & WORD != 0
    }

    fn take_word(&mut self) -> &'a str {
        let from = self.pos;
        while self.is_word() {
            self.pos += 1;
        }
        self.newlines = 0;
        &self.text[from..self.pos]
    }

    fn skip_blanks(&mut self) {
        while self.is_blank_at(self.pos) {
            self.pos += 1;
        }
    }

    pub(super) fn scan_directive(&mut self) -> Result<Token<'a>, Error> {
        let start = self.mark();
        self.skip();
        let name = self.take_word();
        if name.is_empty() {
            return Err(self.error(Some(start), "could not find expected directive name"));
        }
        if !self.is_blankz_at(self.pos) {
            return Err(self.error(Some(start), "found unexpected non-alphabetical character"));
        }
        let token = match name {
            "YAML" => {
                let (major, minor) = self.version(start)?;
                let data = TokenData::Version(major, minor);
                Token::with(TokenKind::VersionDirective, start, data)
            }
            "TAG" => {
                let data = TokenData::Tag(Box::new(self.tag_directive(start)?));
                Token::with(TokenKind::TagDirective, start, data)
            }
            _ => return Err(self.error(Some(start), "found unknown directive name")),
        };
        self.skip_blanks();
        if self.byte(0) == b'#' {
            self.skip_comment();
        }
        if !self.is_breakz_at(self.pos) {
            return Err(self.error(Some(start), "did not find expected comment or line break"));
        }
        self.take_break();
        Ok(token)
    }

    fn version(&mut self, start: Mark) -> Result<(u8, u8), Error> {
        self.skip_blanks();
        let major = self.version_number(start)?;
        if self.byte(0) != b'.' {
            return Err(self.error(Some(start), "did not find expected digit or '.' character"));
        }
        self.skip();
        Ok((major, self.version_number(start)?))
    }

    fn version_number(&mut self, start: Mark) -> Result<u8, Error> {
        let from = self.pos;
        let mut value = 0;
        while self.byte(0).is_ascii_digit() {
            if self.pos - from == 2 {
                return Err(self.error(Some(start), "found extremely long version number"));
            }
            value = value * 10 + (self.byte(0) - b'0');
            self.skip();
        }
        if self.pos == from {
            return Err(self.error(Some(start), "did not find expected version number"));
        }
        Ok(value)
    }

    fn tag_directive(&mut self, start: Mark) -> Result<(String, String), Error> {
        self.skip_blanks();
        let handle = self.tag_handle(true, start)?.to_owned();
        if !self.is_blank_at(self.pos) {
            return Err(self.error(Some(start), "did not find expected whitespace"));
        }
        self.skip_blanks();
        let prefix = self.tag_uri("", start)?;
        if !self.is_blankz_at(self.pos) {
            return Err(self.error(
                Some(start),
                "did not find expected whitespace or line break",
            ));
        }
        Ok((handle, prefix))
    }

    pub(super) fn scan_anchor(&mut self, kind: TokenKind) -> Result<Token<'a>, Error> {
        let start = self.mark();
        self.skip();
        let name = self.take_word();
        let ended = self.is_blankz_at(self.pos)
            || matches!(
                self.byte(0),
                b'?' | b':' | b',' | b']' | b'}' | b'%' | b'@' | b'`'
            );
        if name.is_empty() || !ended {
            return Err(self.error(
                Some(start),
                "did not find expected alphabetic or numeric character",
            ));
        }
        self.check_end()?;
        Ok(Token::with(
            kind,
            start,
            TokenData::Text(Cow::Borrowed(name)),
        ))
    }

    pub(super) fn scan_tag(&mut self) -> Result<Token<'a>, Error> {
        let start = self.mark();
        let (handle, suffix);
        if self.byte(1) == b'<' {
            self.skip();
            self.skip();
            handle = String::new();
            suffix = self.tag_uri("", start)?;
            if self.byte(0) != b'>' {
                return Err(self.error(Some(start), "did not find the expected '>'"));
            }
            self.skip();
        } else {
            let head = self.tag_handle(false, start)?;
            if head.len() > 1 && head.ends_with('!') {
                handle = head.to_owned();
                suffix = self.tag_uri("", start)?;
            } else {
                let rest = self.tag_uri(head, start)?;
                if rest.is_empty() {
                    (handle, suffix) = (String::new(), head.to_owned());
                } else {
                    (handle, suffix) = ("!".to_owned(), rest);
                }
            }
        }
        if !self.is_blankz_at(self.pos) {
            return Err(self.error(
                Some(start),
                "did not find expected whitespace or line break",
            ));
        }
        self.check_end()?;
        let data = TokenData::Tag(Box::new((handle, suffix)));
        Ok(Token::with(TokenKind::Tag, start, data))
    }

    fn tag_handle(&mut self, directive: bool, start: Mark) -> Result<&'a str, Error> {
        if self.byte(0) != b'!' {
            return Err(self.error(Some(start), "did not find expected '!'"));
        }
        let from = self.pos;
        self.skip();
        self.take_word();
        if self.byte(0) == b'!' {
            self.skip();
        } else if directive && self.pos - from > 1 {
            return Err(self.error(Some(start), "did not find expected '!'"));
        }
        Ok(&self.text[from..self.pos])
    }

    /// What follows a handle; `head` was taken for one but is a part of this.
    fn tag_uri(&mut self, head: &str, start: Mark) -> Result<String, Error> {
        let mut uri: Vec<u8> = head.bytes().skip(1).collect();
        let mut found = !head.is_empty();
        loop {
            let byte = self.byte(0);
            if byte == b'%' {
                self.uri_escapes(start, &mut uri)?;
            } else if self.is_word() || b";/?:@&=+$,.!~*'()[]".contains(&byte) {
                uri.push(byte);
                self.skip();
            } else {
                break;
            }
            found = true;
        }
        if !found {
            return Err(self.error(Some(start), "did not find expected tag URI"));
        }
        Ok(match String::from_utf8(uri) {
            Ok(text) => text,
            Err(bad) => String::from_utf8_lossy(bad.as_bytes()).into_owned(),
        })
    }

    /// One character, each of its bytes as `%xx`.
    fn uri_escapes(&mut self, start: Mark, uri: &mut Vec<u8>) -> Result<(), Error> {
        let mut left = 0;
        loop {
            let digit = |ahead| (self.byte(ahead) as char).to_digit(16);
            let (b'%', Some(high), Some(low)) = (self.byte(0), digit(1), digit(2)) else {
                return Err(self.error(Some(start), "did not find URI escaped octet"));
            };
            let octet = (high << 4 | low) as u8;
            if left == 0 {
                left = width(octet);
                if left == 0 {
                    return Err(self.error(Some(start), "found an incorrect leading UTF-8 octet"));
                }
            } else if octet & 0xC0 != 0x80 {
                return Err(self.error(Some(start), "found an incorrect trailing UTF-8 octet"));
            }
            uri.push(octet);
            self.skip_run(self.pos + 3);
            left -= 1;
            if left == 0 {
                return Ok(());
            }
        }
    }
}
