//! What registries say when they refuse, in the words that Flux's users know.

use ::http::Method;
use everflow_json::Value;

use crate::Error;
use crate::http::{Response, printable};

const LARGEST: usize = 64 * 1024;

/// An answer that was not hoped for: `GET URL: CODE: message`.
pub(crate) async fn refusal(method: &Method, response: Response) -> Error {
    let (status, url) = (response.status, response.url.to_string());
    let bytes = match *method == Method::HEAD {
        true => Vec::new(),
        false => response.complaint(LARGEST).await,
    };
    let words = match said(&bytes) {
        Some(said) => printable(&said),
        None => {
            let name = status.canonical_reason().unwrap_or_default();
            let mut words = format!("unexpected status code {} {name}", status.as_u16());
            if *method == Method::HEAD {
                words.push_str(" (HEAD responses have no body, use GET for details)");
            } else if !bytes.is_empty() {
                words.push_str(": ");
                words.push_str(&printable(&String::from_utf8_lossy(&bytes)));
            }
            words
        }
    };
    Error::Registry {
        status: status.as_u16(),
        message: format!("{method} {url}: {words}"),
    }
}

fn said(bytes: &[u8]) -> Option<String> {
    let whole: Value = everflow_json::from_slice(bytes).ok()?;
    let errors = whole.get("errors")?.as_array()?;
    let texts: Vec<String> = errors.iter().map(one_error).collect();
    match texts.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        all => Some(format!("multiple errors returned: {}", all.join("; "))),
    }
}

fn one_error(error: &Value) -> String {
    let text = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default();
    let said = format!("{}: {}", text("code"), text("message"));
    match error.get("detail") {
        None | Some(Value::Null) => said,
        Some(detail) => format!("{said}; {}", go_value(detail)),
    }
}

/// A value as Go's `%v` prints it.
fn go_value(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.to_string(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_value).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(fields) => {
            let field = |(name, value)| format!("{name}:{}", go_value(value));
            let fields: Vec<String> = fields.iter().map(field).collect();
            format!("map[{}]", fields.join(" "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_worded_as_in_flux() {
        let one = br#"{"errors":[{"code":"MANIFEST_UNKNOWN","message":"Unknown manifest"}]}"#;
        assert_eq!(said(one).unwrap(), "MANIFEST_UNKNOWN: Unknown manifest");
        let two = br#"{"errors":[{"code":"A","message":"x","detail":{"b":[1,"y"],"a":null}},{"code":"B"}]}"#;
        assert_eq!(
            said(two).unwrap(),
            "multiple errors returned: A: x; map[a:<nil> b:[1 y]]; B: "
        );
        for garbage in [&b"<html>"[..], b"{}", br#"{"errors":[]}"#, b"[]"] {
            assert_eq!(said(garbage), None);
        }
    }
}
