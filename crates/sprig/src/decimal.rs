//! Exact decimal arithmetic on floating point numbers, as sprig's `addf` and its kin do it.

use num_bigint_dig::{BigInt, Sign};

/// `coefficient × 10^exponent`.
#[derive(Debug, Clone)]
pub(crate) struct Decimal {
    coefficient: BigInt,
    exponent: i64,
}

/// Digits after the point in a quotient.
const DIVISION_DIGITS: i64 = 16;

impl Decimal {
    /// The decimal with the fewest digits that reads as this number. `None` for infinities and
    /// what is not a number.
    pub(crate) fn from_f64(number: f64) -> Option<Self> {
        if !number.is_finite() {
            return None;
        }
        let text = format!("{number:e}");
        let (mantissa, exponent) = text.split_once('e')?;
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let coefficient = BigInt::parse_bytes(format!("{whole}{fraction}").as_bytes(), 10)?;
        let exponent = exponent.parse::<i64>().ok()? - fraction.len() as i64;
        Some(Self {
            coefficient,
            exponent,
        })
    }

    /// The nearest floating point number.
    pub(crate) fn to_f64(&self) -> f64 {
        let text = format!("{}e{}", self.coefficient, self.exponent);
        text.parse().unwrap_or(f64::NAN)
    }

    fn scaled_to(&self, exponent: i64) -> BigInt {
        &self.coefficient * power_of_ten(self.exponent - exponent)
    }

    pub(crate) fn add(&self, other: &Self) -> Self {
        let exponent = self.exponent.min(other.exponent);
        let coefficient = self.scaled_to(exponent) + other.scaled_to(exponent);
        Self {
            coefficient,
            exponent,
        }
    }

    pub(crate) fn sub(&self, other: &Self) -> Self {
        let negated = Self {
            coefficient: -&other.coefficient,
            exponent: other.exponent,
        };
        self.add(&negated)
    }

    pub(crate) fn mul(&self, other: &Self) -> Self {
        Self {
            coefficient: &self.coefficient * &other.coefficient,
            exponent: self.exponent + other.exponent,
        }
    }

    /// The quotient rounded half away from zero; `None` when dividing by zero.
    pub(crate) fn div(&self, other: &Self) -> Option<Self> {
        if other.coefficient.sign() == Sign::NoSign {
            return None;
        }
        // quotient × 10^-DIGITS = (a × 10^shift) / b
        let shift = self.exponent - other.exponent + DIVISION_DIGITS;
        let (numerator, denominator) = if shift >= 0 {
            (
                &self.coefficient * power_of_ten(shift),
                other.coefficient.clone(),
            )
        } else {
            (
                self.coefficient.clone(),
                &other.coefficient * power_of_ten(-shift),
            )
        };
        let quotient = &numerator / &denominator;
        let remainder = &numerator - &quotient * &denominator;
        let twice = magnitude(&remainder) * 2u32;
        let away = BigInt::from(if numerator.sign() == denominator.sign() {
            1
        } else {
            -1
        });
        let coefficient = if twice >= magnitude(&denominator) {
            quotient + away
        } else {
            quotient
        };
        Some(Self {
            coefficient,
            exponent: -DIVISION_DIGITS,
        })
    }
}

fn magnitude(number: &BigInt) -> BigInt {
    if number.sign() == Sign::Minus {
        -number
    } else {
        number.clone()
    }
}

fn power_of_ten(exponent: i64) -> BigInt {
    let mut power = BigInt::from(1);
    for _ in 0..exponent.max(0) {
        power *= 10u32;
    }
    power
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(number: f64) -> Decimal {
        Decimal::from_f64(number).unwrap()
    }

    #[test]
    fn exact() {
        assert_eq!(decimal(0.1).add(&decimal(0.2)).to_f64(), 0.3);
        assert_eq!(decimal(1e21).sub(&decimal(1.0)).to_f64(), 1e21 - 1.0);
        assert_eq!(decimal(1.1).mul(&decimal(1.1)).to_f64(), 1.21);
        assert_eq!(
            decimal(10.0).div(&decimal(3.0)).unwrap().to_f64(),
            3.333_333_333_333_333_5
        );
        assert_eq!(decimal(-1.0).div(&decimal(8.0)).unwrap().to_f64(), -0.125);
        assert!(decimal(1.0).div(&decimal(0.0)).is_none());
    }
}
