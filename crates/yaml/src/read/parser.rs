//! From tokens to events, by the grammar that both Go libraries share.

use super::input::Input;
use super::scanner::{Scanner, syntax_error};
use super::stack::Stack;
use super::token::{Mark, TokenData, TokenKind};
use crate::error::Error;
use crate::node::{Comments, Dialect, Style};
use std::borrow::Cow;

/// One step through a document.
#[derive(Debug)]
pub(crate) struct Event<'a> {
    pub(crate) kind: EventKind<'a>,
    pub(crate) start: Mark,
    /// Only under go-yaml v3, and only if there are some.
    pub(crate) comments: Option<Box<Comments>>,
}

#[derive(Debug)]
pub(crate) enum EventKind<'a> {
    StreamStart,
    StreamEnd,
    DocumentStart,
    DocumentEnd,
    Alias(Cow<'a, str>),
    Scalar {
        text: Cow<'a, str>,
        style: Style,
        properties: Option<Box<Properties<'a>>>,
    },
    SequenceStart {
        flow: bool,
        properties: Option<Box<Properties<'a>>>,
    },
    SequenceEnd,
    MappingStart {
        flow: bool,
        properties: Option<Box<Properties<'a>>>,
    },
    MappingEnd,
}

/// The anchor and the tag of a node; the tag in its long form.
#[derive(Debug, Default)]
pub(crate) struct Properties<'a> {
    pub(crate) anchor: Option<Cow<'a, str>>,
    pub(crate) tag: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    StreamStart,
    ImplicitDocumentStart,
    DocumentStart,
    DocumentContent,
    DocumentEnd,
    BlockNode,
    BlockSequenceFirstEntry,
    BlockSequenceEntry,
    IndentlessSequenceEntry,
    BlockMappingFirstKey,
    BlockMappingKey,
    BlockMappingValue,
    BlockMappingValueContent,
    FlowSequenceFirstEntry,
    FlowSequenceEntry,
    FlowSequenceEntryMappingKey,
    FlowSequenceEntryMappingValue,
    FlowSequenceEntryMappingEnd,
    FlowMappingFirstKey,
    FlowMappingKey,
    FlowMappingValue,
    FlowMappingEmptyValue,
    #[default]
    End,
}

pub(crate) struct Parser<'a> {
    pub(super) scanner: Scanner<'a>,
    dialect: Dialect,
    pub(super) state: State,
    pub(super) states: Stack<State, 16>,
    pub(super) marks: Stack<Mark, 16>,
    /// Where the `:` of the current entry is.
    pub(super) value_mark: Mark,
    tag_directives: Vec<(String, String)>,
}

pub(super) type Parsed<'a> = Result<Event<'a>, Error>;

impl<'a> Parser<'a> {
    pub(crate) fn new(input: &'a Input<'_>, dialect: Dialect) -> Self {
        Parser {
            scanner: Scanner::new(input, dialect),
            dialect,
            state: State::StreamStart,
            states: Stack::new(),
            marks: Stack::new(),
            value_mark: Mark::default(),
            tag_directives: Vec::new(),
        }
    }

    /// The next event; after the end of the stream it is the end of the stream again.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Parsed<'a> {
        match self.state {
            State::StreamStart => {
                let (_, start) = self.peek()?;
                self.skip();
                self.state = State::ImplicitDocumentStart;
                Ok(event(EventKind::StreamStart, start))
            }
            State::ImplicitDocumentStart => self.document_start(true),
            State::DocumentStart => self.document_start(false),
            State::DocumentContent => self.document_content(),
            State::DocumentEnd => self.document_end(),
            State::BlockNode => self.rare_node(true, false),
            State::BlockSequenceFirstEntry => self.block_sequence_entry(true),
            State::BlockSequenceEntry => self.block_sequence_entry(false),
            State::IndentlessSequenceEntry => self.indentless_sequence_entry(),
            State::BlockMappingFirstKey => self.block_mapping_first_key(),
            State::BlockMappingKey => self.block_mapping_key(),
            State::BlockMappingValue => self.block_mapping_value(),
            State::BlockMappingValueContent => self.block_mapping_value_content(),
            State::FlowSequenceFirstEntry => self.flow_sequence_entry(true),
            State::FlowSequenceEntry => self.flow_sequence_entry(false),
            State::FlowSequenceEntryMappingKey => self.flow_sequence_mapping_key(),
            State::FlowSequenceEntryMappingValue => self.flow_sequence_mapping_value(),
            State::FlowSequenceEntryMappingEnd => {
                let (_, start) = self.peek()?;
                self.state = State::FlowSequenceEntry;
                Ok(event(EventKind::MappingEnd, start))
            }
            State::FlowMappingFirstKey => self.flow_mapping_key(true),
            State::FlowMappingKey => self.flow_mapping_key(false),
            State::FlowMappingValue => self.flow_mapping_value(false),
            State::FlowMappingEmptyValue => self.flow_mapping_value(true),
            State::End => Ok(event(EventKind::StreamEnd, Mark::default())),
        }
    }

    // ----- helpers --------------------------------------------------------------------------

    #[inline(always)]
    pub(super) fn peek(&mut self) -> Result<(TokenKind, Mark), Error> {
        let token = self.scanner.peek()?;
        Ok((token.kind, token.start))
    }

    #[inline(always)]
    pub(super) fn skip(&mut self) {
        self.scanner.take();
    }

    pub(super) fn pop_state(&mut self) {
        self.state = self.states.pop().unwrap_or(State::End);
    }

    #[cold]
    pub(super) fn error(&self, context: Option<Mark>, problem: &'static str, mark: Mark) -> Error {
        syntax_error(self.dialect, false, context, problem, mark)
    }

    /// Gives the comments that wait to an event.
    #[inline(always)]
    pub(super) fn with_comments(&mut self, mut event: Event<'a>) -> Event<'a> {
        if self.scanner.comments_mut().unfolded {
            event.comments = self.unfolded_comments();
        }
        event
    }

    #[cold]
    pub(super) fn unfolded_comments(&mut self) -> Option<Box<Comments>> {
        let queue = self.scanner.comments_mut();
        queue.unfolded = false;
        queue.stem = None;
        let comments = Comments {
            head: std::mem::take(&mut queue.head).into(),
            line: std::mem::take(&mut queue.line).into(),
            foot: std::mem::take(&mut queue.foot).into(),
        };
        (comments != Comments::default()).then(|| Box::new(comments))
    }

    pub(super) fn empty_scalar(&mut self, mark: Mark) -> Parsed<'a> {
        Ok(event(
            EventKind::Scalar {
                text: Cow::Borrowed(""),
                style: Style::Plain,
                properties: None,
            },
            mark,
        ))
    }

    // ----- documents ------------------------------------------------------------------------

    fn document_start(&mut self, implicit: bool) -> Parsed<'a> {
        let (mut kind, mut start) = self.peek()?;
        if !implicit {
            while kind == TokenKind::DocumentEnd {
                self.skip();
                (kind, start) = self.peek()?;
            }
        }
        let explicit = matches!(
            kind,
            TokenKind::VersionDirective | TokenKind::TagDirective | TokenKind::DocumentStart
        );
        if kind == TokenKind::StreamEnd {
            self.state = State::End;
            self.skip();
            return Ok(event(EventKind::StreamEnd, start));
        }
        if implicit && !explicit {
            self.directives()?;
            self.states.push(State::DocumentEnd);
            self.state = State::BlockNode;
            let mut started = event(EventKind::DocumentStart, start);
            started.comments = self.document_head();
            return Ok(started);
        }
        self.directives()?;
        let (kind, mark) = self.peek()?;
        if kind != TokenKind::DocumentStart {
            return Err(self.error(None, "did not find expected <document start>", mark));
        }
        self.states.push(State::DocumentEnd);
        self.state = State::DocumentContent;
        self.skip();
        Ok(event(EventKind::DocumentStart, start))
    }

    /// Comments before the first empty line belong to the document, the others to what follows.
    fn document_head(&mut self) -> Option<Box<Comments>> {
        let head = &mut self.scanner.comments_mut().head;
        let bytes = head.as_bytes();
        let (end, next) = (1..bytes.len())
            .rev()
            .filter(|&index| bytes[index] == b'\n')
            .find_map(|index| {
                if index == bytes.len() - 1 {
                    Some((index, index + 1))
                } else if bytes[index - 1] == b'\n' {
                    Some((index - 1, index + 1))
                } else {
                    None
                }
            })?;
        let rest = head.split_off(next);
        head.truncate(end);
        let document = std::mem::replace(head, rest);
        Some(Box::new(Comments {
            head: document.into(),
            ..Comments::default()
        }))
    }

    /// [`Self::node`] where speed does not matter.
    #[inline(never)]
    pub(super) fn rare_node(&mut self, block: bool, indentless: bool) -> Parsed<'a> {
        self.node(block, indentless)
    }

    fn document_content(&mut self) -> Parsed<'a> {
        let (kind, start) = self.peek()?;
        match kind {
            TokenKind::VersionDirective
            | TokenKind::TagDirective
            | TokenKind::DocumentStart
            | TokenKind::DocumentEnd
            | TokenKind::StreamEnd => {
                self.pop_state();
                self.empty_scalar(start)
            }
            _ => self.rare_node(true, false),
        }
    }

    fn document_end(&mut self) -> Parsed<'a> {
        let (kind, start) = self.peek()?;
        if kind == TokenKind::DocumentEnd {
            self.skip();
        }
        self.tag_directives.clear();
        self.state = State::DocumentStart;
        let mut ended = self.with_comments(event(EventKind::DocumentEnd, start));
        if let Some(comments) = &mut ended.comments
            && comments.foot.is_empty()
        {
            comments.foot = std::mem::take(&mut comments.head);
        }
        Ok(ended)
    }

    fn directives(&mut self) -> Result<(), Error> {
        let mut version_seen = false;
        loop {
            let (kind, start) = self.peek()?;
            match kind {
                TokenKind::VersionDirective => {
                    if version_seen {
                        return Err(self.error(None, "found duplicate %YAML directive", start));
                    }
                    version_seen = true;
                }
                TokenKind::TagDirective => {}
                _ => break,
            }
            match self.scanner.take().map(|token| token.data) {
                Some(TokenData::Version(major, minor)) if (major, minor) != (1, 1) => {
                    return Err(self.error(None, "found incompatible YAML document", start));
                }
                Some(TokenData::Tag(directive)) => {
                    if self.tag_directives.iter().any(|(h, _)| *h == directive.0) {
                        return Err(self.error(None, "found duplicate %TAG directive", start));
                    }
                    self.tag_directives.push(*directive);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn long_tag(&self, handle: &str, suffix: String) -> Option<String> {
        if handle.is_empty() {
            return Some(suffix);
        }
        let declared = self.tag_directives.iter().find(|(h, _)| h == handle);
        let prefix = match (declared, handle) {
            (Some((_, prefix)), _) => prefix.as_str(),
            (None, "!") => "!",
            (None, "!!") => "tag:yaml.org,2002:",
            _ => return None,
        };
        Some(format!("{prefix}{suffix}")).filter(|tag| !tag.is_empty())
    }

    // ----- nodes ----------------------------------------------------------------------------

    #[inline(always)]
    pub(super) fn node(&mut self, block: bool, indentless: bool) -> Parsed<'a> {
        let (mut kind, start) = self.peek()?;
        let mut properties = None;
        if matches!(kind, TokenKind::Anchor | TokenKind::Tag) {
            properties = Some(self.properties(start)?);
            kind = self.peek()?.0;
        }
        match kind {
            TokenKind::Alias if properties.is_some() => {
                // The alias is left for whoever comes next, who will not want it.
                self.pop_state();
                let scalar = EventKind::Scalar {
                    text: Cow::Borrowed(""),
                    style: Style::Plain,
                    properties,
                };
                Ok(event(scalar, start))
            }
            TokenKind::Scalar | TokenKind::Alias => {
                let Some(token) = self.scanner.take() else {
                    return self.empty_scalar(start);
                };
                let text = match token.data {
                    TokenData::Text(text) => text,
                    _ => Cow::Borrowed(""),
                };
                if kind == TokenKind::Alias {
                    self.pop_state();
                    return Ok(self.with_comments(event(EventKind::Alias(text), start)));
                }
                self.pop_state();
                let scalar = EventKind::Scalar {
                    text,
                    style: token.style,
                    properties,
                };
                Ok(self.with_comments(event(scalar, start)))
            }
            TokenKind::BlockEntry if indentless => {
                self.state = State::IndentlessSequenceEntry;
                let flow = false;
                Ok(event(EventKind::SequenceStart { flow, properties }, start))
            }
            TokenKind::FlowSequenceStart => {
                self.state = State::FlowSequenceFirstEntry;
                let flow = true;
                let started = event(EventKind::SequenceStart { flow, properties }, start);
                Ok(self.with_comments(started))
            }
            TokenKind::FlowMappingStart => {
                self.state = State::FlowMappingFirstKey;
                let flow = true;
                let started = event(EventKind::MappingStart { flow, properties }, start);
                Ok(self.with_comments(started))
            }
            TokenKind::BlockSequenceStart if block => {
                self.state = State::BlockSequenceFirstEntry;
                let flow = false;
                let started = event(EventKind::SequenceStart { flow, properties }, start);
                Ok(self.with_stem(started))
            }
            TokenKind::BlockMappingStart if block => {
                self.state = State::BlockMappingFirstKey;
                let flow = false;
                let started = event(EventKind::MappingStart { flow, properties }, start);
                Ok(self.with_stem(started))
            }
            _ if properties.is_some() => {
                self.pop_state();
                let scalar = EventKind::Scalar {
                    text: Cow::Borrowed(""),
                    style: Style::Plain,
                    properties,
                };
                Ok(event(scalar, start))
            }
            _ => {
                let mark = self.peek()?.1;
                Err(self.error(Some(start), "did not find expected node content", mark))
            }
        }
    }

    /// An anchor, a tag, or both in either order.
    fn properties(&mut self, start: Mark) -> Result<Box<Properties<'a>>, Error> {
        let mut properties = Box::new(Properties::default());
        for _ in 0..2 {
            let (kind, mark) = self.peek()?;
            match kind {
                TokenKind::Anchor if properties.anchor.is_none() => {
                    if let Some(TokenData::Text(name)) = self.scanner.take().map(|t| t.data) {
                        properties.anchor = Some(name);
                    }
                }
                TokenKind::Tag if properties.tag.is_none() => {
                    let Some(TokenData::Tag(tag)) = self.scanner.take().map(|t| t.data) else {
                        break;
                    };
                    // Go peeks at the next token before it looks the handle up.
                    self.peek()?;
                    let (handle, suffix) = *tag;
                    match self.long_tag(&handle, suffix) {
                        Some(tag) => properties.tag = Some(tag),
                        None => {
                            let problem = "found undefined tag handle";
                            return Err(self.error(Some(start), problem, mark));
                        }
                    }
                }
                _ => break,
            }
        }
        Ok(properties)
    }

    /// Gives the comment above a `-` to the collection that the entry holds.
    fn with_stem(&mut self, mut event: Event<'a>) -> Event<'a> {
        if let Some(stem) = self.scanner.comments_mut().stem.take() {
            event.comments = Some(Box::new(Comments {
                head: stem.into(),
                ..Comments::default()
            }));
        }
        event
    }

    /// The head comment before a `-` belongs to the collection that begins behind it.
    pub(super) fn split_stem(&mut self, stem: usize) {
        if stem == 0 {
            return;
        }
        // Go forgets an error here and scans on.
        let Ok((TokenKind::BlockSequenceStart | TokenKind::BlockMappingStart, _)) = self.peek()
        else {
            return;
        };
        let queue = self.scanner.comments_mut();
        let mut rest = queue.head.split_off(stem);
        if !rest.is_empty() {
            rest.remove(0);
        }
        queue.stem = Some(std::mem::replace(&mut queue.head, rest));
    }
}

#[inline(always)]
pub(super) fn event<'a>(kind: EventKind<'a>, start: Mark) -> Event<'a> {
    Event {
        kind,
        start,
        comments: None,
    }
}
