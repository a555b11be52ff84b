//! What the operators make of a value.

use std::borrow::Cow;

use everflow_limits::{Budget, Exceeded};

use crate::glob;

/// What stands between the name and the arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    /// Nothing: the value itself.
    Value,
    /// `:-`, `=`, `:=`, `:+`, `:?`
    Default,
    /// `#` before the name.
    Length,
    /// `,`
    LowerFirst,
    /// `,,`
    Lower,
    /// `^`
    UpperFirst,
    /// `^^`
    Upper,
    /// `:`
    Part,
    /// `#`
    TrimStart,
    /// `##`
    TrimStartLongest,
    /// `%`
    TrimEnd,
    /// `%%`
    TrimEndLongest,
    /// `/`
    Replace,
    /// `//`
    ReplaceAll,
    /// `/#`
    ReplaceStart,
    /// `/%`
    ReplaceEnd,
}

impl Operator {
    /// The operator that is written so after a name. Commas and carets mix (`,^`) to nothing.
    pub(crate) fn of(text: &str) -> Self {
        match text {
            "," => Operator::LowerFirst,
            ",," => Operator::Lower,
            "^" => Operator::UpperFirst,
            "^^" => Operator::Upper,
            ":" => Operator::Part,
            "#" => Operator::TrimStart,
            "##" => Operator::TrimStartLongest,
            "%" => Operator::TrimEnd,
            "%%" => Operator::TrimEndLongest,
            "/" => Operator::Replace,
            "//" => Operator::ReplaceAll,
            "/#" => Operator::ReplaceStart,
            "/%" => Operator::ReplaceEnd,
            "=" | ":=" | ":-" | ":+" | ":?" => Operator::Default,
            _ => Operator::Value,
        }
    }

    /// The most bytes that the new value can have.
    pub(crate) fn most(self, value: &str, arguments: &[&str]) -> usize {
        let second = || arguments.get(1).map_or(0, |text| text.len());
        match self {
            // The value itself is not copied.
            Operator::Value | Operator::Part => 0,
            Operator::Default if !value.is_empty() => 0,
            Operator::Default => arguments.iter().map(|text| text.len()).sum(),
            Operator::Length => 20,
            // A letter can become three.
            Operator::LowerFirst | Operator::UpperFirst => value.len() + 16,
            Operator::Lower | Operator::Upper => 3 * value.len(),
            Operator::TrimStart
            | Operator::TrimStartLongest
            | Operator::TrimEnd
            | Operator::TrimEndLongest => {
                let letters = value.len() + arguments.first().map_or(0, |text| text.len());
                value.len() + letters * size_of::<char>()
            }
            Operator::Replace | Operator::ReplaceStart | Operator::ReplaceEnd => {
                value.len() + second()
            }
            Operator::ReplaceAll => {
                let first = arguments.first().copied().unwrap_or_default();
                let found = value.matches(first).count();
                value.len().saturating_add(found.saturating_mul(second()))
            }
        }
    }

    /// The new value; `None` when a part cannot be cut out.
    pub(crate) fn apply<'v>(
        self,
        value: &'v str,
        arguments: &[&str],
        budget: &Budget,
    ) -> Result<Option<Cow<'v, str>>, Exceeded> {
        use glob::Length::{Longest, Shortest};
        let first = arguments.first().copied().unwrap_or_default();
        let second = arguments.get(1).copied().unwrap_or_default();
        let new = match self {
            Operator::Value => return Ok(Some(value.into())),
            Operator::Default if value.is_empty() => arguments.concat(),
            Operator::Default => return Ok(Some(value.into())),
            Operator::Length => value.len().to_string(),
            Operator::LowerFirst => first_changed(value, |c| c.to_lowercase().collect()),
            Operator::UpperFirst => first_changed(value, |c| c.to_uppercase().collect()),
            Operator::Lower => value.to_lowercase(),
            Operator::Upper => value.to_uppercase(),
            Operator::Part => return Ok(part(value, arguments).map(Cow::from)),
            Operator::TrimStart => glob::trim_start(value, first, Shortest, budget)?,
            Operator::TrimStartLongest => glob::trim_start(value, first, Longest, budget)?,
            Operator::TrimEnd => glob::trim_end(value, first, Shortest, budget)?,
            Operator::TrimEndLongest => glob::trim_end(value, first, Longest, budget)?,
            Operator::Replace => value.replacen(first, second, 1),
            Operator::ReplaceAll => value.replace(first, second),
            Operator::ReplaceStart if arguments.len() == 2 => match value.strip_prefix(first) {
                Some(rest) => format!("{second}{rest}"),
                None => return Ok(Some(value.into())),
            },
            Operator::ReplaceEnd if arguments.len() == 2 => match value.strip_suffix(first) {
                Some(rest) => format!("{rest}{second}"),
                None => return Ok(Some(value.into())),
            },
            Operator::ReplaceStart | Operator::ReplaceEnd => return Ok(Some(value.into())),
        };
        Ok(Some(new.into()))
    }
}

fn first_changed(value: &str, change: impl Fn(char) -> String) -> String {
    let mut rest = value.chars();
    match rest.next() {
        Some(first) => change(first) + rest.as_str(),
        None => String::new(),
    }
}

/// A part by byte offsets; what is no number leaves the value as it is.
fn part<'v>(value: &'v str, arguments: &[&str]) -> Option<&'v str> {
    let number = |at: usize| arguments.get(at).map(|text| text.parse::<i64>().ok());
    let Some(Some(start)) = number(0) else {
        return Some(value);
    };
    let length = value.len() as i64;
    let start = if start < 0 {
        (length + start).max(0)
    } else {
        start
    };
    let end = match number(1) {
        None => length,
        Some(None) => return Some(value),
        Some(Some(count)) => start.checked_add(count)?.min(length),
    };
    if start >= length {
        return Some("");
    }
    let (start, end) = (usize::try_from(start).ok()?, usize::try_from(end).ok()?);
    value.get(start..end)
}
