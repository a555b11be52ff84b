//! Paths that do not follow the common rules.

use super::Call;
use super::request::Answer;
use crate::status::ApiResult;

/// Answers a request that needs its own handling.
pub fn run(_call: &Call<'_>) -> ApiResult<Option<Answer>> {
    Ok(None)
}
