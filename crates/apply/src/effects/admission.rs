//! Whether the server would take a new object, without asking it.

use std::fmt;

use everflow_json::Value;
use everflow_runtime::client::Resource;

/// Knows the rules of the API server. What it admits is written at once, without a dry run; everything else is tried in
/// a dry run on the server first.
pub trait LocalAdmission: Send + Sync + fmt::Debug {
    /// Whether the server would take a new object. False means unknown: the server is asked.
    fn admits(&self, resource: &Resource, object: &Value) -> bool;
}
