//! The states inside of lists and maps, in flow and in block style.

use super::emitter::{Context, Emitter, State};
use super::event::Event;

impl Emitter<'_> {
    pub(super) fn flow_sequence_item(&mut self, event: &Event<'_>, first: bool, trail: bool) {
        if first {
            self.open_flow("[");
        }
        if matches!(event, Event::SequenceEnd) {
            self.flow_level -= 1;
            self.pop_indent();
            if self.column == 0 {
                self.write_indent();
            }
            self.close_flow("]");
            return;
        }
        self.before_flow_item(first, trail);
        let trailing = self.has_trailing_comment();
        self.states.push(if trailing {
            State::FlowSequenceTrail
        } else {
            State::FlowSequence
        });
        self.node(event, Context::default());
        self.after_flow_item();
    }

    pub(super) fn flow_mapping_key(&mut self, event: &Event<'_>, first: bool, trail: bool) {
        if first {
            self.open_flow("{");
        }
        if matches!(event, Event::MappingEnd) {
            let comments = self.comments;
            let commented =
                !(comments.head.is_empty() && comments.foot.is_empty() && comments.tail.is_empty());
            if commented && !first && !trail {
                self.write_indicator(",", false, false, false);
            }
            self.head_comment();
            self.flow_level -= 1;
            self.pop_indent();
            self.close_flow("}");
            return;
        }
        self.before_flow_item(first, trail);
        self.key(
            event,
            State::FlowMappingSimpleValue,
            State::FlowMappingValue,
        );
    }

    fn open_flow(&mut self, bracket: &str) {
        self.write_indicator(bracket, true, true, false);
        self.push_indent(true, false);
        self.flow_level += 1;
    }

    fn close_flow(&mut self, bracket: &str) {
        self.write_indicator(bracket, false, false, false);
        self.line_comment();
        self.foot_comment();
        self.pop_state();
    }

    fn before_flow_item(&mut self, first: bool, trail: bool) {
        if !first && !trail {
            self.write_indicator(",", false, false, false);
        }
        self.head_comment();
        if self.column == 0 || self.column > self.profile.width {
            self.write_indent();
        }
    }

    fn after_flow_item(&mut self) {
        if self.has_trailing_comment() {
            self.write_indicator(",", false, false, false);
        }
        self.line_comment();
        self.foot_comment();
    }

    pub(super) fn flow_mapping_value(&mut self, event: &Event<'_>, simple: bool) {
        if simple {
            self.write_indicator(":", false, false, false);
        } else {
            if self.column > self.profile.width {
                self.write_indent();
            }
            self.write_indicator(":", true, false, false);
        }
        let trailing = self.has_trailing_comment();
        self.states.push(if trailing {
            State::FlowMappingTrail
        } else {
            State::FlowMappingKey
        });
        self.node(
            event,
            Context {
                mapping: true,
                simple_key: false,
            },
        );
        self.after_flow_item();
    }

    pub(super) fn block_sequence_item(&mut self, event: &Event<'_>, first: bool) {
        if first {
            let compact = self.profile.compact_lists
                && self.context.mapping
                && (self.column == 0 || !self.indention);
            self.push_indent(false, compact);
        }
        if matches!(event, Event::SequenceEnd) {
            self.pop_indent();
            self.pop_state();
            return;
        }
        self.head_comment();
        self.write_indent();
        self.write_indicator("-", true, false, true);
        self.states.push(State::BlockSequence);
        self.node(event, Context::default());
        self.line_comment();
        self.foot_comment();
    }

    pub(super) fn block_mapping_key(&mut self, event: &Event<'_>, first: bool) {
        if first {
            self.push_indent(false, false);
        }
        self.head_comment();
        if matches!(event, Event::MappingEnd) {
            self.pop_indent();
            self.pop_state();
            return;
        }
        self.write_indent();
        if !self.comments.line.is_empty() {
            self.key_line_comment = std::mem::take(&mut self.comments.line);
        }
        self.key(
            event,
            State::BlockMappingSimpleValue,
            State::BlockMappingValue,
        );
    }

    pub(super) fn block_mapping_value(&mut self, event: &Event<'_>, simple: bool) {
        if simple {
            self.write_indicator(":", false, false, false);
        } else {
            self.write_indent();
            self.write_indicator(":", true, false, true);
        }
        if !self.key_line_comment.is_empty() {
            self.place_key_line_comment(event);
        }
        self.states.push(State::BlockMappingKey);
        self.node(
            event,
            Context {
                mapping: true,
                simple_key: false,
            },
        );
        self.line_comment();
        self.foot_comment();
    }

    /// A comment after a key goes behind the value if that is a scalar, and behind the colon if a
    /// block follows.
    fn place_key_line_comment(&mut self, event: &Event<'_>) {
        match event {
            Event::Scalar { .. } if self.comments.line.is_empty() => {
                self.comments.line = std::mem::take(&mut self.key_line_comment);
            }
            Event::MappingStart { flow: false, .. } | Event::SequenceStart { flow: false, .. } => {
                std::mem::swap(&mut self.comments.line, &mut self.key_line_comment);
                self.line_comment();
                std::mem::swap(&mut self.comments.line, &mut self.key_line_comment);
            }
            _ => {}
        }
    }
}
