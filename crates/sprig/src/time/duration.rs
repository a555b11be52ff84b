/// A span of time in nanoseconds: Go's `time.Duration`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Duration(pub i64);

pub(crate) const SECOND: i64 = 1_000_000_000;
pub(crate) const MINUTE: i64 = 60 * SECOND;
pub(crate) const HOUR: i64 = 60 * MINUTE;

impl Duration {
    /// Reads `1h2m3.5s` and the like; the error is Go's.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let invalid = || format!("time: invalid duration {}", super::quoted(text));
        let (negative, mut rest) = match text.first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        if rest == b"0" {
            return Ok(Self(0));
        }
        if rest.is_empty() {
            return Err(invalid());
        }
        let mut total: u64 = 0;
        while !rest.is_empty() {
            let (whole, digits) = take_digits(&mut rest).ok_or_else(invalid)?;
            let (fraction, scale, fraction_digits) = take_fraction(&mut rest);
            if digits == 0 && fraction_digits == 0 {
                return Err(invalid());
            }
            let unit_len = rest
                .iter()
                .position(|&b| b == b'.' || b.is_ascii_digit())
                .unwrap_or(rest.len());
            if unit_len == 0 {
                return Err(format!(
                    "time: missing unit in duration {}",
                    super::quoted(text)
                ));
            }
            let (unit_name, tail) = rest.split_at(unit_len);
            rest = tail;
            let unit = unit(unit_name).ok_or_else(|| {
                format!(
                    "time: unknown unit {} in duration {}",
                    super::quoted(unit_name),
                    super::quoted(text)
                )
            })?;
            if whole > (1 << 63) / unit {
                return Err(invalid());
            }
            let mut value = whole * unit;
            if fraction > 0 {
                value += (fraction as f64 * (unit as f64 / scale)) as u64;
                if value > 1 << 63 {
                    return Err(invalid());
                }
            }
            total = total
                .checked_add(value)
                .filter(|&sum| sum <= 1 << 63)
                .ok_or_else(invalid)?;
        }
        if negative {
            return Ok(Self((total as i64).wrapping_neg()));
        }
        i64::try_from(total).map(Self).map_err(|_| invalid())
    }

    /// The number of whole and fractional units of that many nanoseconds.
    pub(crate) fn in_units(self, unit: i64) -> f64 {
        let whole = self.0 / unit;
        let rest = self.0 % unit;
        whole as f64 + rest as f64 / unit as f64
    }

    /// Rounds towards zero to a multiple.
    pub(crate) fn truncate(self, multiple: Self) -> Self {
        if multiple.0 <= 0 {
            self
        } else {
            Self(self.0 - self.0 % multiple.0)
        }
    }

    /// Rounds to the nearest multiple, halfway values away from zero.
    pub(crate) fn round(self, multiple: Self) -> Self {
        let (d, m) = (self.0, multiple.0);
        if m <= 0 {
            return self;
        }
        let rest = d % m;
        if d < 0 {
            let rest = -rest;
            if rest.wrapping_add(rest) < m && rest <= i64::MAX - rest {
                return Self(d + rest);
            }
            return Self(d.checked_sub(m - rest).unwrap_or(i64::MIN));
        }
        if rest <= i64::MAX - rest && rest + rest < m {
            return Self(d - rest);
        }
        Self(d.checked_add(m - rest).unwrap_or(i64::MAX))
    }
}

fn unit(name: &[u8]) -> Option<u64> {
    Some(match name {
        b"ns" => 1,
        b"us" | b"\xc2\xb5s" | b"\xce\xbcs" => 1000,
        b"ms" => 1_000_000,
        b"s" => SECOND as u64,
        b"m" => MINUTE as u64,
        b"h" => HOUR as u64,
        _ => return None,
    })
}

/// Takes leading digits; `None` if they do not fit.
fn take_digits(rest: &mut &[u8]) -> Option<(u64, usize)> {
    let mut value: u64 = 0;
    let mut count = 0;
    while let Some(digit) = rest.first().filter(|b| b.is_ascii_digit()) {
        if value > (1 << 63) / 10 {
            return None;
        }
        value = value * 10 + u64::from(digit - b'0');
        if value > 1 << 63 {
            return None;
        }
        *rest = &rest[1..];
        count += 1;
    }
    // The text must go on with a digit or a dot.
    if count == 0 && rest.first() != Some(&b'.') {
        return None;
    }
    Some((value, count))
}

/// Takes `.123`; digits beyond what fits are dropped.
fn take_fraction(rest: &mut &[u8]) -> (u64, f64, usize) {
    if rest.first() != Some(&b'.') {
        return (0, 1.0, 0);
    }
    *rest = &rest[1..];
    let (mut value, mut scale, mut count, mut full) = (0u64, 1.0, 0, false);
    while let Some(digit) = rest.first().filter(|b| b.is_ascii_digit()) {
        *rest = &rest[1..];
        count += 1;
        if full || value > (i64::MAX / 10) as u64 {
            full = true;
            continue;
        }
        let next = value * 10 + u64::from(digit - b'0');
        if next > 1 << 63 {
            full = true;
            continue;
        }
        value = next;
        scale *= 10.0;
    }
    (value, scale, count)
}

impl std::fmt::Display for Duration {
    /// `1h2m3.5s`, `1.5ms`, `0s`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let nanos = self.0.unsigned_abs();
        let sign = if self.0 < 0 { "-" } else { "" };
        if nanos == 0 {
            return f.write_str("0s");
        }
        let (unit, digits) = match nanos {
            0..1000 => ("ns", 0),
            1000..1_000_000 => ("µs", 3),
            1_000_000..1_000_000_000 => ("ms", 6),
            _ => ("", 9),
        };
        if !unit.is_empty() {
            return write!(f, "{sign}{}{unit}", decimal(nanos, digits));
        }
        let seconds = nanos / SECOND as u64;
        let small = decimal(seconds % 60 * SECOND as u64 + nanos % SECOND as u64, 9);
        match (seconds / 3600, seconds / 60 % 60) {
            (0, 0) => write!(f, "{sign}{small}s"),
            (0, minutes) => write!(f, "{sign}{minutes}m{small}s"),
            (hours, minutes) => write!(f, "{sign}{hours}h{minutes}m{small}s"),
        }
    }
}

/// `value` with a decimal point before its last `digits` digits, without trailing zeros.
fn decimal(value: u64, digits: usize) -> String {
    let scale = 10u64.pow(digits as u32);
    let (whole, fraction) = (value / scale, value % scale);
    if fraction == 0 {
        return whole.to_string();
    }
    let fraction = format!("{fraction:0digits$}");
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_and_write() {
        for (text, shown) in [
            ("1h30m", "1h30m0s"),
            ("-1.5s", "-1.5s"),
            ("100us", "100µs"),
            ("1.5ms", "1.5ms"),
            ("0", "0s"),
            (".5h", "30m0s"),
        ] {
            assert_eq!(Duration::parse(text.as_bytes()).unwrap().to_string(), shown);
        }
        assert_eq!(
            Duration::parse(b"42").unwrap_err(),
            "time: missing unit in duration \"42\""
        );
        assert_eq!(
            Duration::parse(b"x").unwrap_err(),
            "time: invalid duration \"x\""
        );
        assert_eq!(
            Duration::parse(b"1d").unwrap_err(),
            "time: unknown unit \"d\" in duration \"1d\""
        );
    }
}
