//! Which item of an associative list is which.

use everflow_json::Value;
use smol_str::SmolStr;

use super::types::ListView;
use crate::fieldpath::PathElement;
use crate::go_text;

/// The path element of a list item, by its key fields or its value.
pub(crate) fn item_element(list: &ListView<'_>, item: &Value) -> Result<PathElement, String> {
    match list.associative {
        None => Err("invalid indexing of non-associative list".to_owned()),
        Some([]) => match item {
            Value::Object(_) => {
                Err("associative list without keys has an element that's a map type".to_owned())
            }
            Value::Array(_) => {
                Err("not supported: associative list with lists as elements".to_owned())
            }
            Value::Null => Err(
                "associative list without keys has an element that's an explicit null".to_owned(),
            ),
            scalar => Ok(PathElement::value(scalar.clone())),
        },
        Some(keys) => keyed_element(list, keys, item),
    }
}

fn keyed_element(
    list: &ListView<'_>,
    keys: &[SmolStr],
    item: &Value,
) -> Result<PathElement, String> {
    let fields = match item {
        Value::Object(fields) => fields,
        Value::Null => {
            return Err("associative list with keys may not have a null element".to_owned());
        }
        _ => return Err("associative list with keys may not have non-map elements".to_owned()),
    };
    let mut found = Vec::with_capacity(keys.len());
    let mut item_type = None;
    for key in keys {
        if let Some(value) = fields.get(key.as_str()) {
            found.push((key.clone(), value.clone()));
            continue;
        }
        // An absent key field counts with its default; without one the key is shorter.
        let map = *item_type.get_or_insert_with(|| list.item.atom().map);
        let Some(map) = map else {
            return Err(format!(
                "couldn't find default value for {key}: associative list may not have non-map types"
            ));
        };
        if let Some(default) = map.declared(key).and_then(|field| field.default.as_ref()) {
            found.push((key.clone(), default.clone()));
        }
    }
    if found.is_empty() {
        let names: Vec<String> = keys.iter().map(|key| go_text::quote(key)).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
            names.join(" ")
        ));
    }
    Ok(PathElement::key(found))
}
