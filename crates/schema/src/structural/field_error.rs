//! Errors about fields, with Kubernetes' texts.

use std::fmt;

use everflow_json::Value;

use crate::go_text;

/// What kind of error it is; decides the first words and the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldErrorKind {
    /// A value that is looked up does not exist.
    NotFound,
    /// A value is missing.
    Required,
    /// A value is there twice.
    Duplicate,
    /// A value is malformed.
    Invalid,
    /// A value has the wrong type.
    TypeInvalid,
    /// A value is none of those allowed.
    NotSupported,
    /// A value is not permitted here.
    Forbidden,
    /// A text is too long.
    TooLong,
    /// A list or object has too many entries.
    TooMany,
    /// A list has too few entries.
    TooFew,
    /// Something else went wrong.
    Internal,
}

impl FieldErrorKind {
    /// The `reason` of the cause in a Status.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TooFew => "FieldValueTooFew",
            Self::Internal => "InternalError",
        }
    }

    /// The first words of the message.
    pub fn words(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::TooFew => "Too few",
            Self::Internal => "Internal error",
        }
    }

    fn shows_value(self) -> bool {
        !matches!(
            self,
            Self::Required | Self::Forbidden | Self::TooLong | Self::Internal
        )
    }
}

/// The offending value as the message shows it.
#[derive(Debug, Clone, PartialEq)]
pub enum BadValue {
    /// The message shows no value.
    Omitted,
    /// The message shows this value.
    Shown(Value),
    /// The message shows this text as it is.
    Text(String),
}

/// One error about one field.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    /// What kind of error it is.
    pub kind: FieldErrorKind,
    /// The path of the field; `<nil>` when the error is about no field.
    pub field: String,
    /// The offending value.
    pub bad_value: BadValue,
    /// What is wrong with it.
    pub detail: String,
}

/// The path of errors that are about no field.
pub(crate) const NO_FIELD: &str = "<nil>";

impl FieldError {
    /// An error of a kind that shows the value.
    pub fn new(
        kind: FieldErrorKind,
        field: impl Into<String>,
        value: Value,
        detail: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            field: field.into(),
            bad_value: BadValue::Shown(value),
            detail: detail.into(),
        }
    }

    /// `Invalid value`
    pub fn invalid(field: impl Into<String>, value: Value, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Invalid, field, value, detail)
    }

    /// `Required value`
    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Required, field, Value::from(""), detail)
    }

    /// `Forbidden`
    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Forbidden, field, Value::from(""), detail)
    }

    /// `Duplicate value`
    pub fn duplicate(field: impl Into<String>, value: Value) -> Self {
        Self::new(FieldErrorKind::Duplicate, field, value, "")
    }

    /// `Not found`
    pub fn not_found(field: impl Into<String>, value: Value) -> Self {
        Self::new(FieldErrorKind::NotFound, field, value, "")
    }

    /// `Unsupported value`, with the values that are allowed.
    pub fn not_supported<T: AsRef<str>>(
        field: impl Into<String>,
        value: Value,
        allowed: &[T],
    ) -> Self {
        let quoted: Vec<String> = allowed
            .iter()
            .map(|text| go_text::quote(text.as_ref()))
            .collect();
        let detail = if quoted.is_empty() {
            String::new()
        } else {
            format!("supported values: {}", quoted.join(", "))
        };
        Self::new(FieldErrorKind::NotSupported, field, value, detail)
    }

    /// `Too long`
    pub fn too_long(field: impl Into<String>, max: i64) -> Self {
        let unit = if max == 1 { "byte" } else { "bytes" };
        Self::new(
            FieldErrorKind::TooLong,
            field,
            Value::Null,
            format!("may not be more than {max} {unit}"),
        )
    }

    /// `Too many`
    pub fn too_many(field: impl Into<String>, actual: usize, max: i64) -> Self {
        let unit = if max == 1 { "item" } else { "items" };
        let detail = format!("must have at most {max} {unit}");
        Self::new(FieldErrorKind::TooMany, field, Value::from(actual), detail)
    }

    /// The message without the field, as `details.causes` has it.
    pub fn message(&self) -> String {
        let mut text = self.kind.words().to_owned();
        let shown = match &self.bad_value {
            BadValue::Omitted => None,
            BadValue::Shown(value) => Some(go_text::value(value)),
            BadValue::Text(value) => Some(value.clone()),
        };
        if let Some(shown) = shown.filter(|_| self.kind.shows_value()) {
            text.push_str(": ");
            text.push_str(&shown);
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.field, self.message())
    }
}

/// Whether one of the errors keeps the rules in CEL from being checked.
pub fn blocks_rules(errors: &[FieldError]) -> bool {
    errors.iter().any(|error| {
        matches!(
            error.kind,
            FieldErrorKind::NotSupported
                | FieldErrorKind::Required
                | FieldErrorKind::TooLong
                | FieldErrorKind::TooMany
                | FieldErrorKind::TypeInvalid
        )
    })
}

/// The error that says so; it comes last, and only when the schema has rules.
pub fn rules_not_checked() -> FieldError {
    FieldError::invalid(
        NO_FIELD,
        Value::Null,
        "some validation rules were not checked because the object was invalid; \
         correct the existing errors to complete validation",
    )
}
