//! Objects that cannot be read.

use std::fmt;

use thiserror::Error;

/// Where in an object a value stands; made on the stack while reading, spelt out only in errors.
#[derive(Debug, Clone, Copy)]
pub enum At<'a> {
    /// The object itself.
    Root,
    /// A field.
    Field(&'a At<'a>, &'a str),
    /// An item of a list.
    Index(&'a At<'a>, usize),
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            At::Root => Ok(()),
            At::Field(At::Root, name) => f.write_str(name),
            At::Field(parent, name) if name.contains(['.', '/', '[']) => {
                write!(f, "{parent}[{name}]")
            }
            At::Field(parent, name) => write!(f, "{parent}.{name}"),
            At::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

impl At<'_> {
    /// The error that the value here is wrong.
    pub fn wrong(&self, problem: impl Into<String>) -> FieldError {
        FieldError {
            path: self.to_string(),
            problem: problem.into(),
        }
    }
}

/// A value that is not what it must be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{path}: {problem}")]
pub struct FieldError {
    /// Where it stands: `spec.ref.branch`, `spec.include[0].repository`.
    pub path: String,
    /// What is wrong with it, and what it must be.
    pub problem: String,
}

/// An object that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ApiError {
    /// It is another kind or version than asked for.
    #[error("{object} is {found}, not {expected}")]
    WrongKind {
        /// The object, as [`name_of`](crate::view::name_of) names it.
        object: String,
        /// What it says it is.
        found: String,
        /// What was asked for.
        expected: String,
    },
    /// One of its fields is wrong.
    #[error("{object}: {field}")]
    Field {
        /// The object, as [`name_of`](crate::view::name_of) names it.
        object: String,
        /// Which field, and what is wrong with it.
        #[source]
        field: FieldError,
    },
    /// The id of an object in an inventory has another form.
    #[error("'{id}' is no id of an object: expected NAMESPACE_NAME_GROUP_KIND")]
    InvalidId {
        /// The id.
        id: String,
    },
}

impl ApiError {
    /// The stable code of the error, for conditions and events.
    pub fn reason(&self) -> &'static str {
        match self {
            ApiError::WrongKind { .. } => "UnsupportedKind",
            ApiError::Field { .. } => "InvalidObject",
            ApiError::InvalidId { .. } => "InvalidInventory",
        }
    }
}
