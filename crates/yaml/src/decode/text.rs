//! Go's text for numbers and strings in messages and keys.

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

/// `strconv.Quote`
pub(crate) fn go_quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0C' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x0B' => out.push_str("\\v"),
            ' '..='~' => out.push(c),
            '\0'..='\x7F' => out.push_str(&format!("\\x{:02x}", c as u32)),
            _ if is_printable(c) => out.push(c),
            c if (c as u32) < 0x1_0000 => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push_str(&format!("\\U{:08x}", c as u32)),
        }
    }
    out.push('"');
    out
}

/// Near enough to Go's `unicode.IsPrint`: letters, marks, numbers, punctuation and symbols, but no
/// separators, controls or private use.
fn is_printable(c: char) -> bool {
    !c.is_control()
        && !c.is_whitespace()
        && !matches!(c,
            '\u{AD}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}'
            | '\u{E000}'..='\u{F8FF}' | '\u{FEFF}' | '\u{FFF0}'..='\u{FFFB}'
            | '\u{E0000}'..='\u{10FFFF}')
}
