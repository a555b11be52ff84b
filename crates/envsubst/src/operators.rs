//! What the operators make of a value.

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

    /// The new value; `None` when a part cannot be cut out.
    pub(crate) fn apply(self, value: &str, arguments: &[String]) -> Option<String> {
        let first = arguments.first().map_or("", String::as_str);
        let second = arguments.get(1).map_or("", String::as_str);
        Some(match self {
            Operator::Value => value.to_owned(),
            Operator::Default if value.is_empty() => arguments.concat(),
            Operator::Default => value.to_owned(),
            Operator::Length => value.len().to_string(),
            Operator::LowerFirst => first_changed(value, |c| c.to_lowercase().collect()),
            Operator::UpperFirst => first_changed(value, |c| c.to_uppercase().collect()),
            Operator::Lower => value.to_lowercase(),
            Operator::Upper => value.to_uppercase(),
            Operator::Part => return part(value, arguments),
            Operator::TrimStart => glob::trim_start(value, first, glob::Length::Shortest),
            Operator::TrimStartLongest => glob::trim_start(value, first, glob::Length::Longest),
            Operator::TrimEnd => glob::trim_end(value, first, glob::Length::Shortest),
            Operator::TrimEndLongest => glob::trim_end(value, first, glob::Length::Longest),
            Operator::Replace => value.replacen(first, second, 1),
            Operator::ReplaceAll => value.replace(first, second),
            Operator::ReplaceStart if arguments.len() == 2 => match value.strip_prefix(first) {
                Some(rest) => format!("{second}{rest}"),
                None => value.to_owned(),
            },
            Operator::ReplaceEnd if arguments.len() == 2 => match value.strip_suffix(first) {
                Some(rest) => format!("{rest}{second}"),
                None => value.to_owned(),
            },
            Operator::ReplaceStart | Operator::ReplaceEnd => value.to_owned(),
        })
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
fn part(value: &str, arguments: &[String]) -> Option<String> {
    let number = |at: usize| arguments.get(at).map(|text| text.parse::<i64>().ok());
    let Some(Some(start)) = number(0) else {
        return Some(value.to_owned());
    };
    let length = value.len() as i64;
    let start = if start < 0 {
        (length + start).max(0)
    } else {
        start
    };
    let end = match number(1) {
        None => length,
        Some(None) => return Some(value.to_owned()),
        Some(Some(count)) => start.checked_add(count)?.min(length),
    };
    if start >= length {
        return Some(String::new());
    }
    let (start, end) = (usize::try_from(start).ok()?, usize::try_from(end).ok()?);
    value.get(start..end).map(str::to_owned)
}
