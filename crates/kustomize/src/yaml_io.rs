//! Between texts, trees and JSON.

use everflow_json::Value as Json;
use everflow_limits::{Budget, Held};
use everflow_yaml::documents::{KioReader, kustomize_documents_within};
use everflow_yaml::{
    Dialect, Error as YamlError, Loader, Node, ScalarKind, cost, emit, kyaml, sigs,
};

use crate::error::{Error, Result};
use crate::node_ops::{is_null_or_empty, raw_text};
use crate::resource::Resource;

/// What a plain scalar means.
pub fn resolve(text: &str) -> ScalarKind {
    let Some(first) = text.bytes().next() else {
        return ScalarKind::Null;
    };
    let may_be_special = match first {
        b'0'..=b'9' | b'+' | b'-' | b'.' | b'~' | b'<' => true,
        b'n' | b'N' | b't' | b'T' | b'f' | b'F' => text.len() <= 5,
        _ => false,
    };
    if !may_be_special || text.contains([' ', '\n', '#']) {
        return ScalarKind::String;
    }
    match kyaml::resolve(text) {
        ScalarKind::Merge => ScalarKind::String,
        kind => kind,
    }
}

/// The longest tree that a message quotes.
const MAX_QUOTED: usize = 64 << 10;

/// The objects of a file: one tree for each, lists taken apart. The trees stay charged.
pub fn read_objects(input: &[u8], budget: &Budget) -> Result<Vec<Node>> {
    let (mut held, limits) = cost::reading(budget, input)?;
    let read = KioReader::default()
        .keep_comments(false)
        .de_anchor(true)
        .limits(limits)
        .read(input)
        .map_err(convert)?;
    let mut objects = Vec::with_capacity(read.documents.len());
    let mut has_list = false;
    for document in read.documents {
        if is_null_or_empty(&document.root) {
            continue;
        }
        Resource::require_metadata(&document.root)?;
        has_list |= document
            .root
            .get("kind")
            .is_some_and(|kind| raw_text(kind).ends_with("List"));
        objects.push(document.root);
    }
    if has_list {
        // Items go through text of their own.
        held.grow(2 * cost::of_reading(input))?;
        let documents = kustomize_documents_within(input, limits, budget).map_err(convert)?;
        objects = documents
            .into_iter()
            .map(|document| document.root)
            .collect();
    }
    held.keep(objects.iter().map(cost::of_tree).sum())?;
    Ok(objects)
}

fn convert(error: YamlError) -> Error {
    match &error {
        YamlError::Malformed(_) | YamlError::Syntax { .. } | YamlError::Encoding { .. } => {
            Error::Malformed(error.to_string())
        }
        YamlError::Limit { .. } => Error::Limit(error.to_string()),
        YamlError::Exceeded(exceeded) => exceeded.clone().into(),
        _ => Error::Resource(error.to_string()),
    }
}

/// A manifest or configuration file as JSON, read by the rules of `sigs.k8s.io/yaml`, and what is
/// charged for it.
pub fn sigs_json<'b>(input: &[u8], budget: &'b Budget) -> Result<(Json, Held<'b>)> {
    let (held, limits) = cost::reading(budget, input)?;
    let json = sigs::to_json(input, false, limits).map_err(convert)?;
    Ok((json, held))
}

/// YAML that stands inside a text, and what is charged for it.
pub fn parse_inner<'b>(text: &str, budget: &'b Budget) -> Result<(Node, Held<'b>)> {
    let (held, limits) = cost::reading(budget, text.as_bytes())?;
    let document = Loader::new(Dialect::Kyaml)
        .keep_comments(true)
        .limits(limits)
        .load_document(text.as_bytes())
        .map_err(convert)?;
    // go-yaml leaves a node without a kind where there is no document, and kyaml cannot walk it.
    let root = document.map(|document| document.root).ok_or_else(|| {
        Error::Field(
            "wrong node kind: expected MappingNode but got : node contents:\nnull\n".to_owned(),
        )
    })?;
    Ok((root, held))
}

/// The plain values of a tree, as kustomize sees them when it prints.
pub fn to_json(node: &Node) -> Result<Json> {
    node.marshal_json()
        .map_err(|error| Error::Resource(error.to_string()))
}

/// A tree as kyaml prints it.
pub fn print_node(node: &Node) -> String {
    emit::kyaml(node, emit::Indent::Compact)
}

/// A tree as kyaml prints it in messages.
pub fn quote_node(node: &Node) -> String {
    match cost::of_printing(node) {
        0..=MAX_QUOTED => print_node(node),
        bytes => format!("({bytes} bytes)\n"),
    }
}

/// Configuration as the real tool prints it in messages.
pub fn quote_json(json: &Json) -> String {
    match cost::of_printing_json(json) {
        0..=MAX_QUOTED => emit::sigs(json),
        bytes => format!("({bytes} bytes)\n"),
    }
}

/// Puts an object at the end of an output.
pub fn append_object(node: &Node, out: &mut String) -> Result<()> {
    emit::append_object(node, out).map_err(|error| Error::Resource(error.to_string()))
}

/// An object as it goes to the output.
pub fn print_object(node: &Node) -> Result<String> {
    let mut out = String::new();
    append_object(node, &mut out)?;
    Ok(out)
}
