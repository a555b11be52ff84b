//! The writing machine both libraries share: it takes a tree as a stream of events and keeps track
//! of columns, indentation and pending comments.
//!
//! go-yaml v2 and v3 are both descendants of libyaml, and what they print follows from the order
//! in which libyaml's states write breaks, indents and indicators. The states here are those, so
//! that odd corners (a comment after a key, an anchor before a list) come out the same.

use super::analysis::{Analysis, analyze};
use super::tag::Tag;
use crate::Style;

/// What differs between the printers built on the machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Profile {
    /// Scalars break at the first space past this column.
    pub width: usize,
    /// `|` may hold tabs.
    pub tabs_in_blocks: bool,
    /// `- ` of a list under a key stands in the key's column.
    pub compact_lists: bool,
}

impl Profile {
    /// go-yaml v2: folds at 80 columns.
    pub const V2: Profile = Profile {
        width: 80,
        tabs_in_blocks: false,
        compact_lists: true,
    };

    /// go-yaml v3 as kyaml sets it up: two spaces, never folds.
    pub const fn v3(compact_lists: bool) -> Profile {
        Profile {
            width: usize::MAX,
            tabs_in_blocks: true,
            compact_lists,
        }
    }
}

/// One step of a tree's walk.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event<'e> {
    Alias(&'e str),
    Scalar {
        text: &'e str,
        style: Style,
        properties: Properties<'e>,
    },
    SequenceStart {
        flow: bool,
        empty: bool,
        properties: Properties<'e>,
    },
    SequenceEnd,
    MappingStart {
        flow: bool,
        empty: bool,
        properties: Properties<'e>,
    },
    MappingEnd,
}

/// What stands before a node's content.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Properties<'e> {
    pub anchor: Option<&'e str>,
    pub tag: Option<Tag<'e>>,
}

/// Comments that travel with an event; empty where there is none.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EventComments<'a> {
    pub head: &'a str,
    pub line: &'a str,
    pub foot: &'a str,
    /// The foot comment of the key before, printed once its value is complete.
    pub tail: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
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
    mapping: bool,
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
    key_line_comment: &'a str,
    /// A foot comment was just written at this indent: an empty line has to follow.
    pub(super) foot_indent: isize,
    state: State,
    states: Vec<State>,
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

    fn push_indent(&mut self, flow: bool, compact_list: bool) {
        self.indents.push(self.indent);
        if self.indent < 0 {
            self.indent = if flow { 2 } else { 0 };
        } else if !compact_list {
            self.indent += 2;
        }
    }

    fn pop_indent(&mut self) {
        self.indent = self.indents.pop().unwrap_or(-1);
    }

    fn pop_state(&mut self) {
        self.state = self.states.pop().unwrap_or(State::DocumentEnd);
    }

    fn flow_sequence_item(&mut self, event: &Event<'_>, first: bool, trail: bool) {
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

    fn flow_mapping_key(&mut self, event: &Event<'_>, first: bool, trail: bool) {
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

    fn flow_mapping_value(&mut self, event: &Event<'_>, simple: bool) {
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

    fn block_sequence_item(&mut self, event: &Event<'_>, first: bool) {
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

    fn block_mapping_key(&mut self, event: &Event<'_>, first: bool) {
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

    fn block_mapping_value(&mut self, event: &Event<'_>, simple: bool) {
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

    /// Writes a key on the line of its colon if it is short enough, after `? ` if not.
    fn key(&mut self, event: &Event<'_>, simple_value: State, value: State) {
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

    fn node(&mut self, event: &Event<'_>, context: Context) {
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
    fn settle_style(&self, wanted: Style, text: &str, analysis: Analysis) -> Style {
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

/// libyaml's rule: one line, and at most 128 bytes with anchor and tag.
fn fits_as_simple_key(event: &Event<'_>, analysis: Option<Analysis>) -> bool {
    const LIMIT: usize = 128;
    let length = match event {
        Event::Alias(name) => name.len(),
        Event::Scalar {
            text, properties, ..
        } => {
            if analysis.is_some_and(|analysis| analysis.multiline) {
                return false;
            }
            text.len() + properties.len()
        }
        Event::SequenceStart {
            empty: true,
            properties,
            ..
        }
        | Event::MappingStart {
            empty: true,
            properties,
            ..
        } => properties.len(),
        _ => return false,
    };
    length <= LIMIT
}

impl Properties<'_> {
    fn len(&self) -> usize {
        self.anchor.map_or(0, str::len) + self.tag.map_or(0, |tag| tag.len())
    }
}
