//! The writing machine both libraries share: it takes a tree as a stream of events and keeps track
//! of columns, indentation and pending comments.
//!
//! go-yaml v2 and v3 are both descendants of libyaml, and what they print follows from the order
//! in which libyaml's states write breaks, indents and indicators. The states here are those, so
//! that odd corners (a comment after a key, an anchor before a list) come out the same.

use super::analysis::{Analysis, analyze};
use super::event::{Event, EventComments, Profile, Properties, fits_as_simple_key};
use crate::Style;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    DocumentContent,
    DocumentEnd,
    FlowSequenceFirst,
    FlowSequenceTrail,
    FlowSequence,
    FlowMappingFirst,
    FlowMappingTrail,
    FlowMappingKey,
    FlowMappingSimpleValue,
    FlowMappingValue,
    BlockSequenceFirst,
    BlockSequence,
    BlockMappingFirst,
    BlockMappingKey,
    BlockMappingSimpleValue,
    BlockMappingValue,
}

/// Where the node being written stands.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Context {
    /// It is a key or a value of a map.
    pub mapping: bool,
    /// It is a key on the line of its colon.
    pub simple_key: bool,
}

/// See the module's documentation.
pub(super) struct Emitter<'a> {
    pub(super) out: String,
    pub(super) profile: Profile,
    pub(super) column: usize,
    /// The indent of the open node; -1 outside of any.
    pub(super) indent: isize,
    /// The last character was white space.
    pub(super) whitespace: bool,
    /// Nothing but white space and `-`, `?`, `:` so far on this line.
    pub(super) indention: bool,
    pub(super) flow_level: usize,
    pub(super) context: Context,
    pub(super) comments: EventComments<'a>,
    /// A comment after a key whose value starts on the next line.
    pub(super) key_line_comment: &'a str,
    /// A foot comment was just written at this indent: an empty line has to follow.
    pub(super) foot_indent: isize,
    state: State,
    pub(super) states: Vec<State>,
    indents: Vec<isize>,
    first_document: bool,
}

impl<'a> Emitter<'a> {
    pub fn new(profile: Profile) -> Self {
        Emitter {
            out: String::with_capacity(256),
            profile,
            column: 0,
            indent: -1,
            whitespace: true,
            indention: true,
            flow_level: 0,
            context: Context::default(),
            comments: EventComments::default(),
            key_line_comment: "",
            foot_indent: -1,
            state: State::DocumentContent,
            states: Vec::with_capacity(16),
            indents: Vec::with_capacity(16),
            first_document: true,
        }
    }

    /// Begins a document; every one but the first gets a `---` line.
    pub fn start_document(&mut self, head_comment: &'a str) {
        if !head_comment.is_empty() {
            self.comments.head = head_comment;
        }
        if !self.first_document {
            self.write_indent();
            self.write_indicator("---", true, false, false);
            self.write_indent();
        }
        self.first_document = false;
        if !self.comments.head.is_empty() {
            self.head_comment();
            self.put_break();
        }
        self.state = State::DocumentContent;
    }

    /// Ends a document with its newline.
    pub fn end_document(&mut self, foot_comment: &'a str) {
        if !foot_comment.is_empty() {
            self.comments.foot = foot_comment;
        }
        self.foot_indent = 0;
        self.foot_comment();
        self.foot_indent = -1;
        self.write_indent();
    }

    /// Takes the next event of the current document.
    pub fn emit(&mut self, event: Event<'_>, comments: EventComments<'a>) {
        self.take_comments(comments);
        match self.state {
            State::DocumentContent => {
                self.states.push(State::DocumentEnd);
                self.head_comment();
                self.node(&event, Context::default());
                self.line_comment();
                self.foot_comment();
            }
            State::FlowSequenceFirst => self.flow_sequence_item(&event, true, false),
            State::FlowSequenceTrail => self.flow_sequence_item(&event, false, true),
            State::FlowSequence => self.flow_sequence_item(&event, false, false),
            State::FlowMappingFirst => self.flow_mapping_key(&event, true, false),
            State::FlowMappingTrail => self.flow_mapping_key(&event, false, true),
            State::FlowMappingKey => self.flow_mapping_key(&event, false, false),
            State::FlowMappingSimpleValue => self.flow_mapping_value(&event, true),
            State::FlowMappingValue => self.flow_mapping_value(&event, false),
            State::BlockSequenceFirst => self.block_sequence_item(&event, true),
            State::BlockSequence => self.block_sequence_item(&event, false),
            State::BlockMappingFirst => self.block_mapping_key(&event, true),
            State::BlockMappingKey => self.block_mapping_key(&event, false),
            State::BlockMappingSimpleValue => self.block_mapping_value(&event, true),
            State::BlockMappingValue => self.block_mapping_value(&event, false),
            // A second root: the walkers never send one.
            State::DocumentEnd => {}
        }
    }

    pub(super) fn push_indent(&mut self, flow: bool, compact_list: bool) {
        self.indents.push(self.indent);
        let step = isize::from(self.profile.step);
        if self.indent < 0 {
            self.indent = if flow { step } else { 0 };
        } else if !compact_list && self.states.last() == Some(&State::BlockSequence) {
            // Inside of a list only `- ` is stepped over.
            self.indent += 2;
        } else if !compact_list {
            self.indent = step * ((self.indent + step) / step);
        }
    }

    pub(super) fn pop_indent(&mut self) {
        self.indent = self.indents.pop().unwrap_or(-1);
    }

    pub(super) fn pop_state(&mut self) {
        self.state = self.states.pop().unwrap_or(State::DocumentEnd);
    }

    /// Writes a key on the line of its colon if it is short enough, after `? ` if not.
    pub(super) fn key(&mut self, event: &Event<'_>, simple_value: State, value: State) {
        let analysis = self.analyze_event(event);
        let simple_key = fits_as_simple_key(event, analysis);
        if !simple_key {
            let in_block = value == State::BlockMappingValue;
            self.write_indicator("?", true, false, in_block);
        }
        self.states
            .push(if simple_key { simple_value } else { value });
        let context = Context {
            mapping: true,
            simple_key,
        };
        self.analyzed_node(event, analysis, context);
    }

    pub(super) fn node(&mut self, event: &Event<'_>, context: Context) {
        let analysis = self.analyze_event(event);
        self.analyzed_node(event, analysis, context);
    }

    fn analyze_event(&self, event: &Event<'_>) -> Option<Analysis> {
        match event {
            Event::Scalar { text, .. } => Some(analyze(text, self.profile.tabs_in_blocks)),
            _ => None,
        }
    }

    fn analyzed_node(&mut self, event: &Event<'_>, analysis: Option<Analysis>, context: Context) {
        self.context = context;
        match (event, analysis) {
            (Event::Alias(name), _) => {
                self.write_indicator("*", true, false, false);
                self.write_name(name);
                self.pop_state();
            }
            (
                Event::Scalar {
                    text,
                    style,
                    properties,
                },
                Some(analysis),
            ) => {
                let style = self.settle_style(*style, text, analysis);
                self.write_properties(properties);
                self.push_indent(true, false);
                self.write_scalar(text, style);
                self.pop_indent();
                self.pop_state();
            }
            (
                Event::SequenceStart {
                    flow,
                    empty,
                    properties,
                },
                _,
            ) => {
                self.write_properties(properties);
                self.state = if self.flow_level > 0 || *flow || *empty {
                    State::FlowSequenceFirst
                } else {
                    State::BlockSequenceFirst
                };
            }
            (
                Event::MappingStart {
                    flow,
                    empty,
                    properties,
                },
                _,
            ) => {
                self.write_properties(properties);
                self.state = if self.flow_level > 0 || *flow || *empty {
                    State::FlowMappingFirst
                } else {
                    State::BlockMappingFirst
                };
            }
            // An end without its start, or a scalar without its analysis: no walker does that.
            (Event::SequenceEnd | Event::MappingEnd | Event::Scalar { .. }, _) => {}
        }
    }

    /// The wanted style, or the next best one the text allows where it stands.
    pub(super) fn settle_style(&self, wanted: Style, text: &str, analysis: Analysis) -> Style {
        let in_flow = self.flow_level > 0;
        let mut style = wanted;
        if self.context.simple_key && analysis.multiline {
            style = Style::DoubleQuoted;
        }
        if matches!(style, Style::Plain | Style::Flow) {
            let allowed = if in_flow {
                analysis.flow_plain
            } else {
                analysis.block_plain
            };
            let empty_needs_quotes = text.is_empty() && (in_flow || self.context.simple_key);
            style = if allowed && !empty_needs_quotes {
                Style::Plain
            } else {
                Style::SingleQuoted
            };
        }
        if style == Style::SingleQuoted && !analysis.single_quoted {
            style = Style::DoubleQuoted;
        }
        let block = matches!(style, Style::Literal | Style::Folded);
        if block && (!analysis.block || in_flow || self.context.simple_key) {
            style = Style::DoubleQuoted;
        }
        style
    }

    fn write_properties(&mut self, properties: &Properties<'_>) {
        if let Some(anchor) = properties.anchor {
            self.write_indicator("&", true, false, false);
            self.write_name(anchor);
        }
        if let Some(tag) = properties.tag {
            self.write_tag(tag);
        }
    }
}
