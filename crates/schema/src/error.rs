//! The errors of this crate.

/// What can go wrong with schemas and the data they describe.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A structural schema is not a schema.
    #[error("schema{path}: {problem}")]
    MalformedSchema {
        /// Where in the schema, as a JSONPath without the root (`.properties.spec.items`).
        path: String,
        /// What is wrong there.
        problem: String,
    },
    /// A protobuf body without its envelope; the message is Kubernetes' own.
    #[error("{0}")]
    NoEnvelope(String),
    /// Protobuf bytes that are no message of the expected type.
    #[error("protobuf{path}: {problem}")]
    MalformedProtobuf {
        /// Where in the decoded object.
        path: String,
        /// What is wrong there.
        problem: String,
    },
    /// A value that does not fit the message it shall be encoded as.
    #[error("cannot encode{path}: {problem}")]
    NotEncodable {
        /// Where in the object.
        path: String,
        /// What is wrong there.
        problem: String,
    },
    /// A kind without a built-in type.
    #[error("no built-in kind {kind} in {api_version}")]
    UnknownKind {
        /// Group and version, as `apiVersion` spells it.
        api_version: String,
        /// The kind.
        kind: String,
    },
    /// A label or field selector that cannot be read; the message is Kubernetes' own.
    #[error("{0}")]
    Selector(String),
    /// The data compiled into the crate does not decode.
    #[error("the built-in schema data is damaged: {0}")]
    DamagedData(String),
}

impl Error {
    /// A stable word for the cause.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::MalformedSchema { .. } => "MalformedSchema",
            Self::NoEnvelope(_) => "NoEnvelope",
            Self::MalformedProtobuf { .. } => "MalformedProtobuf",
            Self::NotEncodable { .. } => "NotEncodable",
            Self::UnknownKind { .. } => "UnknownKind",
            Self::Selector(_) => "InvalidSelector",
            Self::DamagedData(_) => "DamagedData",
        }
    }
}
