//! Between files and trees.

mod dotenv;
mod ini;
mod json;
mod yaml;

use everflow_limits::{Exceeded, Held};

use crate::error::Fault;
use crate::format::Format;
use crate::tree::{Entry, Item, Tree};

const METADATA: &str = "sops";

/// A file: its documents, and the metadata that stood in them.
pub struct Loaded {
    pub documents: Vec<Tree>,
    pub metadata: Tree,
}

/// Reads an encrypted file. What aliases and indexes add is held.
pub fn load(content: &[u8], format: Format, held: &mut Held<'_>) -> Result<Loaded, Fault> {
    match format {
        Format::Binary | Format::Json => Ok(split_metadata(vec![json::read(content)?])?),
        Format::Yaml => Ok(split_metadata(yaml::read(content, held)?)?),
        Format::Dotenv => dotenv::split_metadata(dotenv::read(content)?, held),
        Format::Ini => ini::split_metadata(ini::read(content)?, held),
    }
}

/// What a decrypted file takes when it is written, and what it is written from.
pub fn printed(loaded: &Loaded, format: Format) -> usize {
    match format {
        Format::Ini => loaded.documents.iter().map(ini::printed).sum(),
        _ => loaded.documents.iter().map(Tree::printed).sum(),
    }
}

/// Writes a decrypted file.
pub fn emit(loaded: &Loaded, format: Format) -> Result<Vec<u8>, String> {
    let first = loaded.documents.first();
    let first = first.ok_or("there is nothing to write");
    match format {
        Format::Binary => binary(first?),
        Format::Json => json::write(first?),
        Format::Yaml => yaml::write(&loaded.documents),
        Format::Dotenv => dotenv::write(first?),
        Format::Ini => ini::write(first?),
    }
}

fn binary(document: &Tree) -> Result<Vec<u8>, String> {
    match document.get("data") {
        Some(Tree::Text(text)) => Ok(text.clone().into_bytes()),
        Some(Tree::Bytes(bytes)) => Ok(bytes.clone()),
        Some(_) => Err(
            "error emitting binary store: 'data' key in tree does not have a string value"
                .to_owned(),
        ),
        None => Err("error emitting binary store: no binary data found in tree".to_owned()),
    }
}

/// Takes the metadata out of documents that have it under one key. That of the first counts.
pub fn split_metadata(mut documents: Vec<Tree>) -> Result<Loaded, String> {
    let mut metadata = None;
    for (index, document) in documents.iter_mut().enumerate() {
        let Tree::Map(entries) = document else {
            return Err("a document is no map".to_owned());
        };
        let (own, rest): (Vec<Entry>, Vec<Entry>) = std::mem::take(entries)
            .into_iter()
            .partition(|entry| matches!(entry, Entry::Pair(key, _) if key == METADATA));
        *entries = rest;
        if index > 0 {
            continue;
        }
        let mut own = own.into_iter();
        metadata = match (own.next(), own.next()) {
            (None, _) => None,
            (Some(Entry::Pair(_, tree @ Tree::Map(_))), None) => Some(tree),
            (Some(_), None) => return Err("Found sops entry that is not a mapping".to_owned()),
            (Some(_), Some(_)) => return Err("Found duplicate sops entry".to_owned()),
        };
    }
    Ok(Loaded {
        documents,
        metadata: metadata.ok_or("sops metadata not found")?,
    })
}

/// Metadata that was written as flat keys (`age__list_0__map_enc`), as a tree.
pub fn unflatten(pairs: Vec<(String, Tree)>, held: &mut Held<'_>) -> Result<Tree, Fault> {
    let mut root = Tree::Map(Vec::new());
    for (key, value) in pairs {
        let steps = steps(&key);
        if steps.len() > MAX_STEPS {
            return Err(Fault::Exceeded(Exceeded::Depth {
                what: "sops metadata",
                limit: MAX_STEPS as u64,
            }));
        }
        place(&mut root, &steps, value, held)?
            .ok_or_else(|| format!("Error while unflattening {key:?}: Type mismatch"))?;
    }
    Ok(root)
}

enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

/// The steps of a key, and one too many if there are too many.
fn steps(key: &str) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    let mut rest = key;
    let mut is_index = false;
    loop {
        let next = [("__map_", false), ("__list_", true)]
            .into_iter()
            .filter_map(|(mark, index)| Some((rest.find(mark)?, mark, index)))
            .min_by_key(|(at, ..)| *at);
        let part = next.map_or(rest, |(at, ..)| &rest[..at]);
        steps.push(match is_index {
            true => Step::Index(part.parse().unwrap_or(0)),
            false => Step::Key(part),
        });
        match next {
            None => return steps,
            Some(_) if steps.len() > MAX_STEPS => return steps,
            Some((at, mark, index)) => {
                rest = &rest[at + mark.len()..];
                is_index = index;
            }
        }
    }
}

/// How many entries a list in metadata may have.
const MAX_LIST: usize = 1000;
/// How deep metadata may be; sops writes four levels.
const MAX_STEPS: usize = 32;

/// Puts a value in its place, if there can be one.
fn place(
    tree: &mut Tree,
    steps: &[Step<'_>],
    value: Tree,
    held: &mut Held<'_>,
) -> Result<Option<()>, Exceeded> {
    let Some((step, rest)) = steps.split_first() else {
        *tree = value;
        return Ok(Some(()));
    };
    let slot = match (step, &mut *tree) {
        (Step::Key(key), Tree::Map(entries)) => {
            let known = entries
                .iter()
                .position(|entry| matches!(entry, Entry::Pair(name, _) if name == key));
            let index = known.unwrap_or_else(|| {
                entries.push(Entry::Pair((*key).to_owned(), Tree::Null));
                entries.len() - 1
            });
            match entries.get_mut(index) {
                Some(Entry::Pair(_, slot)) => slot,
                Some(Entry::Comment(_)) | None => return Ok(None),
            }
        }
        (Step::Index(index), Tree::List(items)) if *index < MAX_LIST => {
            let missing = (index + 1).saturating_sub(items.len());
            held.grow(2 * missing * size_of::<Item>())?;
            items.extend((0..missing).map(|_| Item::Value(Tree::Null)));
            match items.get_mut(*index) {
                Some(Item::Value(slot)) => slot,
                Some(Item::Comment(_)) | None => return Ok(None),
            }
        }
        _ => return Ok(None),
    };
    if let (Tree::Null, Some(next)) = (&*slot, rest.first()) {
        *slot = match next {
            Step::Key(_) => Tree::Map(Vec::new()),
            Step::Index(_) => Tree::List(Vec::new()),
        };
    }
    place(slot, rest, value, held)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flat_metadata_becomes_a_tree() {
        let text = |text: &str| Tree::Text(text.to_owned());
        let budget = everflow_limits::Budget::unlimited();
        let mut held = budget.hold(0).unwrap();
        let unflatten = |pairs, held: &mut Held<'_>| unflatten(pairs, held).ok();
        let pairs = vec![
            ("mac".to_owned(), text("m")),
            ("age__list_1__map_enc".to_owned(), text("b")),
            ("age__list_0__map_enc".to_owned(), text("a")),
            ("age__list_0__map_recipient".to_owned(), text("r")),
        ];
        let tree = unflatten(pairs, &mut held).unwrap();
        assert_eq!(
            tree.to_json(),
            everflow_json::json!({"mac": "m", "age": [{"enc": "a", "recipient": "r"}, {"enc": "b"}]})
        );
        let pairs = vec![
            ("a".to_owned(), text("1")),
            ("a__map_b".to_owned(), text("2")),
        ];
        assert!(unflatten(pairs, &mut held).is_none());
    }

    #[test]
    fn writing_takes_no_more_than_was_estimated() {
        let text = |text: &str| Tree::Text(text.to_owned());
        let pair = |key: &str, tree| Entry::Pair(key.to_owned(), tree);
        let mut deep = Tree::List(vec![Item::Value(text("a\nb\nc\n")); 50]);
        for _ in 0..60 {
            deep = Tree::Map(vec![pair("k", deep)]);
        }
        let section = vec![
            pair(&"k".repeat(10_000), text("v")),
            pair("a", text("\u{1}<>")),
        ];
        let flat = [section, vec![pair("b", text("x\ny")); 200]].concat();
        for (document, format) in [
            (deep.clone(), Format::Yaml),
            (deep, Format::Json),
            (Tree::Map(flat.clone()), Format::Json),
            (Tree::Map(flat.clone()), Format::Dotenv),
            (Tree::Map(vec![pair("s", Tree::Map(flat))]), Format::Ini),
        ] {
            let loaded = Loaded {
                documents: vec![document],
                metadata: Tree::Null,
            };
            let written = emit(&loaded, format).unwrap().len();
            let estimate = printed(&loaded, format);
            assert!(written <= estimate, "{format:?}: {written}, {estimate}");
        }
    }
}
