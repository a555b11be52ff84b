//! Field paths and validation errors, worded as the real server words them.

use std::fmt::{self, Write as _};

pub use everflow_gotext::quoted as go_quote;
use everflow_json::Value;
pub use everflow_schema::structural::FieldErrorKind as Problem;

/// The path of a field inside an object, as it is printed in error messages.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(String);

impl Path {
    /// The path of a top-level field.
    pub fn new(name: &str) -> Self {
        Path(name.to_owned())
    }

    /// The path of no field at all.
    pub fn root() -> Self {
        Path(String::new())
    }

    /// A named field below this one.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        if self.0.is_empty() {
            return Path(name.to_owned());
        }
        // Paths are made all the time and printed hardly ever.
        let mut text = String::with_capacity(self.0.len() + 1 + name.len());
        text.push_str(&self.0);
        text.push('.');
        text.push_str(name);
        Path(text)
    }

    /// A list item below this one.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Path(format!("{}[{index}]", self.0))
    }

    /// A map entry below this one.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Path(format!("{}[{key}]", self.0))
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// One broken rule.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// What kind of rule.
    pub problem: Problem,
    /// Where.
    pub field: Path,
    /// The offending value as it is printed, if it is printed.
    pub shown: Option<String>,
    /// What was expected.
    pub detail: String,
    /// The whole message where it was worded elsewhere.
    pub verbatim: Option<String>,
}

impl FieldError {
    fn new(
        problem: Problem,
        field: &Path,
        shown: Option<String>,
        detail: impl Into<String>,
    ) -> Self {
        FieldError {
            problem,
            field: field.clone(),
            shown,
            detail: detail.into(),
            verbatim: None,
        }
    }

    /// A missing value.
    pub fn required(field: &Path, detail: impl Into<String>) -> Self {
        Self::new(Problem::Required, field, None, detail)
    }

    /// A value that is not valid.
    pub fn invalid(field: &Path, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(Problem::Invalid, field, Some(show(&value.into())), detail)
    }

    /// A value that is not valid, already spelled as it is to be printed.
    pub fn invalid_shown(
        field: &Path,
        shown: impl Into<String>,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(Problem::Invalid, field, Some(shown.into()), detail)
    }

    /// A value of the wrong type.
    pub fn type_invalid(field: &Path, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(
            Problem::TypeInvalid,
            field,
            Some(show(&value.into())),
            detail,
        )
    }

    /// A value outside the list of known ones.
    pub fn not_supported(field: &Path, value: impl Into<Value>, known: &[&str]) -> Self {
        let mut detail = String::new();
        if !known.is_empty() {
            let quoted: Vec<String> = known.iter().map(|name| go_quote(name)).collect();
            detail = format!("supported values: {}", quoted.join(", "));
        }
        Self::new(
            Problem::NotSupported,
            field,
            Some(show(&value.into())),
            detail,
        )
    }

    /// A value that may not be given.
    pub fn forbidden(field: &Path, detail: impl Into<String>) -> Self {
        Self::new(Problem::Forbidden, field, None, detail)
    }

    /// A value that occurs twice.
    pub fn duplicate(field: &Path, value: impl Into<Value>) -> Self {
        Self::new(Problem::Duplicate, field, Some(show(&value.into())), "")
    }

    /// A name of something that does not exist.
    pub fn not_found(field: &Path, value: impl Into<Value>) -> Self {
        Self::new(Problem::NotFound, field, Some(show(&value.into())), "")
    }

    /// A value with too many bytes.
    pub fn too_long(field: &Path, limit: i64) -> Self {
        let unit = if limit == 1 { "byte" } else { "bytes" };
        let detail = if limit >= 0 {
            format!("may not be more than {limit} {unit}")
        } else {
            "value is too long".to_owned()
        };
        Self::new(Problem::TooLong, field, None, detail)
    }

    /// A list with too many items.
    pub fn too_many(field: &Path, actual: i64, limit: i64) -> Self {
        let unit = if limit == 1 { "item" } else { "items" };
        let shown = (actual >= 0).then(|| actual.to_string());
        let detail = if limit >= 0 {
            format!("must have at most {limit} {unit}")
        } else {
            "has too many items".to_owned()
        };
        Self::new(Problem::TooMany, field, shown, detail)
    }

    /// A failure of the server itself.
    pub fn internal(field: &Path, detail: impl Into<String>) -> Self {
        Self::new(Problem::Internal, field, None, detail)
    }

    /// The message without the field's name.
    pub fn body(&self) -> String {
        if let Some(text) = &self.verbatim {
            return text.clone();
        }
        let mut text = self.problem.words().to_owned();
        if let Some(shown) = &self.shown {
            let _ = write!(text, ": {shown}");
        }
        if !self.detail.is_empty() {
            let _ = write!(text, ": {}", self.detail);
        }
        text
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.field.0.is_empty() {
            "<nil>"
        } else {
            self.field.as_str()
        };
        write!(out, "{name}: {}", self.body())
    }
}

/// All broken rules of one object, in the order they were found.
pub type Errors = Vec<FieldError>;

/// The one-line summary of several errors: each message once, in order.
pub fn aggregate(messages: impl IntoIterator<Item = String>) -> String {
    let mut distinct: Vec<String> = Vec::new();
    for message in messages {
        if !distinct.contains(&message) {
            distinct.push(message);
        }
    }
    match distinct.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

fn show(value: &Value) -> String {
    match value {
        Value::String(text) => go_quote(text),
        other => go_json(other),
    }
}

/// JSON text as Go's encoder writes it: sorted keys, `<`, `>` and `&` escaped.
pub fn go_json(value: &Value) -> String {
    let plain = value.to_string();
    if !plain.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return plain;
    }
    let mut text = String::with_capacity(plain.len() + 16);
    for c in plain.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(text, "\\u{:04x}", c as u32);
            }
            other => text.push(other),
        }
    }
    text
}
