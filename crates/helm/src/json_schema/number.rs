//! Numbers compared exactly, as decimal fractions, and printed with groups of three digits.

use std::cmp::Ordering;
use std::fmt;

use everflow_json::Number;

/// A decimal number: `digits × 10^exponent`, compared without rounding.
#[derive(Debug, Clone, PartialEq, Hash)]
pub(super) struct Exact {
    negative: bool,
    /// Without zeros at either end; empty means zero.
    digits: Vec<u8>,
    exponent: i32,
}

impl Exact {
    pub(super) fn new(number: &Number) -> Self {
        // The shortest text of a float is what Go compares, too.
        Exact::parse(&number.to_string())
    }

    pub(super) fn parse(text: &str) -> Self {
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, power) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let mut exponent: i32 = power.parse().unwrap_or(0);
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        exponent = exponent.saturating_sub(i32::try_from(fraction.len()).unwrap_or(i32::MAX));
        let mut digits: Vec<u8> = whole
            .bytes()
            .chain(fraction.bytes())
            .filter(u8::is_ascii_digit)
            .map(|digit| digit - b'0')
            .collect();
        while digits.last() == Some(&0) {
            digits.pop();
            exponent = exponent.saturating_add(1);
        }
        let zeros = digits.iter().take_while(|digit| **digit == 0).count();
        digits.drain(..zeros);
        Exact {
            negative: negative && !digits.is_empty(),
            exponent: if digits.is_empty() { 0 } else { exponent },
            digits,
        }
    }

    pub(super) fn is_integer(&self) -> bool {
        self.exponent >= 0
    }

    /// As a count; a bound that is no whole number or far too large is given as far as it fits.
    pub(super) fn as_count(&self) -> i64 {
        let sign = if self.negative { "-" } else { "" };
        format!("{sign}{}e{}", self.digit_text(), self.exponent)
            .parse::<f64>()
            .map_or(0, |value| value as i64)
    }

    fn digit_text(&self) -> String {
        let digit = |digit: &u8| char::from(b'0' + digit);
        match self.digits.is_empty() {
            true => "0".to_owned(),
            false => self.digits.iter().map(digit).collect(),
        }
    }

    /// Whether this is a whole number of times `unit`.
    pub(super) fn is_multiple_of(&self, unit: &Exact) -> bool {
        if unit.digits.is_empty() {
            return false;
        }
        if self.digits.is_empty() {
            return true;
        }
        // value / unit = (a / b) × 10^shift. Scaled so that both are whole, the remainder of the
        // long division tells.
        let shift = i64::from(self.exponent) - i64::from(unit.exponent);
        let (mut dividend, mut divisor) = (self.digits.clone(), unit.digits.clone());
        let zeros = usize::try_from(shift.unsigned_abs().min(2_000)).unwrap_or(2_000);
        match shift >= 0 {
            true => dividend.extend(std::iter::repeat_n(0, zeros)),
            false => divisor.extend(std::iter::repeat_n(0, zeros)),
        }
        remainder_is_zero(&dividend, &divisor)
    }

    fn magnitude_cmp(&self, other: &Exact) -> Ordering {
        match (self.digits.is_empty(), other.digits.is_empty()) {
            (true, true) => return Ordering::Equal,
            (true, false) => return Ordering::Less,
            (false, true) => return Ordering::Greater,
            (false, false) => {}
        }
        let top = |number: &Exact| i64::from(number.exponent) + number.digits.len() as i64;
        top(self)
            .cmp(&top(other))
            .then_with(|| self.digits.cmp(&other.digits))
    }
}

impl PartialOrd for Exact {
    fn partial_cmp(&self, other: &Exact) -> Option<Ordering> {
        Some(match (self.negative, other.negative) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, false) => self.magnitude_cmp(other),
            (true, true) => other.magnitude_cmp(self),
        })
    }
}

impl Exact {
    /// `1.25×10⁰⁷`
    fn fmt_with_power(&self, f: &mut fmt::Formatter<'_>, power: i64) -> fmt::Result {
        let digits = self.digit_text();
        let (first, rest) = digits.split_at(1);
        f.write_str(first)?;
        if !rest.is_empty() {
            write!(f, ".{rest}")?;
        }
        f.write_str("×10")?;
        if power < 0 {
            f.write_str("⁻")?;
        }
        for digit in format!("{:02}", power.unsigned_abs()).bytes() {
            const RAISED: [&str; 10] = ["⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"];
            f.write_str(RAISED[usize::from(digit - b'0')])?;
        }
        Ok(())
    }
}

impl fmt::Display for Exact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.negative {
            f.write_str("-")?;
        }
        let point = i64::from(self.exponent) + self.digits.len() as i64;
        // A million and more, and what is smaller than a ten-thousandth, is written with a power.
        if !self.digits.is_empty() && !(-3..=6).contains(&point) {
            return self.fmt_with_power(f, point - 1);
        }
        let mut whole: Vec<u8> = Vec::new();
        let mut fraction: Vec<u8> = Vec::new();
        for (index, digit) in self.digits.iter().enumerate() {
            match (index as i64) < point {
                true => whole.push(*digit),
                false => fraction.push(*digit),
            }
        }
        whole.extend(std::iter::repeat_n(
            0,
            usize::try_from(self.exponent).unwrap_or(0),
        ));
        if point < 0 {
            let zeros = usize::try_from(-point).unwrap_or(0);
            fraction.splice(0..0, std::iter::repeat_n(0, zeros));
        }
        if whole.is_empty() {
            whole.push(0);
        }
        for (index, digit) in whole.iter().enumerate() {
            if index > 0 && (whole.len() - index).is_multiple_of(3) {
                f.write_str(",")?;
            }
            write!(f, "{digit}")?;
        }
        if !fraction.is_empty() {
            let digits: String = fraction.iter().map(|d| char::from(b'0' + d)).collect();
            write!(f, ".{digits}")?;
        }
        Ok(())
    }
}

/// Long division, digit by digit, for its remainder.
fn remainder_is_zero(dividend: &[u8], divisor: &[u8]) -> bool {
    let mut rest: Vec<u8> = Vec::with_capacity(divisor.len() + 1);
    for digit in dividend {
        if !(rest.is_empty() && *digit == 0) {
            rest.push(*digit);
        }
        while at_least(&rest, divisor) {
            subtract(&mut rest, divisor);
        }
    }
    rest.is_empty()
}

fn at_least(left: &[u8], right: &[u8]) -> bool {
    left.len().cmp(&right.len()).then_with(|| left.cmp(right)) != Ordering::Less
}

fn subtract(left: &mut Vec<u8>, right: &[u8]) {
    let offset = left.len() - right.len();
    let mut borrow = 0;
    for index in (0..left.len()).rev() {
        let taken = borrow + index.checked_sub(offset).map_or(0, |at| right[at]);
        borrow = u8::from(left[index] < taken);
        left[index] = left[index] + borrow * 10 - taken;
    }
    let zeros = left.iter().take_while(|digit| **digit == 0).count();
    left.drain(..zeros);
}

/// A number as Go prints it in a message about a value.
pub(super) fn plain(number: &Number) -> String {
    match number.as_f64() {
        Some(value) if number.is_f64() => everflow_yaml::gojson::format_shortest(value),
        _ => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compares_and_prints() {
        assert!(Exact::parse("-5") < Exact::parse("0"));
        assert!(Exact::parse("1e2") == Exact::parse("100"));
        assert!(Exact::parse("0.1") > Exact::parse("0.09"));
        assert_eq!(Exact::parse("70000").to_string(), "70,000");
        assert_eq!(Exact::parse("0.05").to_string(), "0.05");
        assert_eq!(Exact::parse("-1234.5").to_string(), "-1,234.5");
        assert_eq!(Exact::parse("0").to_string(), "0");
        assert_eq!(Exact::parse("999999.5").to_string(), "999,999.5");
        assert_eq!(Exact::parse("0.0001234").to_string(), "0.0001234");
    }

    #[test]
    fn large_and_small_numbers_have_powers() {
        let shown = [
            ("1000000", "1×10⁰⁶"),
            ("-123456789012", "-1.23456789012×10¹¹"),
            ("0.00001234", "1.234×10⁻⁰⁵"),
            ("1e30", "1×10³⁰"),
        ];
        for (number, text) in shown {
            assert_eq!(Exact::parse(number).to_string(), text);
        }
        assert_eq!(Exact::parse("12e6").as_count(), 12_000_000);
    }

    #[test]
    fn multiples_are_exact() {
        assert!(Exact::parse("0.3").is_multiple_of(&Exact::parse("0.1")));
        assert!(!Exact::parse("7").is_multiple_of(&Exact::parse("5")));
        assert!(Exact::parse("1e3").is_multiple_of(&Exact::parse("8")));
        assert!(!Exact::parse("1.5").is_multiple_of(&Exact::parse("1")));
    }
}
