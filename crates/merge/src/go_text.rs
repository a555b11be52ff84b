//! Values as Go's `fmt` prints them.
//!
//! The texts of the API server's errors hold values printed with `%v`, `%#v`, `%q` and `%T`; a
//! client compares or shows these texts, so they are part of the wire.

use std::fmt::Write as _;

pub(crate) use everflow_gotext::quoted as quote;

use everflow_json::{Number, Value};

/// A number as `%v` prints a Go `float64`: shortest digits, in exponent form below 1e-4 and from
/// 1e6 on.
pub(crate) fn float(value: f64) -> String {
    if value == 0.0 {
        return if value.is_sign_negative() {
            "-0".to_owned()
        } else {
            "0".to_owned()
        };
    }
    if !value.is_finite() {
        return if value.is_nan() {
            "NaN".to_owned()
        } else if value > 0.0 {
            "+Inf".to_owned()
        } else {
            "-Inf".to_owned()
        };
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        return format!("{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

fn number(value: &Number) -> String {
    match value.as_f64() {
        Some(float_value) if value.is_f64() => float(float_value),
        _ => value.to_string(),
    }
}

/// A number that an applied document carries: those are always floats in the real server.
pub(crate) fn number_as_float(value: &Number) -> String {
    value.as_f64().map_or_else(|| value.to_string(), float)
}

/// `%v` of a decoded JSON value: `map[a:1 b:[x y]]`.
pub(crate) fn plain(value: &Value) -> String {
    let mut out = String::new();
    write_plain(value, &mut out);
    out
}

fn write_plain(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::Bool(b) => {
            let _ = write!(out, "{b}");
        }
        Value::Number(n) => out.push_str(&number(n)),
        Value::String(s) => out.push_str(s),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(' ');
                }
                write_plain(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push_str("map[");
            for (index, (key, item)) in map.iter().enumerate() {
                if index > 0 {
                    out.push(' ');
                }
                out.push_str(key);
                out.push(':');
                write_plain(item, out);
            }
            out.push(']');
        }
    }
}

/// `%#v` of a decoded JSON value: `map[string]interface {}{"a":1}`.
pub(crate) fn syntax(value: &Value) -> String {
    let mut out = String::new();
    write_syntax(value, &mut out);
    out
}

fn write_syntax(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("interface {}(nil)"),
        Value::Bool(b) => {
            let _ = write!(out, "{b}");
        }
        Value::Number(n) => out.push_str(&number_as_float(n)),
        Value::String(s) => out.push_str(&quote(s)),
        Value::Array(items) => {
            out.push_str("[]interface {}{");
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                write_syntax(item, out);
            }
            out.push('}');
        }
        Value::Object(map) => {
            out.push_str("map[string]interface {}{");
            for (index, (key, item)) in map.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                out.push_str(&quote(key));
                out.push(':');
                write_syntax(item, out);
            }
            out.push('}');
        }
    }
}

/// `%T` of a decoded JSON value.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// The JSON kind of a value as Go's decoder names it.
pub(crate) fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use everflow_json::json;

    use super::*;

    #[test]
    fn floats_print_as_in_go() {
        let cases = [
            (80.0, "80"),
            (100_000.0, "100000"),
            (1_000_000.0, "1e+06"),
            (1_234_567.0, "1.234567e+06"),
            (1.5, "1.5"),
            (0.00001, "1e-05"),
            (0.0001, "0.0001"),
            (1e21, "1e+21"),
            (-2.5, "-2.5"),
        ];
        for (value, text) in cases {
            assert_eq!(float(value), text);
        }
    }

    #[test]
    fn values_print_as_in_go() {
        let value = json!({"a": 1, "b": null, "c": ["x", 1.5, true]});
        assert_eq!(plain(&value), "map[a:1 b:<nil> c:[x 1.5 true]]");
        assert_eq!(
            syntax(&value),
            r#"map[string]interface {}{"a":1, "b":interface {}(nil), "c":[]interface {}{"x", 1.5, true}}"#
        );
        assert_eq!(
            quote("a\"b\u{1}é\u{2028}\u{200b}😀\u{7f}"),
            r#""a\"b\x01é\u2028\u200b😀\x7f""#
        );
    }
}
