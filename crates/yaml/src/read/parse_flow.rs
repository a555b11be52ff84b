//! Flow collections.

use super::parser::{EventKind, Parsed, Parser, State, event};
use super::token::TokenKind;

impl<'a> Parser<'a> {
    pub(super) fn flow_sequence_entry(&mut self, first: bool) -> Parsed<'a> {
        if first {
            let (_, start) = self.peek()?;
            self.marks.push(start);
            self.skip();
        }
        let (mut kind, mut start) = self.peek()?;
        if kind != TokenKind::FlowSequenceEnd {
            if !first {
                if kind != TokenKind::FlowEntry {
                    let context = self.marks.pop();
                    return Err(self.error(context, "did not find expected ',' or ']'", start));
                }
                self.skip();
                (kind, start) = self.peek()?;
            }
            if kind == TokenKind::Key {
                self.state = State::FlowSequenceEntryMappingKey;
                self.skip();
                let started = EventKind::MappingStart {
                    flow: true,
                    properties: None,
                };
                return Ok(event(started, start));
            }
            if kind != TokenKind::FlowSequenceEnd {
                self.states.push(State::FlowSequenceEntry);
                return self.rare_node(false, false);
            }
        }
        self.pop_state();
        self.marks.pop();
        let ended = self.with_comments(event(EventKind::SequenceEnd, start));
        self.skip();
        Ok(ended)
    }

    pub(super) fn flow_sequence_mapping_key(&mut self) -> Parsed<'a> {
        let (kind, start) = self.peek()?;
        if matches!(
            kind,
            TokenKind::Value | TokenKind::FlowEntry | TokenKind::FlowSequenceEnd
        ) {
            self.skip();
            self.state = State::FlowSequenceEntryMappingValue;
            return self.empty_scalar(start.after_indicator());
        }
        self.states.push(State::FlowSequenceEntryMappingValue);
        self.rare_node(false, false)
    }

    pub(super) fn flow_sequence_mapping_value(&mut self) -> Parsed<'a> {
        let (kind, start) = self.peek()?;
        if kind == TokenKind::Value {
            self.skip();
            let (kind, _) = self.peek()?;
            if !matches!(kind, TokenKind::FlowEntry | TokenKind::FlowSequenceEnd) {
                self.states.push(State::FlowSequenceEntryMappingEnd);
                return self.rare_node(false, false);
            }
        }
        self.state = State::FlowSequenceEntryMappingEnd;
        self.empty_scalar(start)
    }

    pub(super) fn flow_mapping_key(&mut self, first: bool) -> Parsed<'a> {
        if first {
            let (_, start) = self.peek()?;
            self.marks.push(start);
            self.skip();
        }
        let (mut kind, mut start) = self.peek()?;
        if kind != TokenKind::FlowMappingEnd {
            if !first {
                if kind != TokenKind::FlowEntry {
                    let context = self.marks.pop();
                    return Err(self.error(context, "did not find expected ',' or '}'", start));
                }
                self.skip();
                (kind, start) = self.peek()?;
            }
            if kind == TokenKind::Key {
                self.skip();
                let (kind, start) = self.peek()?;
                if matches!(
                    kind,
                    TokenKind::Value | TokenKind::FlowEntry | TokenKind::FlowMappingEnd
                ) {
                    self.state = State::FlowMappingValue;
                    return self.empty_scalar(start);
                }
                self.states.push(State::FlowMappingValue);
                return self.rare_node(false, false);
            }
            if kind != TokenKind::FlowMappingEnd {
                self.states.push(State::FlowMappingEmptyValue);
                return self.rare_node(false, false);
            }
        }
        self.pop_state();
        self.marks.pop();
        let ended = self.with_comments(event(EventKind::MappingEnd, start));
        self.skip();
        Ok(ended)
    }

    pub(super) fn flow_mapping_value(&mut self, empty: bool) -> Parsed<'a> {
        let (mut kind, mut start) = self.peek()?;
        if !empty && kind == TokenKind::Value {
            self.skip();
            (kind, start) = self.peek()?;
            if !matches!(kind, TokenKind::FlowEntry | TokenKind::FlowMappingEnd) {
                self.states.push(State::FlowMappingKey);
                return self.rare_node(false, false);
            }
        }
        self.state = State::FlowMappingKey;
        self.empty_scalar(start)
    }
}
