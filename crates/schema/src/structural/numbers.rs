//! Ranges and multiples.

use everflow_json::{Number, Value};

use super::field_error::FieldError;
use super::report::Report;
use crate::go_text;
use crate::model::JsonType;
use crate::validation::Validation;

/// A number as Go decodes it from JSON.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Numeric {
    Integer(i64),
    Float(f64),
}

impl Numeric {
    pub(super) fn of(number: &Number) -> Self {
        match number.as_i64() {
            Some(integer) => Self::Integer(integer),
            None => Self::Float(number.as_f64().unwrap_or_default()),
        }
    }

    pub(super) fn as_float(self) -> f64 {
        match self {
            Self::Integer(integer) => integer as f64,
            Self::Float(float) => float,
        }
    }

    fn to_value(self) -> Value {
        match self {
            Self::Integer(integer) => Value::from(integer),
            Self::Float(float) => Value::from(float),
        }
    }
}

/// What a number is checked against.
pub(super) struct NumberCheck<'c> {
    pub(super) validation: &'c Validation,
    /// The declared type when there is exactly one.
    pub(super) json_type: Option<JsonType>,
    pub(super) format: Option<&'c str>,
    pub(super) path: &'c str,
    /// Makes the field of an error from a path.
    pub(super) field: &'c dyn Fn(&str) -> String,
    /// The field of errors that are about no field.
    pub(super) no_field: &'c str,
}

impl NumberCheck<'_> {
    pub(super) fn run(&self, data: Numeric) -> Report {
        let mut report = Report::default();
        self.range(data, "Checked", &mut report);
        if let Some(factor) = number_of(&self.validation.multiple_of) {
            report.merge(self.multiple(data, factor));
        }
        if let Some(minimum) = number_of(&self.validation.minimum) {
            let exclusive = self.validation.exclusive_minimum;
            let words = if exclusive {
                "greater than"
            } else {
                "greater than or equal to"
            };
            let beyond = |data: f64, limit: f64| {
                if exclusive {
                    data <= limit
                } else {
                    data < limit
                }
            };
            let beyond_int = |data: i64, limit: i64| {
                if exclusive {
                    data <= limit
                } else {
                    data < limit
                }
            };
            report.merge(self.limit(data, minimum, "Minimum boundary", words, beyond, beyond_int));
        }
        if let Some(maximum) = number_of(&self.validation.maximum) {
            let exclusive = self.validation.exclusive_maximum;
            let words = if exclusive {
                "less than"
            } else {
                "less than or equal to"
            };
            let beyond = |data: f64, limit: f64| {
                if exclusive {
                    data >= limit
                } else {
                    data > limit
                }
            };
            let beyond_int = |data: i64, limit: i64| {
                if exclusive {
                    data >= limit
                } else {
                    data > limit
                }
            };
            report.merge(self.limit(data, maximum, "Maximum boundary", words, beyond, beyond_int));
        }
        report.matches += 1;
        report
    }

    fn limit(
        &self,
        data: Numeric,
        limit: f64,
        what: &str,
        words: &str,
        beyond: impl Fn(f64, f64) -> bool,
        beyond_int: impl Fn(i64, i64) -> bool,
    ) -> Report {
        let mut report = Report::default();
        self.range(Numeric::Float(limit), what, &mut report);
        let (failed, shown, value) = match data {
            Numeric::Integer(integer) if report.is_valid() => (
                beyond_int(integer, limit as i64),
                (limit as i64).to_string(),
                Value::from(integer),
            ),
            other => (
                beyond(other.as_float(), limit),
                go_text::float(limit),
                Value::from(other.as_float()),
            ),
        };
        if failed {
            self.invalid(&mut report, value, format!("should be {words} {shown}"));
        }
        report
    }

    fn multiple(&self, data: Numeric, factor: f64) -> Report {
        let mut report = Report::default();
        self.range(Numeric::Float(factor), "MultipleOf", &mut report);
        let native = report.is_valid();
        let (failed, shown, value) = match data {
            Numeric::Integer(integer) if native => {
                let factor = factor as i64;
                if factor <= 0 {
                    self.not_positive(&mut report, Value::from(factor), &factor.to_string());
                    return report;
                }
                (
                    integer % factor != 0,
                    factor.to_string(),
                    Value::from(integer),
                )
            }
            other => {
                if factor <= 0.0 {
                    self.not_positive(&mut report, Value::from(factor), &go_text::float(factor));
                    return report;
                }
                let float = other.as_float();
                let quotient = if factor < 1.0 {
                    1.0 / factor * float
                } else {
                    float / factor
                };
                (
                    !is_json_integer(quotient),
                    go_text::float(factor),
                    Value::from(float),
                )
            }
        };
        if failed {
            self.invalid(
                &mut report,
                value,
                format!("should be a multiple of {shown}"),
            );
        }
        report
    }

    fn not_positive(&self, report: &mut Report, factor: Value, shown: &str) {
        let text = format!(
            "factor MultipleOf declared for {} must be positive: {shown}",
            self.path
        );
        report.add(
            text.clone(),
            FieldError::invalid((self.field)(self.path), factor, text),
        );
    }

    fn invalid(&self, report: &mut Report, value: Value, problem: String) {
        let text = format!("{} in body {problem}", self.path);
        report.add(
            text.clone(),
            FieldError::invalid((self.field)(self.path), value, text),
        );
    }

    /// Whether a number fits the declared type and format.
    fn range(&self, number: Numeric, what: &str, report: &mut Report) {
        let fits = match (self.json_type, self.format) {
            (Some(JsonType::Integer), Some("int32")) => {
                as_integer(number).is_some_and(|integer| i32::try_from(integer).is_ok())
            }
            (Some(JsonType::Integer), _) => as_integer(number).is_some(),
            (_, Some("float")) => number.as_float().abs() <= f64::from(f32::MAX),
            _ => true,
        };
        if fits {
            return;
        }
        let type_name = self.json_type.map_or("", JsonType::as_str);
        let text = match self.format {
            Some(format) => {
                format!(
                    "{what} value must be of type {type_name} with format {format} in {}",
                    self.path
                )
            }
            None => format!(
                "{what} value must be of type {type_name} (default format) in {}",
                self.path
            ),
        };
        report.add(
            text.clone(),
            FieldError::invalid(self.no_field, Value::from(""), text),
        );
    }
}

fn number_of(value: &Option<Value>) -> Option<f64> {
    value.as_ref().and_then(Value::as_f64)
}

fn as_integer(number: Numeric) -> Option<i64> {
    // Two to the power of 63.
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    match number {
        Numeric::Integer(integer) => Some(integer),
        Numeric::Float(float) => {
            let whole = float.fract() == 0.0 && (-LIMIT..LIMIT).contains(&float);
            whole.then_some(float as i64)
        }
    }
}

/// Whether a float counts as an integer: within 2^53 and whole but for rounding errors.
pub(super) fn is_json_integer(float: f64) -> bool {
    const LIMIT: f64 = 9_007_199_254_740_991.0;
    if !float.is_finite() || float.abs() > LIMIT {
        return false;
    }
    let whole = float.trunc();
    if float == whole {
        return true;
    }
    let difference = (float - whole).abs();
    whole != 0.0 && difference / (float.abs() + whole.abs()) < 1e-9
}

/// The number of a JSON value.
pub(super) fn numeric(value: &Value) -> Option<Numeric> {
    match value {
        Value::Number(number) => Some(Numeric::of(number)),
        _ => None,
    }
}

/// Whether a value equals an allowed one after Go's conversion to the type of the allowed one.
pub(super) fn converts_to(value: &Value, allowed: &Value) -> bool {
    match (numeric(value), numeric(allowed)) {
        (Some(Numeric::Float(float)), Some(Numeric::Integer(integer))) => {
            float.trunc() == integer as f64
        }
        (Some(data), Some(Numeric::Float(float))) => data.as_float() == float,
        (Some(left), Some(right)) => left.to_value() == right.to_value(),
        // An integer converts to the character with that number.
        (Some(Numeric::Integer(integer)), None) => {
            let character = u32::try_from(integer).ok().and_then(char::from_u32);
            allowed
                .as_str()
                .is_some_and(|text| character.is_some_and(|one| text.chars().eq([one])))
        }
        _ => !value.is_null() && value == allowed,
    }
}
