//! The short way for what almost every document is: maps with string keys, lists and scalars.

use crate::error::{Error, Limit};
use crate::load::Limits;
use crate::node::{Dialect, Node, Position, ScalarKind, Style, Value};
use crate::read::{EventKind, Input, Parser, Timestamp, resolve_plain};
use everflow_json::{Map, Number, Value as Json};

/// A collection that is not complete yet.
enum Open {
    Array(Vec<Json>),
    Object(Map, Option<String>),
}

/// The first document if it has none of what needs care: aliases, tags, merge keys, keys that are
/// not strings, infinities and (if keys must be unique) duplicate keys. None if it has.
pub(crate) fn plain_document(
    input: &Input<'_>,
    dialect: Dialect,
    unique_keys: bool,
    limits: Limits,
) -> Result<Option<Json>, Error> {
    let mut parser = Parser::new(input, dialect);
    parser.next()?;
    if matches!(parser.next()?.kind, EventKind::StreamEnd) {
        return Ok(Some(Json::Null));
    }
    let mut open: Vec<Open> = Vec::with_capacity(16);
    loop {
        let scalar = match parser.bare_scalar()? {
            Some(scalar) => Ok(scalar),
            None => {
                let event = parser.next()?;
                match event.kind {
                    EventKind::Scalar {
                        text,
                        style,
                        properties,
                    } => {
                        if properties.is_some_and(|properties| properties.tag.is_some()) {
                            return Ok(None);
                        }
                        Ok((text, style))
                    }
                    kind => Err((kind, event.start)),
                }
            }
        };
        let (kind, start) = match scalar {
            Ok((text, style)) => {
                let kind = match style {
                    Style::Plain => resolve_plain(dialect, &text),
                    _ => ScalarKind::String,
                };
                let top = open.last_mut();
                if let Some(Open::Object(_, key @ None)) = top {
                    if kind != ScalarKind::String {
                        return Ok(None);
                    }
                    *key = Some(text.into_owned());
                    continue;
                }
                let done = match plain_scalar(kind, &text) {
                    Some(json) => json,
                    None if kind == ScalarKind::String || kind == ScalarKind::Merge => {
                        Json::String(text.into())
                    }
                    None => return Ok(None),
                };
                match top {
                    Some(top) => {
                        if !top.add(done, unique_keys) {
                            return Ok(None);
                        }
                        continue;
                    }
                    None => {
                        // The end of the document may hold an error yet.
                        parser.next()?;
                        return Ok(Some(done));
                    }
                }
            }
            Err(other) => other,
        };
        let done = match kind {
            EventKind::SequenceStart { properties, .. } => {
                if properties.is_some_and(|properties| properties.tag.is_some())
                    || matches!(open.last(), Some(Open::Object(_, None)))
                {
                    return Ok(None);
                }
                check_nesting(open.len(), limits, start.position())?;
                open.push(Open::Array(Vec::new()));
                continue;
            }
            EventKind::MappingStart { properties, .. } => {
                if properties.is_some_and(|properties| properties.tag.is_some())
                    || matches!(open.last(), Some(Open::Object(_, None)))
                {
                    return Ok(None);
                }
                check_nesting(open.len(), limits, start.position())?;
                open.push(Open::Object(Map::new(), None));
                continue;
            }
            EventKind::SequenceEnd | EventKind::MappingEnd => match open.pop() {
                Some(Open::Array(items)) => Json::Array(items),
                Some(Open::Object(object, _)) => Json::Object(object),
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        match open.last_mut() {
            Some(top) => {
                if !top.add(done, unique_keys) {
                    return Ok(None);
                }
            }
            None => {
                parser.next()?;
                return Ok(Some(done));
            }
        }
    }
}

impl Open {
    /// Adds a value; false if it has no key, or one that must not repeat.
    #[inline(always)]
    fn add(&mut self, value: Json, unique_keys: bool) -> bool {
        match self {
            Open::Array(items) => {
                items.push(value);
                true
            }
            Open::Object(object, key) => match key.take() {
                Some(key) => object.insert(key.into(), value).is_none() || !unique_keys,
                None => false,
            },
        }
    }
}

/// The value of a scalar that is no text; none for text and for infinities.
pub(crate) fn plain_scalar(kind: ScalarKind, text: &str) -> Option<Json> {
    Some(match kind {
        ScalarKind::Null => Json::Null,
        ScalarKind::Bool(value) => Json::Bool(value),
        ScalarKind::Int(value) => Json::Number(value.into()),
        ScalarKind::Uint(value) => Json::Number(value.into()),
        ScalarKind::Float(value) => Json::Number(Number::from_f64(value)?),
        ScalarKind::Timestamp => Json::String(Timestamp::parse(text)?.to_string().into()),
        ScalarKind::String | ScalarKind::Binary | ScalarKind::Merge => return None,
    })
}

/// A tree as JSON, under the conditions of [`plain_document`].
pub(crate) fn plain_tree(root: &Node, limits: Limits) -> Option<Json> {
    plain_node(root, limits.nesting)
}

/// The recursion ends at the limit on nesting, if not with the tree.
fn plain_node(node: &Node, levels: usize) -> Option<Json> {
    if node.tag().is_some() {
        return None;
    }
    Some(match &node.value {
        Value::Scalar(scalar) => match plain_scalar(scalar.kind, &scalar.text) {
            Some(json) => json,
            None if matches!(scalar.kind, ScalarKind::String | ScalarKind::Merge) => {
                Json::String(scalar.text.clone())
            }
            None => return None,
        },
        Value::Sequence(items) => {
            let levels = levels.checked_sub(1)?;
            let items = items.iter().map(|item| plain_node(item, levels));
            Json::Array(items.collect::<Option<_>>()?)
        }
        Value::Mapping(mapping) => {
            let levels = levels.checked_sub(1)?;
            let mut object = Map::new();
            for entry in &mapping.entries {
                let key = entry.key.as_str().filter(|_| entry.key.tag().is_none())?;
                let value = plain_node(&entry.value, levels)?;
                if object.insert(key.into(), value).is_some() {
                    return None;
                }
            }
            Json::Object(object)
        }
        Value::Alias(_) => return None,
    })
}

fn check_nesting(depth: usize, limits: Limits, position: Position) -> Result<(), Error> {
    if depth < limits.nesting {
        return Ok(());
    }
    Err(Error::Limit {
        limit: Limit::Nesting(limits.nesting),
        position,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::Decoder;
    use crate::gojson;
    use crate::load::Loader;

    /// The short way and the long way must agree wherever the short way takes a document.
    #[test]
    fn fast_path_agrees_with_the_full_reader() {
        let Some(path) = everflow_corpus::find("yaml/load.jsonl") else {
            return;
        };
        let cases = std::fs::read_to_string(path).unwrap();
        let mut taken = 0;
        for line in cases.lines() {
            let case: Json = everflow_json::from_str(line).unwrap();
            let Some(text) = case["yaml"].as_str() else {
                continue;
            };
            for dialect in [Dialect::Sigs, Dialect::Kyaml] {
                let limits = Limits::DEFAULT;
                let input = Input::new(text.as_bytes());
                let Ok(Some(short)) = plain_document(&input, dialect, true, limits) else {
                    continue;
                };
                taken += 1;
                let root = Loader::new(dialect).load(text.as_bytes()).unwrap();
                let long = Decoder::new(dialect, true, limits).decode(&root).unwrap();
                let long = match dialect {
                    Dialect::Sigs => long.into_sigs_json().unwrap(),
                    Dialect::Kyaml => long.into_go_json().unwrap(),
                };
                assert_eq!(
                    gojson::to_string(&short),
                    gojson::to_string(&long),
                    "{text}"
                );
            }
        }
        assert!(taken > 1500, "{taken}");
    }
}
