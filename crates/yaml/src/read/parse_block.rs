//! Block collections.

use super::parser::{EventKind, Parsed, Parser, State, event};
use super::token::{TokenData, TokenKind};
use crate::error::Error;
use crate::node::Style;
use std::borrow::Cow;

impl<'a> Parser<'a> {
    /// The next key or value of a block mapping, if it is a bare scalar. None leaves everything to
    /// [`Parser::next`], which gives such scalars too, but as events with all that belongs to them.
    #[inline(always)]
    pub(crate) fn bare_scalar(&mut self) -> Result<Option<(Cow<'a, str>, Style)>, Error> {
        match self.state {
            State::BlockMappingKey => {
                if self.peek()?.0 != TokenKind::Key || !self.scanner.second_is_scalar() {
                    return Ok(None);
                }
                self.skip();
                self.peek()?;
                self.state = State::BlockMappingValue;
            }
            State::BlockMappingValue => {
                let (kind, start) = self.peek()?;
                if kind != TokenKind::Value {
                    return Ok(None);
                }
                self.skip();
                self.value_mark = start;
                self.state = State::BlockMappingValueContent;
                if self.peek()?.0 != TokenKind::Scalar {
                    return Ok(None);
                }
                self.state = State::BlockMappingKey;
            }
            _ => return Ok(None),
        }
        if self.scanner.comments_mut().unfolded {
            self.unfolded_comments();
        }
        let Some(token) = self.scanner.take() else {
            return Ok(None);
        };
        Ok(Some(match token.data {
            TokenData::Text(text) => (text, token.style),
            _ => (Cow::Borrowed(""), token.style),
        }))
    }

    pub(super) fn block_sequence_entry(&mut self, first: bool) -> Parsed<'a> {
        if first {
            let (_, start) = self.peek()?;
            self.marks.push(start);
            self.skip();
        }
        let (kind, start) = self.peek()?;
        match kind {
            TokenKind::BlockEntry => {
                let stem = self.scanner.comments_mut().head.len();
                self.skip();
                self.split_stem(stem);
                let (kind, _) = self.peek()?;
                if matches!(kind, TokenKind::BlockEntry | TokenKind::BlockEnd) {
                    self.state = State::BlockSequenceEntry;
                    return self.empty_scalar(start.after_indicator());
                }
                self.states.push(State::BlockSequenceEntry);
                self.node(true, false)
            }
            TokenKind::BlockEnd => {
                self.pop_state();
                self.marks.pop();
                self.skip();
                Ok(event(EventKind::SequenceEnd, start))
            }
            _ => {
                let context = self.marks.pop();
                Err(self.error(context, "did not find expected '-' indicator", start))
            }
        }
    }

    pub(super) fn indentless_sequence_entry(&mut self) -> Parsed<'a> {
        let (kind, start) = self.peek()?;
        if kind != TokenKind::BlockEntry {
            self.pop_state();
            return Ok(event(EventKind::SequenceEnd, start));
        }
        let stem = self.scanner.comments_mut().head.len();
        self.skip();
        self.split_stem(stem);
        let (kind, _) = self.peek()?;
        if matches!(
            kind,
            TokenKind::BlockEntry | TokenKind::Key | TokenKind::Value | TokenKind::BlockEnd
        ) {
            self.state = State::IndentlessSequenceEntry;
            return self.empty_scalar(start.after_indicator());
        }
        self.states.push(State::IndentlessSequenceEntry);
        self.node(true, false)
    }

    pub(super) fn block_mapping_first_key(&mut self) -> Parsed<'a> {
        let (_, start) = self.peek()?;
        self.marks.push(start);
        self.skip();
        self.state = State::BlockMappingKey;
        self.block_mapping_key()
    }

    #[inline(always)]
    pub(super) fn block_mapping_key(&mut self) -> Parsed<'a> {
        let (kind, start) = self.peek()?;
        match kind {
            TokenKind::Key => {
                self.skip();
                let (kind, next) = self.peek()?;
                if matches!(
                    kind,
                    TokenKind::Key | TokenKind::Value | TokenKind::BlockEnd
                ) {
                    self.state = State::BlockMappingValue;
                    // A key that the `:` revealed has no width of its own.
                    let mark = match next.index == start.index {
                        true => start,
                        false => start.after_indicator(),
                    };
                    return self.empty_scalar(mark);
                }
                self.states.push(State::BlockMappingValue);
                self.node(true, true)
            }
            TokenKind::BlockEnd => {
                self.pop_state();
                self.marks.pop();
                let ended = self.with_comments(event(EventKind::MappingEnd, start));
                self.skip();
                Ok(ended)
            }
            _ => {
                let context = self.marks.pop();
                Err(self.error(context, "did not find expected key", start))
            }
        }
    }

    #[inline(always)]
    pub(super) fn block_mapping_value(&mut self) -> Parsed<'a> {
        let (kind, start) = self.peek()?;
        if kind != TokenKind::Value {
            self.state = State::BlockMappingKey;
            return self.empty_scalar(start);
        }
        self.skip();
        self.value_mark = start;
        self.block_mapping_value_content()
    }

    /// What follows the `:`.
    #[inline(always)]
    pub(super) fn block_mapping_value_content(&mut self) -> Parsed<'a> {
        let (kind, _) = self.peek()?;
        if matches!(
            kind,
            TokenKind::Key | TokenKind::Value | TokenKind::BlockEnd
        ) {
            self.state = State::BlockMappingKey;
            return self.empty_scalar(self.value_mark.after_indicator());
        }
        self.states.push(State::BlockMappingKey);
        self.node(true, true)
    }
}
