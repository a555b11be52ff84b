//! Reading a stream and writing it back, as kyaml's readers and writers do when they stand back to
//! back.

use super::{Indent, kyaml_documents};
use crate::documents::KioReader;
use crate::{Error, Mapping, Node, Value};

/// `kio.ByteReader` with `PreserveSeqIndent` into `kio.ByteWriter`.
///
/// Comments, styles and the way lists are indented stay; empty `annotations` and `metadata` go, and
/// the items of a sole list stand on their own afterwards.
pub fn kio_rewrite(input: &[u8]) -> Result<String, Error> {
    let mut read = KioReader::default()
        .find_list_indents(true)
        .maps_only(true)
        .read(input)?;
    for document in &mut read.documents {
        if let Some(root) = document.root.as_mapping_mut() {
            clear_empty_annotations(root);
        }
    }
    let indents = read.list_indents.iter().copied();
    let indents = indents.chain(std::iter::repeat(Indent::Compact));
    Ok(kyaml_documents(read.documents.iter().zip(indents)))
}

fn clear_empty_annotations(root: &mut Mapping) {
    if let Some(metadata) = root.get_mut("metadata").and_then(Node::as_mapping_mut)
        && metadata.get("annotations").is_some_and(is_empty)
    {
        metadata.remove("annotations");
    }
    if root.get("metadata").is_some_and(is_empty) {
        root.remove("metadata");
    }
}

fn is_empty(node: &Node) -> bool {
    match &node.value {
        Value::Mapping(mapping) => mapping.is_empty(),
        Value::Sequence(items) => items.is_empty(),
        Value::Scalar(_) | Value::Alias(_) => true,
    }
}
