//! Go's text for numbers and strings in messages and keys.

pub(crate) use everflow_gotext::quoted as go_quote;

/// `strconv.FormatFloat(value, 'g', -1, 32)`: the shortest text that reads back as the same
/// `float32`.
pub(crate) fn format_float_g32(value: f64) -> String {
    let narrow = value as f32;
    match special(f64::from(narrow)) {
        Some(text) => text.to_owned(),
        None => general(&format!("{narrow:e}"), 6),
    }
}

/// `%v` of a `float64`.
pub(crate) fn format_float(value: f64) -> String {
    match special(value) {
        Some(text) => text.to_owned(),
        None => general(&format!("{value:e}"), 21),
    }
}

fn special(value: f64) -> Option<&'static str> {
    if value.is_nan() {
        Some("NaN")
    } else if value.is_infinite() {
        Some(if value > 0.0 { "+Inf" } else { "-Inf" })
    } else {
        None
    }
}

/// From `1.25e7` to Go's `%g`, which has an exponent below -4 and from `large` on.
fn general(scientific: &str, large: i32) -> String {
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    if exponent < -4 || exponent >= large {
        let sign_of_exponent = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{mantissa}e{sign_of_exponent}{:02}", exponent.abs());
    }
    let digits = mantissa.replace('.', "");
    if exponent < 0 {
        let zeros = "0".repeat((-exponent - 1) as usize);
        return format!("{sign}0.{zeros}{digits}");
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        return format!("{sign}{digits}{}", "0".repeat(whole - digits.len()));
    }
    format!("{sign}{}.{}", &digits[..whole], &digits[whole..])
}
