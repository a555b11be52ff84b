//! Small operations on nodes with the habits of kyaml, which decide what kustomize prints.
//!
//! kyaml keeps text, tag and style of each scalar apart and finds out what it means only when the
//! object is printed and read again. The habits that show in results:
//! - a value that is set over an old one takes over the old one's style, so `5` set over `"3"`
//!   becomes the string `"5"`;
//! - names, kinds and new map keys are written without a tag, so a name that looks like a number
//!   becomes one.

use everflow_yaml::{Entry, Mapping, Node, Position, Scalar, ScalarKind, Style, Value};
use smol_str::SmolStr;

use crate::error::{Error, Result};
use crate::yaml_io;

/// What an entry of a map takes in memory beside long texts.
pub const ENTRY: usize = size_of::<Entry>();

/// A scalar without a tag: it means what its text reads as.
pub fn untagged(text: impl Into<SmolStr>) -> Node {
    let text = text.into();
    let kind = yaml_io::resolve(&text);
    let mut node = Node::new(Value::Scalar(Scalar { text, kind }));
    node.position = UNTAGGED;
    node
}

/// Marks a scalar without a tag: what it means is found out anew when its text changes. Nodes that
/// were made have no position, so there is room for it.
const UNTAGGED: Position = Position {
    line: 0,
    column: u32::MAX,
};

/// True for a scalar without a tag, which kyaml takes for text until it is printed.
pub fn is_text_or_untagged(node: &Node) -> bool {
    is_text(node) || node.position == UNTAGGED && matches!(node.value, Value::Scalar(_))
}

/// An integer scalar.
pub fn integer(number: i64) -> Node {
    Node::new(Value::Scalar(Scalar {
        text: smol_str::format_smolstr!("{number}"),
        kind: ScalarKind::Int(number),
    }))
}

/// A boolean scalar.
pub fn boolean(flag: bool) -> Node {
    Node::new(Value::Scalar(Scalar {
        text: SmolStr::new_static(if flag { "true" } else { "false" }),
        kind: ScalarKind::Bool(flag),
    }))
}

/// The text of a scalar; empty for null and for anything that is not a scalar.
pub fn text(node: &Node) -> &str {
    match &node.value {
        Value::Scalar(scalar) if scalar.kind != ScalarKind::Null => &scalar.text,
        _ => "",
    }
}

/// The text of a scalar, null's own text included; empty for anything that is not a scalar.
pub fn raw_text(node: &Node) -> &str {
    match &node.value {
        Value::Scalar(scalar) => &scalar.text,
        _ => "",
    }
}

/// True for null, `{}` and `[]`.
pub fn is_null_or_empty(node: &Node) -> bool {
    match &node.value {
        Value::Scalar(scalar) => scalar.kind == ScalarKind::Null,
        Value::Mapping(mapping) => mapping.is_empty(),
        Value::Sequence(items) => items.is_empty(),
        Value::Alias(_) => false,
    }
}

/// True for null and `{}`.
pub fn is_null_or_empty_map(node: &Node) -> bool {
    node.is_null() || node.as_mapping().is_some_and(Mapping::is_empty)
}

/// True for a scalar that is text.
pub fn is_text(node: &Node) -> bool {
    matches!(&node.value, Value::Scalar(scalar) if scalar.kind == ScalarKind::String)
}

/// What go-yaml calls the shape of a node.
pub fn kind_name(node: &Node) -> &'static str {
    match &node.value {
        Value::Scalar(_) => "ScalarNode",
        Value::Sequence(_) => "SequenceNode",
        Value::Mapping(_) => "MappingNode",
        Value::Alias(_) => "AliasNode",
    }
}

/// The error for a node of the wrong shape.
pub fn wrong_kind(expected: &str, node: &Node) -> Error {
    Error::Field(format!(
        "wrong node kind: expected {expected} but got {}: node contents:\n{}",
        kind_name(node),
        yaml_io::quote_node(node)
    ))
}

/// Makes a scalar's meaning fit its style: whatever is quoted reads as text.
pub fn settle(node: &mut Node) {
    let tagged = node.tag().is_some();
    if let Value::Scalar(scalar) = &mut node.value
        && !tagged
        && !matches!(node.style, Style::Plain | Style::Flow)
        && scalar.kind != ScalarKind::String
    {
        scalar.kind = ScalarKind::String;
    }
}

/// Puts a value in the place of a node, which keeps its style.
pub fn overwrite(node: &mut Node, mut value: Node) {
    value.style = node.style;
    let mark = share_mark(node);
    set_share_mark(&mut value, mark);
    settle(&mut value);
    *node = value;
}

/// Puts a text without a tag in the place of a scalar (or null).
pub fn overwrite_untagged(node: &mut Node, text: impl Into<SmolStr>) -> Result<()> {
    require_scalar(node)?;
    overwrite(node, untagged(text));
    Ok(())
}

/// Puts a string in the place of a scalar (or null).
pub fn overwrite_string(node: &mut Node, text: impl Into<SmolStr>) -> Result<()> {
    require_scalar(node)?;
    overwrite(node, Node::string(text));
    Ok(())
}

/// An error unless the node is a scalar.
pub fn require_scalar(node: &Node) -> Result<()> {
    match &node.value {
        Value::Scalar(_) => Ok(()),
        _ => Err(wrong_kind("ScalarNode", node)),
    }
}

/// Adds a field at the end of a map. The key is written plainly.
pub fn append_field(mapping: &mut Mapping, name: &str, value: Node) {
    append_field_styled(mapping, name, Style::Plain, value);
}

/// Adds a field at the end of a map, its key written in a style.
pub fn append_field_styled(mapping: &mut Mapping, name: &str, style: Style, value: Node) {
    let mut key = untagged(name);
    key.style = style;
    settle(&mut key);
    // Most maps that are made stay small: room for one entry, not for four.
    if mapping.is_empty() {
        mapping.entries.reserve_exact(1);
    }
    mapping.entries.push(Entry { key, value });
}

/// Sets a field: over the old value, which lends its style, or at the end.
pub fn set_field(mapping: &mut Mapping, name: &str, value: Node) {
    set_field_styled(mapping, name, Style::Plain, value);
}

/// [`set_field`] with a style for the key if it has to be added.
pub fn set_field_styled(mapping: &mut Mapping, name: &str, style: Style, value: Node) {
    match mapping.get_mut(name) {
        Some(field) => overwrite(field, value),
        None => append_field_styled(mapping, name, style, value),
    }
}

/// Sets a field of a node that has to be a map. What is set on null is lost.
pub fn set_entry(node: &mut Node, name: &str, value: Node) -> Result<()> {
    if let Some(mapping) = node.as_mapping_mut() {
        set_field(mapping, name, value);
        return Ok(());
    }
    if node.is_null() {
        return Ok(());
    }
    Err(wrong_kind("MappingNode", node))
}

/// The map under a key, made when it is missing.
pub fn mapping_at<'a>(mapping: &'a mut Mapping, name: &str) -> Option<&'a mut Mapping> {
    if mapping.get(name).is_none() {
        append_field(mapping, name, Node::mapping());
    }
    let field = mapping.get_mut(name)?;
    if field.is_null() {
        field.value = Value::Mapping(Mapping::default());
    }
    field.as_mapping_mut()
}

/// The mark of a scalar that stands in several places of an object at once.
///
/// kustomize puts one and the same node into all label fields of an object; a later change in one
/// place shows in all of them. Loaded nodes have no anchors any more, so the mark lives there.
pub fn share_mark(node: &Node) -> Option<SmolStr> {
    node.extras.as_ref()?.anchor.clone()
}

/// Sets or clears the mark.
pub fn set_share_mark(node: &mut Node, mark: Option<SmolStr>) {
    match (mark, &mut node.extras) {
        (None, None) => {}
        (mark, Some(extras)) => extras.anchor = mark,
        (mark @ Some(_), extras @ None) => {
            extras.get_or_insert_default().anchor = mark;
        }
    }
}

/// Clears the marks of a whole tree, for copies that go into another object.
pub fn clear_share_marks(node: &mut Node) {
    set_share_mark(node, None);
    match &mut node.value {
        Value::Mapping(mapping) => mapping
            .entries
            .iter_mut()
            .for_each(|entry| clear_share_marks(&mut entry.value)),
        Value::Sequence(items) => items.iter_mut().for_each(clear_share_marks),
        _ => {}
    }
}

/// Changes the text of a scalar and leaves its tag: text put into a number has to be one.
pub fn retext(node: &mut Node, text: &str) {
    if node.position == UNTAGGED {
        overwrite(node, untagged(text));
        return;
    }
    let Value::Scalar(scalar) = &mut node.value else {
        return;
    };
    let old = scalar.kind;
    let read = yaml_io::resolve(text);
    scalar.text = text.into();
    let (kind, misfit) = match (old, read) {
        (ScalarKind::String | ScalarKind::Binary | ScalarKind::Merge, _) => (old, None),
        (ScalarKind::Null, ScalarKind::Null)
        | (ScalarKind::Bool(_), ScalarKind::Bool(_))
        | (ScalarKind::Float(_), ScalarKind::Float(_))
        | (ScalarKind::Timestamp, ScalarKind::Timestamp)
        | (ScalarKind::Int(_) | ScalarKind::Uint(_), ScalarKind::Int(_) | ScalarKind::Uint(_)) => {
            (read, None)
        }
        (ScalarKind::Float(_), ScalarKind::Int(number)) => (ScalarKind::Float(number as f64), None),
        (ScalarKind::Null, _) => (ScalarKind::String, Some("!!null")),
        (ScalarKind::Bool(_), _) => (ScalarKind::String, Some("!!bool")),
        (ScalarKind::Int(_) | ScalarKind::Uint(_), _) => (ScalarKind::String, Some("!!int")),
        (ScalarKind::Float(_), _) => (ScalarKind::String, Some("!!float")),
        (ScalarKind::Timestamp, _) => (ScalarKind::String, Some("!!timestamp")),
    };
    scalar.kind = kind;
    if let Some(tag) = misfit {
        node.extras.get_or_insert_default().tag = Some(SmolStr::new_static(tag));
    }
}

/// Sets a field to a text without a tag. A new field is quoted when its text would read as something
/// else; an old one keeps its style.
pub fn set_untagged(mapping: &mut Mapping, name: &str, text: &str) {
    let mut value = untagged(text);
    match mapping.get_mut(name) {
        Some(field) => overwrite(field, value),
        None => {
            if !is_text(&value) {
                value.style = Style::DoubleQuoted;
                settle(&mut value);
            }
            append_field(mapping, name, value);
        }
    }
}
