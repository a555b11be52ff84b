//! What can go wrong.

use crate::apply::Conflicts;
use crate::typed::FieldErrors;

/// The error of this crate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// A document nests too deeply.
    #[error("the document nests deeper than {limit} levels")]
    TooDeep {
        /// The bound.
        limit: usize,
    },
    /// A JSON patch is not a list.
    #[error("json: cannot unmarshal {found} into Go value of type []handlers.jsonPatchOp")]
    PatchNotAList {
        /// The JSON kind found.
        found: &'static str,
    },
    /// An operation of a JSON patch is not an object.
    #[error("json: cannot unmarshal {found} into Go value of type handlers.jsonPatchOp")]
    PatchOperationNotAnObject {
        /// The JSON kind found.
        found: &'static str,
    },
    /// A JSON patch has too many operations.
    #[error(
        "The allowed maximum operations in a JSON patch is {}, got {count}",
        crate::json_patch::MAX_OPERATIONS
    )]
    TooManyOperations {
        /// The number of operations found.
        count: usize,
    },
    /// A JSON patch does not apply.
    #[error("{message}")]
    JsonPatch {
        /// Which operation failed and why.
        message: String,
    },
    /// A merge patch is not an object.
    #[error("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}")]
    MergePatchNotAnObject {
        /// The JSON kind found.
        found: &'static str,
    },
    /// A document does not fit its schema.
    #[error("{0}")]
    Typed(#[from] FieldErrors),
    /// The schema has no root type.
    #[error("the schema has no type for the object")]
    NoType,
    /// An entry of `metadata.managedFields` cannot be read.
    #[error("{reason}")]
    ManagedFields {
        /// What is wrong with it.
        reason: String,
    },
    /// An apply request is malformed; the server answers 400.
    #[error("{message}")]
    BadRequest {
        /// The message of the answer.
        message: String,
    },
    /// Other managers own what an apply would change; the server answers 409.
    #[error("{0}")]
    Conflict(#[source] Conflicts),
    /// An apply failed; the server answers 500.
    #[error("{message}")]
    Apply {
        /// The message of the answer.
        message: String,
    },
    /// A strategic merge patch does not apply or cannot be made.
    #[error("{message}")]
    Strategic {
        /// What is wrong with it.
        message: String,
    },
    /// A directive of a strategic merge patch is malformed; the server answers 400.
    #[error("{message}")]
    StrategicFormat {
        /// Which one.
        message: &'static str,
    },
    /// A strategic merge patch for lists in lists; the server answers 422.
    #[error("lists of lists are not supported")]
    StrategicListOfLists,
    /// A `fieldsV1` document cannot be read.
    #[error("error decoding set: {reason}")]
    FieldsV1 {
        /// What is wrong with it.
        reason: String,
    },
}
