//! What the scanner hands to the parser.

use crate::node::{Position, Style};
use std::borrow::Cow;

/// A place in the text, in the terms of the scanner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Byte offset plus one, so that the place before the first byte has a number too.
    pub(crate) index: u32,
    /// From 0.
    pub(crate) line: u32,
    /// From 0, in characters.
    pub(crate) column: u32,
}

impl Mark {
    pub(crate) fn position(self) -> Position {
        Position {
            line: self.line + 1,
            column: self.column + 1,
        }
    }

    /// The place after a one-character token that begins here.
    pub(crate) fn after_indicator(self) -> Mark {
        Mark {
            index: self.index + 1,
            column: self.column + 1,
            ..self
        }
    }
}

/// The kinds of token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    StreamStart,
    StreamEnd,
    VersionDirective,
    TagDirective,
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias,
    Anchor,
    Tag,
    Scalar,
}

/// One token.
#[derive(Clone, Debug)]
pub(crate) struct Token<'a> {
    pub(crate) kind: TokenKind,
    /// Of a scalar.
    pub(crate) style: Style,
    pub(crate) start: Mark,
    pub(crate) data: TokenData<'a>,
}

/// What a token carries besides its kind.
#[derive(Clone, Debug)]
pub(crate) enum TokenData<'a> {
    None,
    /// A scalar's text, or the name of an anchor or alias.
    Text(Cow<'a, str>),
    /// A tag's handle and suffix, or a directive's handle and prefix.
    Tag(Box<(String, String)>),
    /// A version.
    Version(u8, u8),
}

impl<'a> Token<'a> {
    pub(crate) fn new(kind: TokenKind, start: Mark) -> Self {
        Token {
            kind,
            style: Style::Plain,
            start,
            data: TokenData::None,
        }
    }

    pub(crate) fn scalar(start: Mark, style: Style, text: Cow<'a, str>) -> Self {
        Token {
            kind: TokenKind::Scalar,
            style,
            start,
            data: TokenData::Text(text),
        }
    }

    pub(crate) fn with(kind: TokenKind, start: Mark, data: TokenData<'a>) -> Self {
        Token {
            kind,
            style: Style::Plain,
            start,
            data,
        }
    }
}
