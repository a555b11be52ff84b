//! What can go wrong, in Go's words.

use std::fmt;

use everflow_limits::Exceeded;
use thiserror::Error;

/// An error of a function or method called from a template.
///
/// `Display` is the text Go would show after `error calling NAME: `.
#[derive(Debug, Clone, Error)]
pub struct FuncError {
    /// The text, or with a cause only what stands before the cause's text: templates nest deep, and
    /// every level repeats what is below it.
    message: String,
    cause: Option<Box<Cause>>,
}

/// What made a function fail, other than itself.
#[derive(Debug, Clone)]
enum Cause {
    Template(Error),
    Exceeded(Exceeded),
}

impl fmt::Display for FuncError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match self.cause.as_deref() {
            Some(Cause::Template(error)) => error.fmt(f),
            Some(Cause::Exceeded(exceeded)) => exceeded.fmt(f),
            None => Ok(()),
        }
    }
}

impl FuncError {
    /// An error with a message.
    pub fn new(message: impl Into<String>) -> Self {
        FuncError {
            message: message.into(),
            cause: None,
        }
    }

    /// An error whose cause is an inner template error, as `include` and `tpl` produce. Its text is
    /// `prefix`, followed by the text of the cause.
    pub fn with_source(prefix: impl Into<String>, source: Error) -> Self {
        FuncError {
            message: prefix.into(),
            cause: Some(Box::new(Cause::Template(source))),
        }
    }

    /// What stands before the text of the inner template error; without one, the whole text.
    pub fn prefix(&self) -> &str {
        &self.message
    }

    /// The inner template error, when there is one.
    pub fn template_error(&self) -> Option<&Error> {
        match self.cause.as_deref() {
            Some(Cause::Template(error)) => Some(error),
            _ => None,
        }
    }

    /// What the function, or a template below it, used up.
    pub fn exceeded(&self) -> Option<&Exceeded> {
        match self.cause.as_deref()? {
            Cause::Template(error) => error.exceeded(),
            Cause::Exceeded(exceeded) => Some(exceeded),
        }
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
        FuncError::with_source("", error)
    }
}

impl From<Exceeded> for FuncError {
    fn from(exceeded: Exceeded) -> Self {
        FuncError {
            message: String::new(),
            cause: Some(Box::new(Cause::Exceeded(exceeded))),
        }
    }
}

/// Cuts the chain link by link: deep chains would be dropped by as deep a recursion.
impl Drop for FuncError {
    fn drop(&mut self) {
        let mut next = self.cause.take();
        while let Some(mut cause) = next {
            next = match &mut *cause {
                Cause::Template(Error::Exec {
                    source: Some(inner),
                    ..
                }) => inner.cause.take(),
                _ => None,
            };
        }
    }
}

/// How the message begins when templates nest too deep.
pub(crate) const TOO_DEEP: &str = "exceeded maximum template depth";

/// The text of a function's error, if there is one.
struct Source<'e>(&'e Option<Box<FuncError>>);

impl fmt::Display for Source<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(cause) => cause.fmt(f),
            None => Ok(()),
        }
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
    #[error("{}{}", self.prefix(), Source(.source))]
    Exec {
        /// The name of the executing template.
        name: String,
        /// `FILE:LINE:COLUMN`; the column counts bytes from zero.
        location: String,
        /// The part of the template that failed.
        context: String,
        /// What is wrong; `error calling NAME: ` when a function failed.
        message: String,
        /// The error of the called function, whose text follows the message.
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
    /// The text needs more than there is to be parsed.
    #[error("template: {name}:{line}: {source}")]
    Exceeded {
        /// The name given to the parsed text.
        name: String,
        /// The line the parser had reached.
        line: usize,
        /// What was used up.
        source: Exceeded,
    },
}

impl Error {
    /// What stands before the text of the called function's error; without one, the whole text.
    pub fn prefix(&self) -> String {
        match self {
            Error::Exec {
                name,
                location,
                context,
                message,
                ..
            } => format!(
                "template: {location}: executing {} at <{context}>: {message}",
                crate::gofmt::quote(name.as_bytes())
            ),
            other => other.to_string(),
        }
    }

    /// The error at the bottom of the chain of templates that call each other.
    pub fn innermost(&self) -> &Error {
        let mut error = self;
        while let Error::Exec {
            source: Some(function),
            ..
        } = error
        {
            match function.template_error() {
                Some(inner) => error = inner,
                None => break,
            }
        }
        error
    }

    /// What was used up, when that is why it failed.
    pub fn exceeded(&self) -> Option<&Exceeded> {
        match self.innermost() {
            Error::Exec {
                source: Some(function),
                ..
            } => function.exceeded(),
            Error::Exceeded { source, .. } => Some(source),
            _ => None,
        }
    }

    /// Whether templates nested deeper than the limits allow.
    pub fn is_too_deep(&self) -> bool {
        match self.innermost() {
            Error::Depth { .. } => true,
            Error::Exec {
                message,
                source: None,
                ..
            } => message.starts_with(TOO_DEEP),
            _ => false,
        }
    }

    /// A stable word for the sort of error.
    pub fn reason(&self) -> &'static str {
        match self {
            Error::Parse { .. } => "TemplateParse",
            Error::Exec { .. } => "TemplateExec",
            Error::NoTemplate { .. } => "TemplateMissing",
            Error::Depth { .. } => "TemplateDepth",
            Error::Exceeded { source, .. } => source.reason(),
        }
    }
}
