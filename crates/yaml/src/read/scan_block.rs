//! Literal and folded block scalars.

use super::scanner::Scanner;
use super::token::{Mark, Token};
use crate::error::Error;
use crate::node::{Dialect, Style};
use std::borrow::Cow;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Chomping {
    Strip,
    Clip,
    Keep,
}

impl<'a> Scanner<'a> {
    pub(super) fn scan_block_scalar(&mut self, literal: bool) -> Result<Token<'a>, Error> {
        let start = self.mark();
        let (chomping, increment) = self.block_header(start)?;
        let mut indent = match increment {
            0 => 0,
            increment => self.indent.max(0) + increment,
        };
        let mut text = String::new();
        let mut trailing = String::new();
        self.block_breaks(&mut indent, &mut trailing, start)?;
        let mut leading_break = "";
        let mut leading_blank = false;
        while self.column() as i32 == indent && self.byte(0) != 0 {
            let blank = self.is_blank_at(self.pos);
            if !literal && !leading_blank && !blank && leading_break == "\n" {
                if trailing.is_empty() {
                    text.push(' ');
                }
            } else {
                text.push_str(leading_break);
            }
            text.push_str(&trailing);
            trailing.clear();
            leading_blank = blank;
            self.block_line(&mut text);
            leading_break = self.take_break();
            self.block_breaks(&mut indent, &mut trailing, start)?;
        }
        self.check_end()?;
        if chomping != Chomping::Strip {
            text.push_str(leading_break);
        }
        if chomping == Chomping::Keep {
            text.push_str(&trailing);
        }
        let style = match literal {
            true => Style::Literal,
            false => Style::Folded,
        };
        Ok(Token::scalar(start, style, Cow::Owned(text)))
    }

    /// What follows `|` or `>` on its line, and the line break.
    fn block_header(&mut self, start: Mark) -> Result<(Chomping, i32), Error> {
        self.skip();
        let mut chomping = Chomping::Clip;
        let mut increment = 0;
        let first = self.byte(0);
        if matches!(first, b'+' | b'-') {
            chomping = self.take_chomping();
            increment = self.take_increment(start)?;
        } else if first.is_ascii_digit() {
            increment = self.take_increment(start)?;
            if matches!(self.byte(0), b'+' | b'-') {
                chomping = self.take_chomping();
            }
        }
        while self.is_blank_at(self.pos) {
            self.pos += 1;
        }
        if self.byte(0) == b'#' {
            match self.dialect {
                Dialect::Kyaml => self.scan_line_comment(start)?,
                Dialect::Sigs => self.skip_comment(),
            }
            if !self.is_breakz_at(self.pos) {
                self.skip_comment();
            }
        }
        if !self.is_breakz_at(self.pos) {
            return Err(self.error(Some(start), "did not find expected comment or line break"));
        }
        self.take_break();
        Ok((chomping, increment))
    }

    fn take_chomping(&mut self) -> Chomping {
        let chomping = match self.byte(0) {
            b'+' => Chomping::Keep,
            _ => Chomping::Strip,
        };
        self.skip();
        chomping
    }

    fn take_increment(&mut self, start: Mark) -> Result<i32, Error> {
        let digit = self.byte(0);
        if !digit.is_ascii_digit() {
            return Ok(0);
        }
        if digit == b'0' {
            return Err(self.error(Some(start), "found an indentation indicator equal to 0"));
        }
        self.skip();
        Ok(i32::from(digit - b'0'))
    }

    fn block_line(&mut self, text: &mut String) {
        let from = self.pos;
        let at = self.line_end(from);
        text.push_str(&self.text[from..at]);
        if at > from {
            self.skip_run(at);
        }
    }

    /// Indentation and empty lines; finds the indentation if it is not known yet.
    fn block_breaks(
        &mut self,
        indent: &mut i32,
        breaks: &mut String,
        start: Mark,
    ) -> Result<(), Error> {
        let mut deepest = 0;
        loop {
            while (*indent == 0 || (self.column() as i32) < *indent) && self.byte(0) == b' ' {
                self.pos += 1;
            }
            let column = self.column() as i32;
            deepest = deepest.max(column);
            if (*indent == 0 || column < *indent) && self.byte(0) == b'\t' {
                return Err(self.error(
                    Some(start),
                    "found a tab character where an indentation space is expected",
                ));
            }
            if !self.is_break_at(self.pos) {
                break;
            }
            breaks.push_str(self.take_break());
        }
        if *indent == 0 {
            *indent = deepest.max(self.indent + 1).max(1);
        }
        Ok(())
    }
}
