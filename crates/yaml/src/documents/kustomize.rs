//! kustomize's resource factory.

use super::kio::KioReader;
use super::meta::{is_empty, resource_meta};
use crate::decode::{Decoder, GoKey, GoValue};
use crate::emit;
use crate::error::Error;
use crate::gojson;
use crate::load::{Document, Limits};
use crate::node::{Dialect, Node};
use everflow_limits::Budget;
use std::collections::VecDeque;

/// `RNodesFromBytes`: the resources of a stream, aliases replaced, every list with `items` taken
/// apart, empty documents dropped. Each must have a kind and (lists apart) a name.
pub fn kustomize_documents(input: &[u8]) -> Result<Vec<Document>, Error> {
    kustomize_documents_within(input, Limits::DEFAULT, &Budget::unlimited())
}

/// As [`kustomize_documents`], with other limits. Lists in one another are read over and over: the budget
/// is asked whether to go on.
pub fn kustomize_documents_within(
    input: &[u8],
    limits: Limits,
    budget: &Budget,
) -> Result<Vec<Document>, Error> {
    let mut queue: VecDeque<Document> = good_documents(input, limits)?.into();
    let mut resources = Vec::new();
    while let Some(document) = queue.pop_front() {
        let kind = document
            .root
            .get("kind")
            .and_then(Node::as_text)
            .unwrap_or_default();
        budget.check()?;
        match kind.ends_with("List") {
            true => match list_items(&document.root, kind)? {
                None => resources.push(document),
                Some(items) => {
                    for item in items {
                        budget.check()?;
                        let json = gojson::to_string(&item.into_go_json()?);
                        queue.extend(good_documents(json.as_bytes(), limits)?);
                    }
                }
            },
            false => resources.push(document),
        }
    }
    Ok(resources)
}

fn good_documents(input: &[u8], limits: Limits) -> Result<Vec<Document>, Error> {
    let read = KioReader::default()
        .de_anchor(true)
        .limits(limits)
        .read(input)?;
    let mut good = Vec::with_capacity(read.documents.len());
    for document in read.documents {
        if is_empty(&document.root) {
            continue;
        }
        let meta = resource_meta(&document.root)
            .ok_or_else(|| Error::refused("missing Resource metadata"))?;
        if meta.kind.is_empty() {
            return Err(Error::refused(format!("missing kind in object {meta}")));
        }
        if !meta.kind.ends_with("List") && meta.name.is_empty() {
            return Err(Error::refused(format!(
                "missing metadata.name in object {meta}"
            )));
        }
        good.push(document);
    }
    Ok(good)
}

/// The items of a list; none if it has no such field.
fn list_items(list: &Node, kind: &str) -> Result<Option<Vec<GoValue>>, Error> {
    let decoded = Decoder::new(Dialect::Kyaml, false, Limits::DEFAULT)
        .decode(list)
        .map_err(|error| {
            Error::refused(format!(
                "trouble expanding list of {kind}; received error {error} for the following \
                 resource:\n{}",
                emit::kyaml(list, emit::Indent::Compact)
            ))
        })?;
    let GoValue::Map(mut map) = decoded else {
        return Ok(None);
    };
    match map.entries.remove(&GoKey::Str("items".into())) {
        None => Ok(None),
        Some(GoValue::Null) => Ok(Some(Vec::new())),
        Some(GoValue::Seq(items)) => Ok(Some(items)),
        Some(other) => Err(Error::refused(format!(
            "expected array in {kind}/items, but found {}",
            other.go_type(Dialect::Kyaml)
        ))),
    }
}
