//! Values as Go prints them into error messages.

pub(crate) use everflow_gotext::quoted as quote;
use everflow_json::{Text, Value};

/// A value in a field error: strings quoted, plain numbers, all else as JSON.
pub(crate) fn value(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => integer.to_string(),
            None => float(number.as_f64().unwrap_or_default()),
        },
        Value::Bool(flag) => flag.to_string(),
        other => json(other),
    }
}

/// JSON text as Go writes it: characters that matter in HTML escaped, whole floats without a
/// fraction.
pub(crate) fn json(value: &Value) -> String {
    match value {
        Value::Number(number) if number.is_f64() => json_float(number.as_f64().unwrap_or_default()),
        Value::Array(items) => {
            let parts: Vec<String> = items.iter().map(json).collect();
            format!("[{}]", parts.join(","))
        }
        Value::Object(fields) => {
            let pair =
                |(name, inner): (&Text, &Value)| format!("{}:{}", json_string(name), json(inner));
            let parts: Vec<String> = fields.iter().map(pair).collect();
            format!("{{{}}}", parts.join(","))
        }
        Value::String(text) => json_string(text),
        other => other.to_string(),
    }
}

fn json_string(text: &str) -> String {
    let mut out = String::new();
    for character in Value::from(text).to_string().chars() {
        match character {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            other => out.push(other),
        }
    }
    out
}

fn json_float(number: f64) -> String {
    let size = number.abs();
    if number == 0.0 || (1e-6..1e21).contains(&size) {
        return number.to_string();
    }
    let scientific = format!("{number:e}");
    if size >= 1e21 {
        scientific.replace('e', "e+")
    } else {
        scientific
    }
}

/// A float as `%v` prints it: shortest digits, an exponent below 1e-4 and from 1e6 on.
pub(crate) fn float(number: f64) -> String {
    if number == 0.0 {
        return "0".to_owned();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return number.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use everflow_json::json;

    #[test]
    fn values_print_as_go_prints_them() {
        let cases = [
            (
                json!("a\"b\n\u{1}é\u{a0}\u{301}"),
                "\"a\\\"b\\n\\x01é\\u00a0\u{301}\"",
            ),
            (json!(1.5), "1.5"),
            (json!(1e21), "1e+21"),
            (json!(1e20), "1e+20"),
            (json!(1_234_567.5), "1.2345675e+06"),
            (json!(123_456.0), "123456"),
            (
                json!([1.0, 1e20, 1e21, 1e-7]),
                "[1,100000000000000000000,1e+21,1e-7]",
            ),
            (json!(0.00001), "1e-05"),
            (json!(true), "true"),
            (json!(null), "null"),
            (json!({"a": "<"}), "{\"a\":\"\\u003c\"}"),
        ];
        for (given, expected) in cases {
            assert_eq!(value(&given), expected);
        }
    }
}
