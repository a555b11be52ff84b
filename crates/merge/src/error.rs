//! What can go wrong.

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
    /// A `fieldsV1` document cannot be read.
    #[error("error decoding set: {reason}")]
    FieldsV1 {
        /// What is wrong with it.
        reason: String,
    },
}
