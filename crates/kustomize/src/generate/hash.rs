//! The hash in the names of generated objects.

use everflow_json::{Map, Value as Json, json};
use everflow_yaml::{Node, Value, gojson};
use sha2::{Digest, Sha256};

use crate::error::Result;
use crate::node_ops::raw_text;
use crate::resource::Resource;
use crate::yaml_io;

/// The hash of an object's content, ten characters that make no words.
pub fn of(resource: &Resource) -> Result<String> {
    let node = &resource.node;
    // The real hasher looks for a field called "metadata/name" and finds none.
    let name = Json::from("");
    let mut content = Map::new();
    match resource.gvk().kind.as_str() {
        "ConfigMap" => {
            content.insert("kind".into(), json!("ConfigMap"));
            content.insert("name".into(), name);
            content.insert("data".into(), value_of(node, "data")?);
            add_map(&mut content, node, "binaryData")?;
        }
        "Secret" => {
            content.insert("kind".into(), json!("Secret"));
            content.insert("type".into(), value_of(node, "type")?);
            content.insert("name".into(), name);
            content.insert("data".into(), value_of(node, "data")?);
            add_map(&mut content, node, "stringData")?;
        }
        _ => return Ok(encode(&gojson::to_string(&yaml_io::to_json(node)?))),
    }
    Ok(encode(&gojson::to_string(&Json::Object(content))))
}

fn value_of(node: &Node, field: &str) -> Result<Json> {
    match node.get(field) {
        None => Ok(Json::from("")),
        Some(found) if matches!(found.value, Value::Scalar(_)) => Ok(Json::from(raw_text(found))),
        Some(found) => {
            let json = yaml_io::to_json(found)?;
            Ok(if json.is_object() { json } else { Json::Null })
        }
    }
}

fn add_map(content: &mut Map, node: &Node, field: &str) -> Result<()> {
    if let value @ Json::Object(_) = value_of(node, field)? {
        content.insert(field.into(), value);
    }
    Ok(())
}

/// The first ten hex digits of the SHA-256, with the vowels and the digits like them replaced.
fn encode(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    let hex: String = digest
        .iter()
        .take(5)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    hex.chars()
        .map(|c| match c {
            '0' => 'g',
            '1' => 'h',
            '3' => 'k',
            'a' => 'm',
            'e' => 't',
            other => other,
        })
        .collect()
}
