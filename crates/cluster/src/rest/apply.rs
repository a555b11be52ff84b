//! Server-side apply and strategic merge patch.

use serde_json::Value;

use super::Call;
use super::options::WriteOptions;
use super::request::Answer;
use crate::status::{ApiError, ApiResult};

/// Answers an apply.
pub fn apply(_call: &Call<'_>, _options: &WriteOptions) -> ApiResult<Answer> {
    Err(ApiError::new(
        501,
        "NotImplemented",
        "server-side apply is not served yet",
    ))
}

/// The result of a strategic merge patch.
pub fn strategic(_call: &Call<'_>, _live: &Value, _options: &WriteOptions) -> ApiResult<Value> {
    Err(ApiError::new(
        501,
        "NotImplemented",
        "strategic merge patches are not served yet",
    ))
}

/// A document as Go prints it inside a message.
pub fn go_text(_call: &Call<'_>, document: &Value) -> String {
    crate::field::go_json(document)
}

/// The part of a decoding failure that names the problem.
pub fn inner_problem(message: &str) -> String {
    message
        .split_once(" cannot be handled as a ")
        .and_then(|(_, rest)| rest.split_once(": "))
        .map_or(message, |(_, problem)| problem)
        .to_owned()
}
