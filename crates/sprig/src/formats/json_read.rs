//! Reading JSON with the complaints of Go's `encoding/json`.

use everflow_gotemplate::Value;
use everflow_json::Value as Json;
use everflow_yaml::gojson;

use crate::support::MAX_NESTING;

/// Reads a JSON text; numbers become `float64`. The error is Go's.
pub fn parse(text: &[u8]) -> Result<Value, String> {
    let json = match gojson::parse(text, gojson::Numbers::Floats) {
        // At the end of the text Go looks at one more space, which some complaints then name.
        Err(gojson::JsonError::UnexpectedEnd) => {
            gojson::parse(&[text, b" "].concat(), gojson::Numbers::Floats)
        }
        other => other,
    }
    .map_err(|error| error.to_string())?;
    if nests_too_deep(&json) {
        return Err("exceeded max depth".to_owned());
    }
    Ok(Value::from_json(
        &json,
        everflow_gotemplate::Numbers::Float64,
    ))
}

/// Whether walking over the tree by recursion would take too much stack.
fn nests_too_deep(json: &Json) -> bool {
    let mut pending = vec![(json, 0)];
    while let Some((json, depth)) = pending.pop() {
        if depth > MAX_NESTING {
            return true;
        }
        match json {
            Json::Array(items) => pending.extend(items.iter().map(|item| (item, depth + 1))),
            Json::Object(fields) => pending.extend(fields.values().map(|item| (item, depth + 1))),
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_are_those_of_go() {
        for (text, complaint) in [
            ("", "unexpected end of JSON input"),
            ("x", "invalid character 'x' looking for beginning of value"),
            ("{\"a\":1}x", "invalid character 'x' after top-level value"),
            (
                "1.",
                "invalid character ' ' after decimal point in numeric literal",
            ),
            ("[1 2]", "invalid character '2' after array element"),
        ] {
            assert_eq!(
                parse(text.as_bytes()).err().as_deref(),
                Some(complaint),
                "{text}"
            );
        }
        let deep = "[".repeat(1000) + &"]".repeat(1000);
        assert_eq!(
            parse(deep.as_bytes()).err().as_deref(),
            Some("exceeded max depth")
        );
    }
}
