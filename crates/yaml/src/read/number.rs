//! Numbers as Go's `strconv` reads them.

/// `strconv.ParseInt(text, 0, 64)` and, where that overflows, `ParseUint`.
pub(super) enum Integer {
    Signed(i64),
    Unsigned(u64),
}

/// An integer with Go's prefixes for its base.
pub(super) fn parse_integer(text: &str) -> Option<Integer> {
    let (negative, signed, digits) = split_sign(text);
    let (base, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', _, ..] => (16, &digits[2..]),
        [b'0', b'o' | b'O', _, ..] => (8, &digits[2..]),
        [b'0', b'b' | b'B', _, ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    finish(negative, signed, digits, base)
}

/// An integer in a given base, with a sign if need be.
pub(super) fn parse_in_base(text: &str, base: u32) -> Option<Integer> {
    let (negative, signed, digits) = split_sign(text);
    finish(negative, signed, digits, base)
}

fn split_sign(text: &str) -> (bool, bool, &str) {
    match text.as_bytes().first() {
        Some(b'-') => (true, true, &text[1..]),
        Some(b'+') => (false, true, &text[1..]),
        _ => (false, false, text),
    }
}

fn finish(negative: bool, signed: bool, digits: &str, base: u32) -> Option<Integer> {
    // `from_str_radix` would take a second sign.
    if matches!(digits.as_bytes().first(), None | Some(b'+' | b'-')) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, base).ok()?;
    if negative {
        return 0i64.checked_sub_unsigned(magnitude).map(Integer::Signed);
    }
    match i64::try_from(magnitude) {
        Ok(value) => Some(Integer::Signed(value)),
        // Only unsigned text is read again as unsigned.
        Err(_) if signed => None,
        Err(_) => Some(Integer::Unsigned(magnitude)),
    }
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`, if the value is finite.
pub(super) fn parse_float(text: &str) -> Option<f64> {
    let bytes = text.as_bytes();
    let digits = |from: usize| {
        bytes[from..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count()
    };
    let mut at = usize::from(matches!(bytes.first(), Some(b'-' | b'+')));
    let whole = digits(at);
    at += whole;
    if bytes.get(at) == Some(&b'.') {
        let fraction = digits(at + 1);
        if whole == 0 && fraction == 0 {
            return None;
        }
        at += 1 + fraction;
    } else if whole == 0 {
        return None;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        at += 1 + usize::from(matches!(bytes.get(at + 1), Some(b'-' | b'+')));
        let exponent = digits(at.min(bytes.len()));
        if exponent == 0 {
            return None;
        }
        at += exponent;
    }
    if at != bytes.len() {
        return None;
    }
    text.parse().ok().filter(|value: &f64| value.is_finite())
}
