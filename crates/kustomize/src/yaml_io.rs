//! Between texts, trees and JSON.

use everflow_json::Value as Json;
use everflow_yaml::documents::{KioReader, kustomize_documents};
use everflow_yaml::{Dialect, Error as YamlError, Loader, Node, ScalarKind, emit, kyaml, sigs};

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

/// The objects of a file: one tree for each, lists taken apart.
pub fn read_objects(input: &[u8]) -> Result<Vec<Node>> {
    let read = KioReader::default()
        .keep_comments(false)
        .de_anchor(true)
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
    if !has_list {
        return Ok(objects);
    }
    let documents = kustomize_documents(input).map_err(convert)?;
    Ok(documents
        .into_iter()
        .map(|document| document.root)
        .collect())
}

fn convert(error: YamlError) -> Error {
    match &error {
        YamlError::Malformed(_) | YamlError::Syntax { .. } | YamlError::Encoding { .. } => {
            Error::Malformed(error.to_string())
        }
        YamlError::Limit { .. } => Error::Limit(error.to_string()),
        _ => Error::Resource(error.to_string()),
    }
}

/// A manifest or configuration file as JSON, read by the rules of `sigs.k8s.io/yaml`.
pub fn sigs_json(input: &[u8]) -> Result<Json> {
    sigs::yaml_to_json(input).map_err(convert)
}

/// YAML that stands inside a text.
pub fn parse_inner(text: &str) -> Result<Node> {
    let document = Loader::new(Dialect::Kyaml)
        .keep_comments(true)
        .load_document(text.as_bytes())
        .map_err(convert)?;
    // go-yaml leaves a node without a kind where there is no document, and kyaml cannot walk it.
    document.map(|document| document.root).ok_or_else(|| {
        Error::Field(
            "wrong node kind: expected MappingNode but got : node contents:\nnull\n".to_owned(),
        )
    })
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

/// Configuration as the real tool prints it in messages.
pub fn print_json(json: &Json) -> String {
    emit::sigs(json)
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
