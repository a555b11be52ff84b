//! The data of ControllerRevisions is compared by the bytes it was sent with, not by what it says.
//!
//! Objects written as JSON keep the bytes of their body; patches and applies give the data another form. Where that form
//! is not the one our own encoder writes, it is stored beside the data, in a member that no client sees or sets.

use everflow_json::Value;

use crate::Collection;
use crate::field::go_json;

/// The member that holds the bytes. Clients cannot set it: it is in no schema.
const MEMBER: &str = "dataAsSent";

/// Whether a kind compares bytes.
pub fn applies(collection: Collection<'_>) -> bool {
    collection.group == "apps" && collection.plural == "controllerrevisions"
}

/// The bytes of the data in a stored object.
pub fn form(object: &Value) -> String {
    match object.get(MEMBER).and_then(Value::as_str) {
        Some(text) => text.to_owned(),
        None => go_json(object.get("data").unwrap_or(&Value::Null)),
    }
}

/// Keeps the bytes of the data beside it.
pub fn keep(object: &mut Value, sent: Option<&str>) {
    let own = go_json(object.get("data").unwrap_or(&Value::Null));
    if let (Some(sent), Some(map)) = (sent.filter(|sent| *sent != own), object.as_object_mut()) {
        map.insert(MEMBER.into(), sent.into());
    }
}

/// Takes the bytes out of an object that clients see.
pub fn hide(object: &mut Value) {
    if let Some(map) = object.as_object_mut() {
        map.remove(MEMBER);
    }
}

/// JSON text as Go compacts it: without spaces, with the characters escaped that HTML gives a meaning.
pub fn compact(text: &str) -> String {
    let mut compacted = String::with_capacity(text.len());
    let (mut quoted, mut escaped) = (false, false);
    for c in text.chars() {
        match c {
            ' ' | '\t' | '\r' | '\n' if !quoted => continue,
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                compacted.push_str(&format!("\\u{:04x}", c as u32));
                escaped = false;
                continue;
            }
            '"' if !escaped => quoted = !quoted,
            _ => {}
        }
        escaped = c == '\\' && !escaped;
        compacted.push(c);
    }
    compacted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compacting_keeps_order_and_strings() {
        assert_eq!(
            compact("{ \"b\" : [1,\n 2], \"a\": \"x \\\" : <y>\" }"),
            "{\"b\":[1,2],\"a\":\"x \\\" : \\u003cy\\u003e\"}"
        );
    }

    #[test]
    fn only_unusual_forms_are_kept() {
        let mut object = everflow_json::json!({"data": {"a": 1}});
        keep(&mut object, Some("{\"a\":1}"));
        assert_eq!(object, everflow_json::json!({"data": {"a": 1}}));
        keep(&mut object, Some("{\"a\": 1}"));
        assert_eq!(form(&object), "{\"a\": 1}");
        hide(&mut object);
        assert_eq!(form(&object), "{\"a\":1}");
    }
}
