//! What can go wrong, in Go's words.

use thiserror::Error;

/// An error of a function or method called from a template.
///
/// `Display` is the text Go would show after `error calling NAME: `.
#[derive(Debug, Clone, Error)]
#[error("{message}")]
pub struct FuncError {
    message: String,
    source: Option<Box<Error>>,
}

impl FuncError {
    /// An error with a message.
    pub fn new(message: impl Into<String>) -> Self {
        FuncError {
            message: message.into(),
            source: None,
        }
    }

    /// An error whose text is `message` and whose cause is an inner template error, as `include`
    /// and `tpl` produce.
    pub fn with_source(message: impl Into<String>, source: Error) -> Self {
        FuncError {
            message: message.into(),
            source: Some(Box::new(source)),
        }
    }

    /// The text.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The inner template error, when there is one.
    pub fn template_error(&self) -> Option<&Error> {
        self.source.as_deref()
    }
}

impl From<&str> for FuncError {
    fn from(message: &str) -> Self {
        FuncError::new(message)
    }
}

impl From<String> for FuncError {
    fn from(message: String) -> Self {
        FuncError::new(message)
    }
}

impl From<Error> for FuncError {
    /// Passes the inner error on with its own text.
    fn from(error: Error) -> Self {
        FuncError::with_source(error.to_string(), error)
    }
}

/// An error of parsing or executing a template. `Display` is Go's full text.
#[derive(Debug, Clone, Error)]
pub enum Error {
    /// The text is no template: `template: NAME:LINE: …`.
    #[error("template: {name}:{line}: {message}")]
    Parse {
        /// The name given to the parsed text.
        name: String,
        /// The line the parser had reached.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// Execution failed: `template: FILE:LINE:COLUMN: executing "NAME" at <CONTEXT>: …`.
    #[error("template: {location}: executing {} at <{context}>: {message}", crate::gofmt::quote(.name.as_bytes()))]
    Exec {
        /// The name of the executing template.
        name: String,
        /// `FILE:LINE:COLUMN`; the column counts bytes from zero.
        location: String,
        /// The part of the template that failed.
        context: String,
        /// What is wrong.
        message: String,
        /// The error of the called function, when `message` starts with `error calling`.
        source: Option<Box<FuncError>>,
    },
    /// There is no such template.
    #[error("template: no template {} associated with template {}", crate::gofmt::quote(.name.as_bytes()), crate::gofmt::quote(.set.as_bytes()))]
    NoTemplate {
        /// The template asked for.
        name: String,
        /// The name of the set.
        set: String,
    },
    /// Templates call each other too deep.
    #[error("template: {name}: exceeded maximum template depth ({depth})")]
    Depth {
        /// The template that was one too many.
        name: String,
        /// The depth reached.
        depth: usize,
    },
}

impl Error {
    /// A stable word for the sort of error.
    pub fn reason(&self) -> &'static str {
        match self {
            Error::Parse { .. } => "TemplateParse",
            Error::Exec { .. } => "TemplateExec",
            Error::NoTemplate { .. } => "TemplateMissing",
            Error::Depth { .. } => "TemplateDepth",
        }
    }
}
