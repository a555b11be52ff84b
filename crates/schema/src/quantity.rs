//! Resource quantities (`500m`, `1Gi`, `2e3`) and their one canonical spelling.

/// How a quantity is spelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Form {
    #[default]
    DecimalSi,
    BinarySi,
    Exponent,
}

/// An exact decimal number: `digits * 10^exponent`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quantity {
    digits: i128,
    exponent: i32,
    form: Form,
}

/// Far beyond what can be counted: what is larger counts as the same.
const LARGEST_EXPONENT: i32 = 1_000;
/// More decimal digits than this no number here has.
const LONGEST: i32 = 40;

const BAD_FORMAT: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const BAD_NUMBER: &str = "unable to parse numeric part of quantity";
const BAD_SUFFIX: &str = "unable to parse quantity's suffix";
const DECIMAL: [(&str, i32); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];
const BINARY: [(&str, u32); 6] = [
    ("Ki", 10),
    ("Mi", 20),
    ("Gi", 30),
    ("Ti", 40),
    ("Pi", 50),
    ("Ei", 60),
];

impl Quantity {
    /// Reads a quantity; the error is Go's text.
    pub fn parse(text: &str) -> Result<Quantity, &'static str> {
        if text.is_empty() {
            return Err("quantities must not be empty string or contain only whitespaces")
                .map_err(|_| BAD_FORMAT);
        }
        let split = text
            .bytes()
            .position(|b| !matches!(b, b'0'..=b'9' | b'.' | b'+' | b'-'))
            .unwrap_or(text.len());
        let (mut number, mut suffix) = text.split_at(split);
        // A sign belongs to the front of the number only.
        if let Some(inner) = number
            .char_indices()
            .skip(1)
            .find(|(_, c)| matches!(c, '+' | '-'))
            .map(|(at, _)| at)
        {
            (number, suffix) = text.split_at(inner);
        }
        let negative = number.starts_with('-');
        let unsigned = number.trim_start_matches(['+', '-']);
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        // A sign alone is zero.
        if unsigned.is_empty() && suffix.is_empty() {
            return Ok(Quantity {
                digits: 0,
                exponent: 0,
                form: Form::DecimalSi,
            });
        }
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(BAD_FORMAT);
        }
        let rest = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
        let rest = rest.strip_prefix(['+', '-']).unwrap_or(rest);
        if !rest.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(BAD_FORMAT);
        }
        let (form, scale) = Self::suffix(suffix)?;
        let joined: String = format!("{whole}{fraction}")
            .trim_start_matches('0')
            .chars()
            .take(36)
            .collect();
        let mut digits: i128 = if joined.is_empty() {
            0
        } else {
            joined.parse().map_err(|_| BAD_NUMBER)?
        };
        let mut exponent = i32::try_from(fraction.len()).map_or(i32::MIN, |length| -length);
        match scale {
            Scale::Ten(power) => exponent = exponent.saturating_add(power),
            Scale::Two(power) => digits = digits.saturating_mul(1i128 << power),
        }
        if negative {
            digits = -digits;
        }
        let mut parsed = Quantity {
            digits,
            exponent: exponent.min(LARGEST_EXPONENT),
            form,
        };
        parsed.round_up_to_nano();
        Ok(parsed)
    }

    fn suffix(suffix: &str) -> Result<(Form, Scale), &'static str> {
        if let Some((_, power)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
            return Ok((Form::DecimalSi, Scale::Ten(*power)));
        }
        if let Some((_, power)) = BINARY.iter().find(|(name, _)| *name == suffix) {
            return Ok((Form::BinarySi, Scale::Two(*power)));
        }
        if let Some(power) = suffix
            .strip_prefix(['e', 'E'])
            .and_then(|digits| digits.parse::<i32>().ok())
        {
            return Ok((Form::Exponent, Scale::Ten(power)));
        }
        Err(BAD_SUFFIX)
    }

    fn round_up_to_nano(&mut self) {
        // Whatever is left after so many divisions is rounded up to one of the smallest.
        if self.exponent < -9 - LONGEST {
            self.digits = self.digits.signum();
            self.exponent = -9;
        }
        while self.exponent < -9 {
            let remainder = self.digits % 10;
            self.digits /= 10;
            if remainder != 0 {
                self.digits += remainder.signum();
            }
            self.exponent += 1;
        }
    }

    /// The same quantity without anything finer than a thousandth, rounded up.
    #[must_use]
    pub fn rounded_to_milli(mut self) -> Quantity {
        while self.exponent < -3 {
            let remainder = self.digits % 10;
            self.digits = self.digits / 10 + remainder.signum();
            self.exponent += 1;
        }
        self
    }

    /// Whether it is zero.
    pub fn is_zero(&self) -> bool {
        self.digits == 0
    }

    /// Less than, equal to or more than zero.
    pub fn sign(&self) -> i32 {
        self.digits.signum() as i32
    }

    /// The value in thousandths, rounded up.
    pub fn milli(&self) -> i128 {
        self.scaled(-3)
    }

    /// The value as a whole number, rounded up.
    pub fn whole(&self) -> i128 {
        self.scaled(0)
    }

    fn scaled(&self, to: i32) -> i128 {
        let mut digits = self.digits;
        // Further away than all digits reach nothing changes any more.
        let mut exponent = self
            .exponent
            .clamp(to.saturating_sub(LONGEST), to.saturating_add(LONGEST));
        while exponent > to {
            digits = digits.saturating_mul(10);
            exponent -= 1;
        }
        while exponent < to {
            let remainder = digits % 10;
            digits = digits / 10 + if remainder > 0 { 1 } else { 0 };
            exponent += 1;
        }
        // The lowest number has no opposite.
        digits.max(-i128::MAX)
    }

    /// The sum of two quantities, spelled as the first.
    #[must_use]
    pub fn plus(&self, other: &Quantity) -> Quantity {
        let exponent = self.exponent.min(other.exponent);
        Quantity {
            digits: self
                .scaled(exponent)
                .saturating_add(other.scaled(exponent))
                .max(-i128::MAX),
            exponent,
            form: if self.is_zero() {
                other.form
            } else {
                self.form
            },
        }
    }

    /// What is left of a quantity without another, spelled as the first.
    #[must_use]
    pub fn minus(&self, other: &Quantity) -> Quantity {
        self.plus(&Quantity {
            digits: other.digits.saturating_neg(),
            ..*other
        })
    }

    /// Compares two quantities by value.
    pub fn compare(&self, other: &Quantity) -> std::cmp::Ordering {
        let least = self.exponent.min(other.exponent);
        self.scaled(least).cmp(&other.scaled(least))
    }

    /// The canonical spelling.
    pub fn canonical(&self) -> String {
        if self.is_zero() {
            return "0".to_owned();
        }
        let mut form = self.form;
        if form == Form::BinarySi {
            let whole = self.exponent >= 0
                || self.digits % 10i128.pow(self.exponent.unsigned_abs().min(38)) == 0;
            let small = self.milli().abs() < 1_024_000;
            if small || !whole {
                form = Form::DecimalSi;
            }
        }
        match form {
            Form::BinarySi => {
                let (mut value, mut times) = (self.scaled(0), 0usize);
                while value % 1024 == 0 && times < BINARY.len() {
                    value /= 1024;
                    times += 1;
                }
                let suffix = if times == 0 { "" } else { BINARY[times - 1].0 };
                format!("{value}{suffix}")
            }
            _ => {
                let (mut digits, mut exponent) = (self.digits, self.exponent);
                while digits % 10 == 0 {
                    digits /= 10;
                    exponent += 1;
                }
                while exponent.rem_euclid(3) != 0 || (form == Form::DecimalSi && exponent > 18) {
                    digits = digits.saturating_mul(10);
                    exponent -= 1;
                }
                let suffix = match form {
                    Form::Exponent if exponent == 0 => String::new(),
                    Form::Exponent => format!("e{exponent}"),
                    _ => DECIMAL
                        .iter()
                        .find(|(_, power)| *power == exponent)
                        .map_or(String::new(), |(name, _)| (*name).to_owned()),
                };
                format!("{digits}{suffix}")
            }
        }
    }
}

enum Scale {
    Ten(i32),
    Two(u32),
}

#[cfg(test)]
mod tests {
    use super::Quantity;

    #[test]
    fn exponents_far_away_take_no_time() {
        let tiny = Quantity::parse("932.00E-2047604684").unwrap();
        assert_eq!((tiny.milli(), tiny.whole(), tiny.sign()), (1, 1, 1));
        assert_eq!(Quantity::parse("-1e-2147483648").unwrap().whole(), 0);
        assert_eq!(Quantity::parse("0E2147483647").unwrap().milli(), 0);
        let huge = Quantity::parse("1E2147483647").unwrap();
        assert_eq!(huge.whole(), i128::MAX);
        assert!(huge.compare(&tiny).is_gt());
        assert_eq!(huge.canonical(), "10e999");
        assert_eq!(huge.plus(&tiny).sign(), 1);
        let low = Quantity::parse("-50888888888888888888888888E20").unwrap();
        assert!(low.plus(&low).canonical().starts_with('-'));
        assert_eq!(low.milli(), -i128::MAX);
    }

    #[test]
    fn canonical_spellings() {
        for (given, expected) in [
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1024Mi", "1Gi"),
            ("1500Mi", "1500Mi"),
            ("100Ki", "100Ki"),
            ("1.5Gi", "1536Mi"),
            ("0", "0"),
            ("1e3", "1e3"),
            ("1000", "1k"),
            ("1500", "1500"),
            ("0.1", "100m"),
            ("512", "512"),
            ("1Ki", "1Ki"),
            ("0.5Ki", "512"),
            ("10G", "10G"),
            ("-1", "-1"),
            ("1.0", "1"),
        ] {
            assert_eq!(
                Quantity::parse(given).unwrap().canonical(),
                expected,
                "{given}"
            );
        }
        for bad in ["", "abc", "1x", "1.2.3", "--1", "1Gx"] {
            assert!(Quantity::parse(bad).is_err(), "{bad}");
        }
    }
}
