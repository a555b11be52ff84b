//! Reading JSON with the complaints of Go's `encoding/json`.

use everflow_gotemplate::{FuncError, Meter, Numbers, Value};
use everflow_json::Value as Json;
use everflow_yaml::gojson;

use crate::cost;
use crate::support::{MAX_NESTING, fail};

/// Reads a JSON text; numbers become `float64`. The error is Go's.
pub(crate) fn parse(text: &[u8], meter: &Meter<'_>) -> Result<Value, FuncError> {
    let _held = meter.hold(cost::of_json(text))?;
    let json = match gojson::parse(text, gojson::Numbers::Floats) {
        // At the end of the text Go looks at one more space, which some complaints then name.
        Err(gojson::JsonError::UnexpectedEnd) => {
            gojson::parse(&[text, b" "].concat(), gojson::Numbers::Floats)
        }
        other => other,
    }
    .map_err(|error| error.to_string())?;
    if nests_too_deep(&json) {
        return fail("exceeded max depth");
    }
    Value::from_json(&json, Numbers::Float64, meter)
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
    use everflow_gotemplate::Limits;
    use everflow_limits::Budget;

    use super::*;

    #[test]
    fn error_messages_match_go() {
        let budget = Budget::unlimited();
        let meter = Meter::new(&Limits::default(), &budget);
        let complaint_of = |text: &str| match parse(text.as_bytes(), &meter) {
            Ok(_) => None,
            Err(error) => Some(error.to_string()),
        };
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
            assert_eq!(complaint_of(text).as_deref(), Some(complaint), "{text}");
        }
        let deep = "[".repeat(1000) + &"]".repeat(1000);
        assert_eq!(complaint_of(&deep).as_deref(), Some("exceeded max depth"));
    }
}
