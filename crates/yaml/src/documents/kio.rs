//! kyaml's `kio.ByteReader`.

use super::meta::resource_meta;
use crate::emit::{self, Indent, list_indent_of};
use crate::error::Error;
use crate::load::{Document, Limits, Loader};
use crate::node::{Dialect, Node, Value};
use memchr::{memchr, memmem};
use std::borrow::Cow;

/// What a `ByteReader` read.
#[derive(Clone, Debug, Default)]
pub struct KioDocuments {
    /// The resources. Those taken out of a list have no comments of a document.
    pub documents: Vec<Document>,
    /// How the text of each resource indents its lists, if the reader was asked to find out.
    pub list_indents: Vec<Indent>,
    /// The list they were taken out of.
    pub wrapping: Option<Wrapping>,
}

/// A `List` or `ResourceList` whose items were taken out.
#[derive(Clone, Debug, Default)]
pub struct Wrapping {
    /// Its `apiVersion`.
    pub api_version: String,
    /// Its `kind`.
    pub kind: String,
    /// Its `functionConfig`.
    pub function_config: Option<Node>,
    /// Its `results`.
    pub results: Option<Node>,
}

/// Reads a stream as kyaml does.
#[derive(Clone, Debug)]
pub struct KioReader {
    keep_comments: bool,
    find_list_indents: bool,
    maps_only: bool,
    unwrap: bool,
    de_anchor: bool,
    limits: Limits,
}

impl Default for KioReader {
    fn default() -> Self {
        KioReader {
            keep_comments: true,
            find_list_indents: false,
            maps_only: false,
            unwrap: true,
            de_anchor: false,
            limits: Limits::DEFAULT,
        }
    }
}

/// Reads a stream as `kio.ByteReader` does without annotations: comments kept, the items of a sole
/// list taken out, aliases left alone.
pub fn kio_reader(input: &[u8]) -> Result<KioDocuments, Error> {
    KioReader::default().read(input)
}

impl KioReader {
    /// Whether to keep comments; who never prints the trees saves a third of the time without.
    pub fn keep_comments(mut self, keep: bool) -> Self {
        self.keep_comments = keep;
        self
    }

    /// Whether to find out how each document indents its lists (`PreserveSeqIndent` in Go).
    pub fn find_list_indents(mut self, find: bool) -> Self {
        self.find_list_indents = find;
        self
    }

    /// Whether to refuse documents that are no maps, as a reader does that sets annotations.
    pub fn maps_only(mut self, only: bool) -> Self {
        self.maps_only = only;
        self
    }

    /// Whether to take the items out of a `List` or `ResourceList` that is the only document
    /// (`DisableUnwrapping` in Go).
    pub fn unwrap_lists(mut self, unwrap: bool) -> Self {
        self.unwrap = unwrap;
        self
    }

    /// Whether to replace aliases by what they stand for (`AnchorsAweigh` in Go).
    pub fn de_anchor(mut self, de_anchor: bool) -> Self {
        self.de_anchor = de_anchor;
        self
    }

    /// Replaces the limits.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Reads all documents.
    pub fn read(&self, input: &[u8]) -> Result<KioDocuments, Error> {
        let text = unix_lines(input);
        let texts = split_documents(&text)?;
        let loader = Loader::new(Dialect::Kyaml)
            .keep_comments(self.keep_comments)
            .limits(self.limits);
        let mut read = KioDocuments::default();
        let mut added = 0;
        for text in &texts {
            let document = loader
                .load_document(text)
                .map_err(|error| Error::Malformed(Box::new(error)))?;
            let Some(mut document) = document else {
                continue;
            };
            if is_tagged_null(&document.root) {
                continue;
            }
            if self.maps_only {
                require_mapping(&document)?;
            }
            if self.de_anchor && document.root.needs_de_anchor() {
                document.root = document.root.de_anchor_counted(self.limits, &mut added)?;
            }
            match list_to_unwrap(&document.root) {
                Some((api_version, kind)) if self.unwrap && texts.len() == 1 => {
                    read.unwrap(document.root, api_version, kind);
                }
                _ => {
                    read.documents.push(document);
                    if self.find_list_indents {
                        let text = String::from_utf8_lossy(text);
                        read.list_indents.push(list_indent_of(&text));
                    }
                }
            }
        }
        Ok(read)
    }
}

impl KioDocuments {
    fn unwrap(&mut self, mut list: Node, api_version: String, kind: String) {
        let mut take = |name: &str| list.as_mapping_mut().and_then(|map| map.remove(name));
        let items = take("items").map(|items| items.value);
        self.wrapping = Some(Wrapping {
            api_version,
            kind,
            function_config: take("functionConfig"),
            results: take("results"),
        });
        let roots = match items {
            Some(Value::Sequence(items)) => items,
            // Go takes keys and values alike.
            Some(Value::Mapping(mapping)) => mapping
                .entries
                .into_iter()
                .flat_map(|entry| [entry.key, entry.value])
                .collect(),
            _ => Vec::new(),
        };
        self.documents
            .extend(roots.into_iter().map(|root| Document {
                root,
                ..Document::default()
            }));
    }
}

fn require_mapping(document: &Document) -> Result<(), Error> {
    let kind = match &document.root.value {
        Value::Mapping(_) => return Ok(()),
        Value::Sequence(_) => "SequenceNode",
        Value::Scalar(_) => "ScalarNode",
        Value::Alias(_) => "AliasNode",
    };
    let contents = emit::kyaml(&document.root, Indent::Compact);
    Err(Error::refused(format!(
        "wrong node kind: expected MappingNode but got {kind}: node contents:\n{contents}"
    )))
}

/// The `apiVersion` and `kind` of a list with something to take out.
fn list_to_unwrap(root: &Node) -> Option<(String, String)> {
    let meta = resource_meta(root)?;
    let list = matches!(meta.kind.as_str(), "List" | "ResourceList");
    let filled = root.get("items").is_some() || root.get("functionConfig").is_some();
    (list && filled).then_some((meta.api_version, meta.kind))
}

/// go-yaml v3 gave the node the tag `!!null`.
pub(super) fn is_tagged_null(node: &Node) -> bool {
    match node.tag() {
        Some(tag) if tag != "!" => tag == "!!null",
        _ => node.is_null(),
    }
}

/// The text of each document with the number of lines before it; all of the input where it cannot be
/// cut.
pub fn kio_texts(input: &[u8]) -> Vec<(u32, &[u8])> {
    let texts = split_documents(input).unwrap_or_else(|_| vec![input]);
    let mut counted = (0, 0);
    let place = |text: &[u8]| text.as_ptr() as usize - input.as_ptr() as usize;
    let mut found = Vec::with_capacity(texts.len());
    for text in texts {
        let start = place(text);
        let breaks = memchr::memchr_iter(b'\n', &input[counted.1..start]).count();
        counted = (counted.0 + u32::try_from(breaks).unwrap_or(u32::MAX), start);
        found.push((counted.0, text));
    }
    found
}

fn unix_lines(input: &[u8]) -> Cow<'_, [u8]> {
    if memmem::find(input, b"\r\n").is_none() {
        return Cow::Borrowed(input);
    }
    let mut out = Vec::with_capacity(input.len());
    let mut rest = input;
    while let Some(at) = memmem::find(rest, b"\r\n") {
        out.extend_from_slice(&rest[..at]);
        out.push(b'\n');
        rest = &rest[at + 2..];
    }
    out.extend_from_slice(rest);
    Cow::Owned(out)
}

/// The text of each document, up to and with the line end before the separator. A separator is a
/// whole line between two line ends, so the first line of the input is none, nor is the second of
/// two that follow each other.
fn split_documents(text: &[u8]) -> Result<Vec<&[u8]>, Error> {
    let mut documents = Vec::new();
    let mut rest = text;
    if rest.is_empty() {
        return Ok(documents);
    }
    while let Some(at) = memmem::find(rest, b"\n---") {
        let Some(length) = memchr(b'\n', &rest[at + 4..]) else {
            break;
        };
        let end = at + 4 + length;
        let content = String::from_utf8_lossy(&rest[at + 4..end]);
        let content = content.trim();
        if !content.is_empty() && !content.starts_with('#') {
            let separator = String::from_utf8_lossy(&rest[at..end]);
            return Err(Error::refused(format!(
                "invalid document separator: {}",
                separator.trim()
            )));
        }
        documents.push(&rest[..=at]);
        rest = &rest[end + 1..];
    }
    documents.push(rest);
    Ok(documents)
}
