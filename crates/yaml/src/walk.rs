//! Large documents piece by piece: a visitor says which collections to go into, and gets
//! everything else as complete values, one after the other. What was visited is forgotten.

use crate::decode::plain_scalar;
use crate::error::{Error, Limit};
use crate::gojson::{self, JsonError};
use crate::load::Limits;
use crate::node::{Dialect, Position, ScalarKind, Style};
use crate::read::{EventKind, Input, Parser, resolve_plain};
use everflow_json::{Map, Value as Json};
use std::collections::HashSet;

/// A map or a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collection {
    /// A map.
    Map,
    /// A list.
    List,
}

/// Sees a document go by. A path is the keys from the top down; the items of a list have the path
/// of the list.
pub trait Visitor {
    /// What the visitor itself may run into.
    type Error;

    /// A collection begins: true to see what is in it piece by piece, false to get it as one value.
    /// `is_item` if it is an item of a list that was gone into.
    fn enter(&mut self, path: &[String], is_item: bool, collection: Collection) -> bool;

    /// A value; `is_item` if it is an item of a list that was gone into.
    fn value(&mut self, path: &[String], is_item: bool, value: Json) -> Result<(), Self::Error>;
}

/// Why a walk ended early.
#[derive(Debug)]
pub enum Stop<E> {
    /// The visitor wanted so.
    Visitor(E),
    /// The YAML is broken.
    Yaml(Error),
    /// The JSON is broken.
    Json(JsonError),
    /// A key stands twice in a map.
    Duplicate {
        /// The key.
        key: String,
        /// Where it stands the second time, or where its map ends.
        position: Position,
    },
    /// Something that can only be read with the whole document at hand: an alias, a tag, a merge
    /// key, a key that is not a string, an infinity.
    NotPlain(Position),
}

/// Walks over the first document of YAML text, as `sigs.k8s.io/yaml` reads it with unique keys.
pub fn walk_yaml<V: Visitor>(
    input: &[u8],
    limits: Limits,
    visitor: &mut V,
) -> Result<(), Stop<V::Error>> {
    limits.check_size(input).map_err(Stop::Yaml)?;
    let input = Input::new(input);
    let mut parser = Parser::new(&input, Dialect::Sigs);
    let mut walk = Walk::new(visitor, true);
    parser.next().map_err(Stop::Yaml)?;
    if matches!(
        parser.next().map_err(Stop::Yaml)?.kind,
        EventKind::StreamEnd
    ) {
        return walk.scalar(Json::Null, Position::default());
    }
    loop {
        let event = parser.next().map_err(Stop::Yaml)?;
        let position = event.start.position();
        let not_plain = Err(Stop::NotPlain(position));
        match event.kind {
            EventKind::Scalar {
                text,
                style,
                properties,
            } => {
                if properties.is_some_and(|properties| properties.tag.is_some()) {
                    return not_plain;
                }
                let kind = match style {
                    Style::Plain => resolve_plain(Dialect::Sigs, &text),
                    _ => ScalarKind::String,
                };
                if walk.wants_key() {
                    if kind != ScalarKind::String {
                        return not_plain;
                    }
                    walk.key(text.into_owned(), position)?;
                } else {
                    let value = match plain_scalar(kind, &text) {
                        Some(value) => value,
                        None if matches!(kind, ScalarKind::String | ScalarKind::Merge) => {
                            Json::String(text.into())
                        }
                        None => return not_plain,
                    };
                    walk.scalar(value, position)?;
                }
            }
            EventKind::SequenceStart { properties, .. } => {
                let tagged = properties.is_some_and(|properties| properties.tag.is_some());
                if tagged || walk.wants_key() {
                    return not_plain;
                }
                walk.check_nesting(limits, position)?;
                walk.start(Collection::List);
            }
            EventKind::MappingStart { properties, .. } => {
                let tagged = properties.is_some_and(|properties| properties.tag.is_some());
                if tagged || walk.wants_key() {
                    return not_plain;
                }
                walk.check_nesting(limits, position)?;
                walk.start(Collection::Map);
            }
            EventKind::SequenceEnd | EventKind::MappingEnd => walk.end(position)?,
            _ => return not_plain,
        }
        if walk.open.is_empty() {
            // The end of the document may hold an error yet.
            parser.next().map_err(Stop::Yaml)?;
            return Ok(());
        }
    }
}

/// Walks over JSON text as Go decodes it; of equal keys each is seen. Only text that is whole and
/// sound is walked over.
pub fn walk_json<V: Visitor>(input: &[u8], visitor: &mut V) -> Result<(), Stop<V::Error>> {
    let mut walk = Walk::new(visitor, false);
    gojson::each_piece(input, &mut |piece| {
        let nowhere = Position::default();
        match piece {
            gojson::Piece::Start(collection) => {
                walk.start(collection);
                Ok(())
            }
            gojson::Piece::End => walk.end(nowhere),
            gojson::Piece::Key(key) => walk.key(key, nowhere),
            gojson::Piece::Value(value) => walk.scalar(value, nowhere),
        }
    })
}

/// Walks over a value that is there as a whole.
pub fn walk_value<V: Visitor>(value: Json, visitor: &mut V) -> Result<(), V::Error> {
    step_into(value, &mut Vec::new(), false, visitor)
}

/// The recursion is as deep as the visitor wants to go.
fn step_into<V: Visitor>(
    value: Json,
    path: &mut Vec<String>,
    is_item: bool,
    visitor: &mut V,
) -> Result<(), V::Error> {
    match value {
        Json::Object(object) if visitor.enter(path, is_item, Collection::Map) => {
            for (key, value) in object {
                path.push(key.to_string());
                step_into(value, path, false, visitor)?;
                path.pop();
            }
            Ok(())
        }
        Json::Array(items) if visitor.enter(path, is_item, Collection::List) => {
            for item in items {
                step_into(item, path, true, visitor)?;
            }
            Ok(())
        }
        value => visitor.value(path, is_item, value),
    }
}

/// A collection that is not complete yet.
enum Open {
    /// Gone into; the keys so far, if they must be unique.
    WalkedMap {
        keys: HashSet<String>,
        in_key: bool,
    },
    WalkedList,
    Array(Vec<Json>),
    Object(Map, Option<String>),
}

struct Walk<'v, V> {
    visitor: &'v mut V,
    unique_keys: bool,
    open: Vec<Open>,
    path: Vec<String>,
}

impl<'v, V: Visitor> Walk<'v, V> {
    fn new(visitor: &'v mut V, unique_keys: bool) -> Self {
        Walk {
            visitor,
            unique_keys,
            open: Vec::new(),
            path: Vec::new(),
        }
    }

    fn wants_key(&self) -> bool {
        matches!(
            self.open.last(),
            Some(Open::WalkedMap { in_key: false, .. } | Open::Object(_, None))
        )
    }

    fn check_nesting(&self, limits: Limits, position: Position) -> Result<(), Stop<V::Error>> {
        if self.open.len() < limits.nesting {
            return Ok(());
        }
        Err(Stop::Yaml(Error::Limit {
            limit: Limit::Nesting(limits.nesting),
            position,
        }))
    }

    fn key(&mut self, text: String, position: Position) -> Result<(), Stop<V::Error>> {
        match self.open.last_mut() {
            Some(Open::WalkedMap { keys, in_key }) => {
                if self.unique_keys && !keys.insert(text.clone()) {
                    return Err(Stop::Duplicate {
                        key: text,
                        position,
                    });
                }
                *in_key = true;
                self.path.push(text);
            }
            Some(Open::Object(object, key)) => {
                if self.unique_keys && object.contains_key(&text) {
                    return Err(Stop::Duplicate {
                        key: text,
                        position,
                    });
                }
                *key = Some(text);
            }
            _ => {}
        }
        Ok(())
    }

    fn start(&mut self, collection: Collection) {
        let inside = matches!(self.open.last(), Some(Open::Array(_) | Open::Object(..)));
        let is_item = matches!(self.open.last(), Some(Open::WalkedList));
        let walked = !inside && self.visitor.enter(&self.path, is_item, collection);
        self.open.push(match (walked, collection) {
            (true, Collection::Map) => Open::WalkedMap {
                keys: HashSet::new(),
                in_key: false,
            },
            (true, Collection::List) => Open::WalkedList,
            (false, Collection::Map) => Open::Object(Map::new(), None),
            (false, Collection::List) => Open::Array(Vec::new()),
        });
    }

    fn end(&mut self, position: Position) -> Result<(), Stop<V::Error>> {
        match self.open.pop() {
            Some(Open::Array(items)) => self.scalar(Json::Array(items), position),
            Some(Open::Object(object, _)) => self.scalar(Json::Object(object), position),
            _ => {
                self.value_ended();
                Ok(())
            }
        }
    }

    /// A complete value, whatever its kind.
    fn scalar(&mut self, value: Json, position: Position) -> Result<(), Stop<V::Error>> {
        match self.open.last_mut() {
            Some(Open::Array(items)) => items.push(value),
            Some(Open::Object(object, key)) => match key.take() {
                Some(key) => {
                    object.insert(key.into(), value);
                }
                None => return Err(Stop::NotPlain(position)),
            },
            top => {
                let is_item = matches!(top, Some(Open::WalkedList));
                self.visitor
                    .value(&self.path, is_item, value)
                    .map_err(Stop::Visitor)?;
                self.value_ended();
            }
        }
        Ok(())
    }

    fn value_ended(&mut self) {
        if let Some(Open::WalkedMap { in_key, .. }) = self.open.last_mut() {
            *in_key = false;
            self.path.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goes into maps named `open` and lists named `each`.
    #[derive(Default)]
    struct Log(Vec<String>);

    impl Visitor for Log {
        type Error = String;

        fn enter(&mut self, path: &[String], is_item: bool, collection: Collection) -> bool {
            if is_item {
                return false;
            }
            let into = match collection {
                Collection::Map => path.last().is_none_or(|key| key == "open"),
                Collection::List => path.last().is_some_and(|key| key == "each"),
            };
            if into {
                self.0.push(format!("{}>", path.join(".")));
            }
            into
        }

        fn value(&mut self, path: &[String], is_item: bool, value: Json) -> Result<(), String> {
            let mark = if is_item { "[]" } else { "" };
            self.0.push(format!("{}{mark}={value}", path.join(".")));
            match value.as_str() {
                Some("stop") => Err("stopped".to_owned()),
                _ => Ok(()),
            }
        }
    }

    const YAML: &str = "a: 1\nopen:\n  each:\n  - {x: [1, {w: z}]}\n  - null\n  b: [1, 2]\n  \
                        open: {}\nc:\n  open: {each: [1]}\n";

    const SEEN: [&str; 8] = [
        ">",
        "a=1",
        "open>",
        "open.each>",
        r#"open.each[]={"x":[1,{"w":"z"}]}"#,
        "open.each[]=null",
        "open.b=[1,2]",
        "open.open>",
    ];

    #[test]
    fn yaml_json_and_values_are_walked_over_alike() {
        let mut log = Log::default();
        walk_yaml(YAML.as_bytes(), Limits::DEFAULT, &mut log).unwrap();
        assert_eq!(log.0[..8], SEEN);
        assert_eq!(log.0[8..], [r#"c={"open":{"each":[1]}}"#]);
        let json = r#"{"a":1,"open":{"each":[{"x":[1,{"w":"z"}]},null],"b":[1,2],"open":{}}}"#;
        let mut log = Log::default();
        walk_json(json.as_bytes(), &mut log).unwrap();
        assert_eq!(log.0, SEEN);
        let mut log = Log::default();
        walk_value(everflow_json::from_str(json).unwrap(), &mut log).unwrap();
        assert_eq!(log.0.len(), SEEN.len());
    }

    #[test]
    fn documents_that_cannot_be_streamed_are_reported() {
        let stop = |text: &str| {
            walk_yaml(text.as_bytes(), Limits::DEFAULT, &mut Log::default()).unwrap_err()
        };
        for text in [
            "a: &x 1\nb: *x\n",
            "a: !!str 1\n",
            "1: a\n",
            "<<: {}\n",
            "? [a]\n: b\n",
        ] {
            assert!(matches!(stop(text), Stop::NotPlain(_)), "{text}");
        }
        for text in ["a: 1\na: 2\n", "x: {a: 1, a: 2}\n"] {
            assert!(matches!(stop(text), Stop::Duplicate { .. }), "{text}");
        }
        assert!(matches!(stop("a: [\n"), Stop::Yaml(_)));
        assert!(matches!(stop("a: stop\nb: [\n"), Stop::Visitor(_)));
        let deep = "[".repeat(2000);
        assert!(matches!(stop(&deep), Stop::Yaml(Error::Limit { .. })));
    }

    #[test]
    fn broken_json_is_found_before_anything_is_seen() {
        let mut log = Log::default();
        let stop = walk_json(br#"{"a":1,"b":}"#, &mut log).unwrap_err();
        assert!(matches!(stop, Stop::Json(_)));
        assert!(log.0.is_empty());
    }
}
