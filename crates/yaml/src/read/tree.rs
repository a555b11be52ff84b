//! From events to the tree.

use super::input::Input;
use super::parser::{Event, EventKind, Parser, Properties};
use super::resolve::{resolve_scalar, short_tag};
use crate::error::{Error, Limit};
use crate::load::{Document, Limits};
use crate::node::{
    Comments, Dialect, Entry, Extras, Mapping, Node, Position, Scalar, Style, Value,
};
use smol_str::SmolStr;
use std::collections::HashSet;

/// Builds one tree for each document of a stream.
pub(crate) struct TreeBuilder<'a> {
    parser: Parser<'a>,
    dialect: Dialect,
    keep_comments: bool,
    limits: Limits,
    anchors: HashSet<SmolStr>,
    started: bool,
    open: Vec<Open>,
    /// The children of all open collections, keys and values of a map in turn. A collection takes
    /// its own when it ends, and then knows how much room they need.
    complete: Vec<Node>,
}

/// A collection that is not complete yet.
struct Open {
    node: Node,
    /// Where its children begin among the complete nodes.
    start: usize,
}

impl<'a> TreeBuilder<'a> {
    pub(crate) fn new(
        input: &'a Input<'_>,
        dialect: Dialect,
        keep_comments: bool,
        limits: Limits,
    ) -> Self {
        TreeBuilder {
            parser: Parser::new(input, dialect),
            dialect,
            keep_comments,
            limits,
            anchors: HashSet::new(),
            started: false,
            open: Vec::new(),
            complete: Vec::new(),
        }
    }

    /// The next document, and none at the end of the stream.
    pub(crate) fn next_document(&mut self) -> Result<Option<Document>, Error> {
        if !self.started {
            self.parser.next()?;
            self.started = true;
        }
        let start = self.parser.next()?;
        if matches!(start.kind, EventKind::StreamEnd) {
            return Ok(None);
        }
        self.anchors.clear();
        let root = self.root()?;
        let end = self.parser.next()?;
        let mut comments = Comments::default();
        if self.keep_comments {
            comments = start.comments.map(|boxed| *boxed).unwrap_or_default();
            comments.foot = end.comments.map(|boxed| boxed.foot).unwrap_or_default();
        }
        Ok(Some(Document { root, comments }))
    }

    fn root(&mut self) -> Result<Node, Error> {
        self.open.clear();
        self.complete.clear();
        loop {
            let Event {
                kind,
                start,
                mut comments,
            } = self.parser.next()?;
            if !self.keep_comments {
                comments = None;
            }
            let position = start.position();
            let done = match kind {
                EventKind::Scalar {
                    text,
                    style,
                    properties,
                } => {
                    let extras = self.extras(properties, comments);
                    let tag = extras.as_ref().and_then(|extras| extras.tag.as_deref());
                    let kind = resolve_scalar(self.dialect, tag, style, &text);
                    Node {
                        value: Value::Scalar(Scalar {
                            text: SmolStr::new(&text),
                            kind,
                        }),
                        style,
                        position,
                        extras,
                    }
                }
                EventKind::Alias(name) => {
                    if !self.anchors.contains(&*name) {
                        return Err(Error::decode_at(
                            format!("unknown anchor '{name}' referenced"),
                            position,
                        ));
                    }
                    Node {
                        value: Value::Alias(SmolStr::new(&name)),
                        style: Style::Plain,
                        position,
                        extras: self.extras(None, comments),
                    }
                }
                EventKind::SequenceStart { flow, properties } => {
                    let value = Value::Sequence(Vec::new());
                    self.open(value, flow, properties, comments, position)?;
                    continue;
                }
                EventKind::MappingStart { flow, properties } => {
                    let value = Value::Mapping(Mapping::default());
                    self.open(value, flow, properties, comments, position)?;
                    continue;
                }
                EventKind::SequenceEnd | EventKind::MappingEnd => match self.open.pop() {
                    Some(closed) => {
                        let mut node = closed.node;
                        fill(&mut node.value, &mut self.complete, closed.start);
                        close_comments(&mut node, comments);
                        node
                    }
                    None => Node::default(),
                },
                _ => return Ok(Node::default()),
            };
            match self.open.last() {
                Some(parent) => attach(parent, &mut self.complete, done),
                None => return Ok(done),
            }
        }
    }

    fn open(
        &mut self,
        value: Value,
        flow: bool,
        properties: Option<Box<Properties<'_>>>,
        comments: Option<Box<Comments>>,
        position: Position,
    ) -> Result<(), Error> {
        if self.open.len() >= self.limits.nesting {
            return Err(Error::Limit {
                limit: Limit::Nesting(self.limits.nesting),
                position,
            });
        }
        let extras = self.extras(properties, comments);
        self.open.push(Open {
            node: Node {
                value,
                style: if flow { Style::Flow } else { Style::Plain },
                position,
                extras,
            },
            start: self.complete.len(),
        });
        Ok(())
    }

    fn extras(
        &mut self,
        properties: Option<Box<Properties<'_>>>,
        comments: Option<Box<Comments>>,
    ) -> Option<Box<Extras>> {
        if properties.is_none() && comments.is_none() {
            return None;
        }
        let mut extras = Extras::default();
        if let Some(properties) = properties {
            extras.tag = properties.tag.map(|tag| SmolStr::new(short_tag(&tag)));
            extras.anchor = properties.anchor.map(|name| SmolStr::new(&name));
            if let Some(name) = &extras.anchor {
                self.anchors.insert(name.clone());
            }
        }
        if let Some(comments) = comments {
            extras.comments = *comments;
        }
        Some(Box::new(extras))
    }
}

/// Adds a node to the children of a collection.
fn attach(parent: &Open, complete: &mut Vec<Node>, mut node: Node) {
    if matches!(parent.node.value, Value::Mapping(_)) {
        let children = &mut complete[parent.start..];
        let is_key = children.len().is_multiple_of(2);
        let block = parent.node.style != Style::Flow;
        if !is_key {
            if let Some(key) = children.last_mut()
                && foot(key).is_empty()
                && let Some(foot) = take_foot(&mut node)
            {
                comments_mut(key).foot = foot;
            }
        } else if block
            && let [.., key, _] = children
            && let Some(foot) = take_foot(&mut node)
        {
            // A foot comment above a key belongs to the key before it.
            comments_mut(key).foot = foot;
        }
    }
    complete.push(node);
}

/// Moves its children into a collection.
fn fill(value: &mut Value, complete: &mut Vec<Node>, start: usize) {
    let count = complete.len() - start;
    let mut children = complete.drain(start..);
    match value {
        Value::Sequence(items) => {
            items.reserve_exact(count);
            items.extend(children);
        }
        Value::Mapping(mapping) => {
            mapping.entries.reserve_exact(count / 2);
            while let (Some(key), Some(value)) = (children.next(), children.next()) {
                mapping.entries.push(Entry { key, value });
            }
        }
        _ => {}
    }
}

/// The line and foot comments of a collection are those at its end.
fn close_comments(node: &mut Node, comments: Option<Box<Comments>>) {
    let (line, mut foot) = match comments {
        Some(comments) => (comments.line, comments.foot),
        None => Default::default(),
    };
    if node.style != Style::Flow
        && !foot.is_empty()
        && let Value::Mapping(mapping) = &mut node.value
        && let Some(last) = mapping.entries.last_mut()
    {
        comments_mut(&mut last.key).foot = std::mem::take(&mut foot);
    }
    if !line.is_empty() || !foot.is_empty() {
        let target = comments_mut(node);
        target.line = line;
        target.foot = foot;
    } else if let Some(extras) = &mut node.extras {
        extras.comments.line = SmolStr::default();
        extras.comments.foot = SmolStr::default();
    }
}

fn comments_mut(node: &mut Node) -> &mut Comments {
    &mut node.extras.get_or_insert_default().comments
}

fn foot(node: &Node) -> &str {
    node.extras
        .as_ref()
        .map_or("", |extras| extras.comments.foot.as_str())
}

fn take_foot(node: &mut Node) -> Option<SmolStr> {
    let extras = node.extras.as_mut()?;
    let foot = std::mem::take(&mut extras.comments.foot);
    (!foot.is_empty()).then_some(foot)
}
