//! The one error type of the crate. Its text is the text of the Go library where Go has one.

use crate::node::Position;
use everflow_limits::Exceeded;
use std::fmt;

/// Why YAML could not be read or written.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are not text that YAML allows: bad encoding or control characters.
    #[error("yaml: {problem}")]
    Encoding {
        /// Go's words.
        problem: &'static str,
        /// Byte offset in the input.
        offset: usize,
    },
    /// The text does not follow the grammar.
    #[error("yaml: {}{problem}", LinePrefix(*go_line))]
    Syntax {
        /// Go's words.
        problem: &'static str,
        /// The line Go prints, and 0 where it prints none. It is often one off; see `position`.
        go_line: u32,
        /// Where the problem really is.
        position: Position,
    },
    /// The document is well formed but cannot be decoded: bad merges, self-containing anchors,
    /// tags that contradict their value.
    #[error("yaml: {problem}")]
    Decode {
        /// Go's words.
        problem: String,
        /// Where it was found, as far as known.
        position: Position,
    },
    /// Duplicate keys and type mismatches, which Go collects before it gives up.
    #[error("yaml: unmarshal errors:\n  {}", .problems.join("\n  "))]
    Type {
        /// One line for each.
        problems: Vec<String>,
        /// Where the first one was found, as far as known.
        position: Position,
    },
    /// A map key that JSON cannot have.
    #[error("unsupported map key of type: {problem}")]
    Key {
        /// Go's words.
        problem: String,
    },
    /// A value that JSON cannot hold, or JSON text that is wrong.
    #[error("json: {problem}")]
    Json {
        /// Go's words.
        problem: String,
    },
    /// A value that does not fit the Go type it is decoded into, or a stream that a Go reader
    /// refuses.
    #[error("{message}")]
    Refused {
        /// Go's words.
        message: String,
    },
    /// More than one of the limits of [`crate::Limits`] allows.
    #[error("{limit}")]
    Limit {
        /// Which one, and what it is.
        limit: Limit,
        /// Where it was reached, as far as known.
        position: Position,
    },
    /// Work on it would cost more than it may.
    #[error(transparent)]
    Exceeded(#[from] Exceeded),
    /// A document that kyaml cannot read.
    #[error("MalformedYAMLError: {0}")]
    Malformed(#[source] Box<Error>),
    /// An error in a named file.
    #[error("{file}: {source}")]
    InFile {
        /// The name the caller gave.
        file: String,
        /// What is wrong in it.
        source: Box<Error>,
    },
}

/// The limit that an input went over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Collections inside collections.
    Nesting(usize),
    /// Bytes of input.
    Size(usize),
    /// Nodes after aliases were replaced by what they stand for.
    Expansion(usize),
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::Nesting(depth) => write!(f, "yaml: nested more than {depth} levels deep"),
            Limit::Size(bytes) => write!(f, "yaml: input is larger than {bytes} bytes"),
            Limit::Expansion(nodes) => {
                write!(f, "yaml: aliases expand to more than {nodes} nodes")
            }
        }
    }
}

/// `line N: `, which Go leaves out for line 0.
struct LinePrefix(u32);

impl fmt::Display for LinePrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            line => write!(f, "line {line}: "),
        }
    }
}

impl Error {
    /// A short, stable name of the kind of error, for conditions, metrics and tests.
    pub fn reason(&self) -> &'static str {
        match self {
            Error::Encoding { .. } => "InvalidEncoding",
            Error::Syntax { .. } => "InvalidSyntax",
            Error::Decode { .. } => "InvalidDocument",
            Error::Type { .. } => "InvalidType",
            Error::Key { .. } => "InvalidKey",
            Error::Json { .. } => "InvalidJSON",
            Error::Refused { .. } => "Refused",
            Error::Limit { .. } => "LimitExceeded",
            Error::Exceeded(exceeded) => exceeded.reason(),
            Error::Malformed(source) | Error::InFile { source, .. } => source.reason(),
        }
    }

    /// The message without what of the text itself would be quoted: for texts that may be secret.
    pub fn without_values(&self) -> String {
        match self {
            Error::Encoding { .. } | Error::Syntax { .. } => self.to_string(),
            Error::Malformed(source) | Error::InFile { source, .. } => source.without_values(),
            Error::Limit { .. } | Error::Exceeded(_) => self.to_string(),
            other => match other.position().line {
                0 => format!("yaml: {}", other.reason()),
                line => format!("yaml: line {line}: {}", other.reason()),
            },
        }
    }

    /// Where the problem is in the input; line 0 means that it is not known.
    pub fn position(&self) -> Position {
        match self {
            Error::Syntax { position, .. }
            | Error::Decode { position, .. }
            | Error::Type { position, .. }
            | Error::Limit { position, .. } => *position,
            Error::Malformed(source) | Error::InFile { source, .. } => source.position(),
            _ => Position::default(),
        }
    }

    /// The error itself, without the name of its file and kyaml's preamble.
    pub fn cause(&self) -> &Error {
        match self {
            Error::Malformed(source) | Error::InFile { source, .. } => source.cause(),
            other => other,
        }
    }

    /// Names the file the error is in, unless it names one already.
    pub fn in_file(self, file: &str) -> Error {
        match self {
            named @ Error::InFile { .. } => named,
            source => Error::InFile {
                file: file.to_owned(),
                source: Box::new(source),
            },
        }
    }

    pub(crate) fn decode(problem: impl Into<String>) -> Error {
        Error::Decode {
            problem: problem.into(),
            position: Position::default(),
        }
    }

    pub(crate) fn decode_at(problem: impl Into<String>, position: Position) -> Error {
        Error::Decode {
            problem: problem.into(),
            position,
        }
    }

    pub(crate) fn refused(message: impl Into<String>) -> Error {
        Error::Refused {
            message: message.into(),
        }
    }
}
