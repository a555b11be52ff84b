//! Floating-point numbers in the two forms Go prints: the JSON one and `strconv`'s shortest one.

use super::error::JsonError;
use everflow_json::Value;
use std::fmt::Write;

/// A number as `encoding/json` writes it: an exponent only below 1e-6 and from 1e21 on.
///
/// NaN and the infinities are errors.
pub fn format_f64(number: f64) -> Result<String, JsonError> {
    if !number.is_finite() {
        return Err(JsonError::UnsupportedValue(format_shortest(number)));
    }
    let mut out = String::new();
    push_json_f64(&mut out, number);
    Ok(out)
}

/// Like [`format_f64`] for Go's `float32`, whose shortest form has fewer digits.
pub fn format_f32(number: f32) -> Result<String, JsonError> {
    if !number.is_finite() {
        let name = format_shortest(f64::from(number));
        return Err(JsonError::UnsupportedValue(name));
    }
    let size = number.abs();
    let mut out = String::new();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        push_exponent_form(&mut out, &format!("{number:e}"), 1);
    } else {
        push_plain(&mut out, number);
    }
    Ok(out)
}

/// A number as Go's `strconv.FormatFloat(number, 'g', -1, 64)` writes it (`1e+06`, `+Inf`, `NaN`).
pub fn format_shortest(number: f64) -> String {
    let mut out = String::new();
    if number.is_nan() {
        out.push_str("NaN");
    } else if number.is_infinite() {
        out.push_str(if number > 0.0 { "+Inf" } else { "-Inf" });
    } else {
        push_shortest_f64(&mut out, number);
    }
    out
}

/// Turns every number into a float, as Go's `json.Unmarshal` does when the target is `any`.
///
/// Helm reads values that way, so integers above 2^53 lose digits there.
pub fn numbers_as_f64(value: &mut Value) {
    let mut pending = vec![value];
    while let Some(value) = pending.pop() {
        match value {
            Value::Number(number) => {
                if let Some(float) = number.as_f64().and_then(everflow_json::Number::from_f64) {
                    *number = float;
                }
            }
            Value::Array(items) => pending.extend(items),
            Value::Object(fields) => pending.extend(fields.values_mut()),
            Value::Null | Value::Bool(_) | Value::String(_) => {}
        }
    }
}

/// Appends a finite number in JSON form.
pub(crate) fn push_json_f64(out: &mut String, number: f64) {
    let size = number.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        push_exponent_form(out, &format!("{number:e}"), 1);
    } else {
        push_plain(out, number);
    }
}

/// Appends a finite number in `strconv`'s shortest form.
pub(crate) fn push_shortest_f64(out: &mut String, number: f64) {
    let text = format!("{number:e}");
    let exponent = text
        .split_once('e')
        .and_then(|(_, exponent)| exponent.parse::<i32>().ok())
        .unwrap_or(0);
    if !(-4..6).contains(&exponent) {
        push_exponent_form(out, &text, 2);
    } else {
        push_plain(out, number);
    }
}

fn push_plain(out: &mut String, number: impl std::fmt::Display) {
    // Writing to a String cannot fail.
    let _ = write!(out, "{number}");
}

/// Rewrites Rust's `1.5e-7` with a sign and at least `digits` exponent digits: `1.5e-07`.
fn push_exponent_form(out: &mut String, text: &str, digits: usize) {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(rest) => ('-', rest),
        None => ('+', exponent),
    };
    out.push_str(mantissa);
    out.push('e');
    out.push(sign);
    for _ in exponent.len()..digits {
        out.push('0');
    }
    out.push_str(exponent);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_form() {
        for (number, text) in [
            (1.0, "1"),
            (-0.0, "-0"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1e-6, "0.000001"),
            (1e-7, "1e-7"),
            (1.5e300, "1.5e+300"),
        ] {
            assert_eq!(format_f64(number).as_deref(), Ok(text));
        }
        assert!(format_f64(f64::NAN).is_err());
    }

    #[test]
    fn shortest_form() {
        for (number, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (100000.0, "100000"),
            (1e6, "1e+06"),
            (1234567.5, "1.2345675e+06"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (f64::INFINITY, "+Inf"),
        ] {
            assert_eq!(format_shortest(number), text);
        }
    }
}
