//! JSON, in the order it is written.

use std::fmt;

use everflow_yaml::gojson::{HtmlEscape, format_f64, indent, write_escaped};
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use crate::tree::{Entry, Item, Tree};

/// Reads the first value of a text.
pub fn read(content: &[u8]) -> Result<Tree, String> {
    let mut reader = everflow_json::Deserializer::from_slice(content);
    let tree = Tree::deserialize(&mut reader)
        .map_err(|error| format!("Could not unmarshal input data: {error}"))?;
    match tree {
        Tree::Map(_) => Ok(tree),
        _ => Err(
            "Could not unmarshal input data: SOPS only supports JSON files with a top-level object"
                .to_owned(),
        ),
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Tree, E> {
        Ok(Tree::Bool(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Tree, E> {
        Ok(Tree::Int(number))
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Tree, E> {
        match i64::try_from(number) {
            Ok(number) => Ok(Tree::Int(number)),
            Err(_) => number
                .to_string()
                .parse()
                .map(Tree::Float)
                .map_err(|_| E::custom("number out of range")),
        }
    }

    fn visit_f64<E>(self, number: f64) -> Result<Tree, E> {
        Ok(Tree::Float(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Tree, E> {
        Ok(Tree::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(Item::Value(item));
        }
        Ok(Tree::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut entries: Vec<Entry> = Vec::new();
        while let Some((key, value)) = map.next_entry::<String, Tree>()? {
            if entries.len() > 1_000_000 {
                return Err(A::Error::custom("too many keys"));
            }
            entries.push(Entry::Pair(key, value));
        }
        Ok(Tree::Map(entries))
    }
}

/// Writes a document as SOPS does: indented by tabs, without comments.
pub fn write(document: &Tree) -> Result<Vec<u8>, String> {
    let mut text = String::new();
    put(document, &mut text)?;
    let mut out = indent(text.as_bytes(), "\t").map_err(|error| error.to_string())?;
    out.push(b'\n');
    Ok(out)
}

fn put(tree: &Tree, out: &mut String) -> Result<(), String> {
    match tree {
        Tree::Null => out.push_str("null"),
        Tree::Bool(flag) => out.push_str(&flag.to_string()),
        Tree::Int(number) => out.push_str(&number.to_string()),
        Tree::Float(number) => out.push_str(&format_f64(*number).map_err(|e| e.to_string())?),
        Tree::Text(text) | Tree::Time(text) => put_text(text, out),
        Tree::Bytes(bytes) => put_text(&String::from_utf8_lossy(bytes), out),
        Tree::List(_) => {
            out.push('[');
            for (index, item) in tree.items().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                put(item, out)?;
            }
            out.push(']');
        }
        Tree::Map(entries) => {
            out.push('{');
            let mut first = true;
            for entry in entries {
                let Entry::Pair(key, value) = entry else {
                    continue;
                };
                if !first {
                    out.push(',');
                }
                first = false;
                put_text(key, out);
                out.push_str(": ");
                put(value, out)?;
            }
            out.push('}');
        }
    }
    Ok(())
}

fn put_text(text: &str, out: &mut String) {
    write_escaped(out, text, HtmlEscape::On);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_numbers_stay() {
        let text = b"{\"b\":1,\"a\":[1.5,true,null,{}],\"c\":\"<x>\"}";
        let written = write(&read(text).unwrap()).unwrap();
        assert_eq!(
            String::from_utf8(written).unwrap(),
            "{\n\t\"b\": 1,\n\t\"a\": [\n\t\t1.5,\n\t\ttrue,\n\t\tnull,\n\t\t{}\n\t],\n\t\"c\": \"\\u003cx\\u003e\"\n}\n"
        );
        assert!(read(b"[]").is_err());
        assert!(read(b"{").is_err());
    }
}
