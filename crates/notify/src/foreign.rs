//! JSON from outside, read as Go reads it, but for texts that nest deeper than anything that is meant well: code further on
//! follows trees by recursion.

use everflow_json::Value;
use everflow_yaml::gojson::{Numbers, parse, parse_first};

const DEEPEST: usize = 128;

/// A whole text.
pub(crate) fn read(text: &[u8]) -> Result<Value, String> {
    check_depth(text)?;
    parse(text, Numbers::Floats).map_err(|error| error.to_string())
}

/// The first value of a text.
pub(crate) fn read_first(text: &[u8]) -> Result<Value, String> {
    check_depth(text)?;
    let read = parse_first(text, Numbers::Floats);
    read.map(|(value, _)| value)
        .map_err(|error| error.to_string())
}

fn check_depth(text: &[u8]) -> Result<(), String> {
    let (mut depth, mut in_string, mut is_escaped) = (0_usize, false, false);
    for byte in text {
        match byte {
            _ if std::mem::take(&mut is_escaped) => {}
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => depth += 1,
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEEPEST {
            return Err(format!("it nests deeper than {DEEPEST} levels"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_nest_too_deep_are_refused() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(read(nested(DEEPEST).as_bytes()).is_ok());
        assert!(read(nested(DEEPEST + 1).as_bytes()).is_err());
        let in_text = format!("\"\\\"{}\"", "[".repeat(200));
        assert_eq!(
            read(in_text.as_bytes()).unwrap(),
            Value::from(format!("\"{}", "[".repeat(200)))
        );
        assert_eq!(read_first(b"1 x").unwrap(), everflow_json::json!(1.0));
    }
}
