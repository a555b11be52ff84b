//! Trees with their styles, tags, anchors and comments, as go-yaml v3 prints its nodes.

use super::Indent;
use super::emitter::Emitter;
use super::event::{Event, EventComments, Profile, Properties};
use super::tag::Tag;
use crate::read::{resolve_plain, tag_of};
use crate::{Comments, Dialect, Document, Entry, Node, Scalar, ScalarKind, Style, Value};

static NO_COMMENTS: Comments = Comments {
    head: smol_str::SmolStr::new_static(""),
    line: smol_str::SmolStr::new_static(""),
    foot: smol_str::SmolStr::new_static(""),
};

/// Prints one node as a document without comments of its own.
pub(super) fn dump(root: &Node, indent: Indent) -> String {
    let mut walker = Walker::new();
    walker.document(root, &NO_COMMENTS, indent);
    walker.emitter.out
}

/// Prints documents one after the other, with `---` between them.
pub(super) fn dump_all<'a>(documents: impl IntoIterator<Item = (&'a Document, Indent)>) -> String {
    let mut walker = Walker::new();
    for (document, indent) in documents {
        walker.document(&document.root, &document.comments, indent);
    }
    walker.emitter.out
}

/// Prints documents with go-yaml v3's own settings.
pub(super) fn dump_plain<'a>(documents: impl IntoIterator<Item = &'a Document>) -> String {
    let mut walker = Walker::new();
    for document in documents {
        let profile = Profile::V3_PLAIN;
        walker.with_profile(&document.root, &document.comments, profile);
    }
    walker.emitter.out
}

/// A collection that is being printed. An own stack keeps deep trees off the call stack.
enum Open<'a> {
    Sequence {
        items: std::slice::Iter<'a, Node>,
        end: EventComments<'a>,
    },
    Mapping {
        entries: std::slice::Iter<'a, Entry>,
        /// The value of the key that was printed last.
        value: Option<&'a Node>,
        /// That key's foot comment: it comes before the next key, after the whole value.
        tail: &'a str,
        end: EventComments<'a>,
    },
}

struct Walker<'a> {
    emitter: Emitter<'a>,
    open: Vec<Open<'a>>,
}

impl<'a> Walker<'a> {
    fn new() -> Self {
        Walker {
            emitter: Emitter::new(Profile::v3(true)),
            open: Vec::new(),
        }
    }

    fn document(&mut self, root: &'a Node, comments: &'a Comments, indent: Indent) {
        self.with_profile(root, comments, Profile::v3(indent == Indent::Compact));
    }

    fn with_profile(&mut self, root: &'a Node, comments: &'a Comments, profile: Profile) {
        self.emitter.profile = profile;
        self.emitter.start_document(&comments.head);
        self.node(root);
        self.finish_open();
        self.emitter.end_document(&comments.foot);
    }

    fn finish_open(&mut self) {
        while let Some(innermost) = self.open.last_mut() {
            match innermost {
                Open::Sequence { items, end } => match items.next() {
                    Some(item) => self.node(item),
                    None => {
                        let comments = *end;
                        self.close(Event::SequenceEnd, comments);
                    }
                },
                Open::Mapping {
                    entries,
                    value,
                    tail,
                    end,
                } => {
                    if let Some(value) = value.take() {
                        self.node(value);
                    } else if let Some(entry) = entries.next() {
                        *value = Some(&entry.value);
                        let foot = comments_of(&entry.key).foot.as_str();
                        let before = std::mem::replace(tail, foot);
                        self.key(&entry.key, before);
                    } else {
                        let comments = EventComments { tail, ..*end };
                        self.close(Event::MappingEnd, comments);
                    }
                }
            }
        }
    }

    fn close(&mut self, end: Event<'_>, comments: EventComments<'a>) {
        self.open.pop();
        self.emitter.emit(end, comments);
    }

    /// A key's foot comment is printed later, as the tail of the next event.
    fn key(&mut self, key: &'a Node, tail: &'a str) {
        let comments = EventComments {
            foot: "",
            tail,
            ..own_comments(key)
        };
        self.node_with(key, comments);
    }

    fn node(&mut self, node: &'a Node) {
        self.node_with(node, own_comments(node));
    }

    /// A collection's head comment goes with its start, its line and foot comments with its end.
    fn node_with(&mut self, node: &'a Node, comments: EventComments<'a>) {
        let end = EventComments {
            head: "",
            tail: "",
            ..comments
        };
        match &node.value {
            Value::Scalar(scalar) => self.scalar(node, scalar, comments),
            Value::Alias(name) => {
                let comments = EventComments {
                    head: comments.head,
                    ..end
                };
                self.emitter.emit(Event::Alias(name), comments);
            }
            Value::Sequence(items) => {
                let event = Event::SequenceStart {
                    flow: node.style == Style::Flow,
                    empty: items.is_empty(),
                    properties: properties(node),
                };
                let start = EventComments {
                    head: comments.head,
                    ..EventComments::default()
                };
                self.emitter.emit(event, start);
                self.open.push(Open::Sequence {
                    items: items.iter(),
                    end,
                });
            }
            Value::Mapping(mapping) => {
                let event = Event::MappingStart {
                    flow: node.style == Style::Flow,
                    empty: mapping.entries.is_empty(),
                    properties: properties(node),
                };
                let start = EventComments {
                    head: comments.head,
                    tail: comments.tail,
                    ..EventComments::default()
                };
                self.emitter.emit(event, start);
                self.open.push(Open::Mapping {
                    entries: mapping.entries.iter(),
                    value: None,
                    tail: "",
                    end,
                });
            }
        }
    }

    fn scalar(&mut self, node: &Node, scalar: &Scalar, comments: EventComments<'a>) {
        let mut properties = properties(node);
        let quoted = !matches!(node.style, Style::Plain | Style::Flow);
        let mut force_quotes = false;
        if properties.tag.is_none() && !(scalar.kind == ScalarKind::String && quoted) {
            let meant = tag_of(scalar.kind);
            if meant != tag_of(plain_kind(&scalar.text)) {
                if scalar.kind == ScalarKind::String {
                    force_quotes = true;
                } else {
                    properties.tag = Some(Tag::new(meant));
                }
            }
        }
        let style = if quoted {
            node.style
        } else if scalar.text.contains('\n') {
            Style::Literal
        } else if force_quotes {
            Style::DoubleQuoted
        } else {
            Style::Plain
        };
        let event = Event::Scalar {
            text: &scalar.text,
            style,
            properties,
        };
        self.emitter.emit(event, comments);
    }
}

fn comments_of(node: &Node) -> &Comments {
    node.extras
        .as_ref()
        .map_or(&NO_COMMENTS, |extras| &extras.comments)
}

fn own_comments(node: &Node) -> EventComments<'_> {
    let comments = comments_of(node);
    EventComments {
        head: &comments.head,
        line: &comments.line,
        foot: &comments.foot,
        tail: "",
    }
}

fn properties(node: &Node) -> Properties<'_> {
    let Some(extras) = &node.extras else {
        return Properties::default();
    };
    Properties {
        anchor: extras.anchor.as_deref(),
        // A lone `!` says nothing and is not printed.
        tag: extras
            .tag
            .as_deref()
            .filter(|tag| *tag != "!")
            .map(Tag::new),
    }
}

/// What the plain text reads as; `<<` is only known as a key and else a string, which is why
/// merge keys are printed with their tag.
fn plain_kind(text: &str) -> ScalarKind {
    match resolve_plain(Dialect::Kyaml, text) {
        ScalarKind::Merge => ScalarKind::String,
        kind => kind,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Indent, kyaml};
    use super::*;

    fn text(node: &Node) -> String {
        kyaml(node, Indent::Compact)
    }

    fn mapping(entries: Vec<(&str, Node)>) -> Node {
        let mut node = Node::mapping();
        let map = node.as_mapping_mut().expect("a mapping");
        for (key, value) in entries {
            map.insert(key, value);
        }
        node
    }

    #[test]
    fn strings_that_look_like_something_else_are_quoted() {
        let node = mapping(vec![
            ("a", Node::string("1")),
            ("b", Node::string("yes")),
            ("c", Node::string("")),
            ("d", Node::string("x\ny")),
        ]);
        assert_eq!(text(&node), "a: \"1\"\nb: yes\nc: \"\"\nd: |-\n  x\n  y\n");
    }

    #[test]
    fn lists_follow_the_asked_indent() {
        let node = mapping(vec![("a", Node::sequence(vec![Node::string("b")]))]);
        assert_eq!(text(&node), "a:\n- b\n");
        assert_eq!(kyaml(&node, Indent::Wide), "a:\n  - b\n");
    }

    #[test]
    fn foot_comments_come_after_the_whole_value() {
        let mut node = mapping(vec![
            ("a", mapping(vec![("b", Node::string("c"))])),
            ("d", Node::string("e")),
        ]);
        let entries = &mut node.as_mapping_mut().expect("a mapping").entries;
        entries[0].key.extras.get_or_insert_default().comments.foot = "# foot".into();
        entries[1].key.extras.get_or_insert_default().comments.head = "# head".into();
        assert_eq!(text(&node), "a:\n  b: c\n# foot\n\n# head\nd: e\n");
    }

    #[test]
    fn documents_are_separated() {
        let mut document = Document {
            root: Node::string("a"),
            ..Document::default()
        };
        document.comments.head = "# h".into();
        document.comments.foot = "# f".into();
        let stream = [(&document, Indent::Compact), (&document, Indent::Compact)];
        assert_eq!(
            super::super::kyaml_documents(stream),
            "# h\n\na\n\n# f\n---\n# h\n\na\n\n# f\n"
        );
    }

    #[test]
    fn deep_trees_do_not_overflow() {
        let mut node = Node::string("x");
        for _ in 0..2000 {
            node = Node::sequence(vec![node]);
        }
        assert!(text(&node).starts_with("- - - "));
    }
}
