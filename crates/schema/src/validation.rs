//! Value constraints of structural schemas.

use everflow_json::Value;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::model::TypeId;

/// The value constraints of one schema node.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Validation {
    /// `enum`
    #[serde(with = "crate::json_text::list")]
    pub enum_values: Vec<Value>,
    /// `format`, as declared
    pub format: Option<SmolStr>,
    /// `pattern`
    pub pattern: Option<SmolStr>,
    /// `minimum`
    #[serde(with = "crate::json_text")]
    pub minimum: Option<Value>,
    /// `exclusiveMinimum`
    pub exclusive_minimum: bool,
    /// `maximum`
    #[serde(with = "crate::json_text")]
    pub maximum: Option<Value>,
    /// `exclusiveMaximum`
    pub exclusive_maximum: bool,
    /// `multipleOf`
    #[serde(with = "crate::json_text")]
    pub multiple_of: Option<Value>,
    /// `minLength`
    pub min_length: Option<i64>,
    /// `maxLength`
    pub max_length: Option<i64>,
    /// `minItems`
    pub min_items: Option<i64>,
    /// `maxItems`
    pub max_items: Option<i64>,
    /// `uniqueItems`
    pub unique_items: bool,
    /// `minProperties`
    pub min_properties: Option<i64>,
    /// `maxProperties`
    pub max_properties: Option<i64>,
    /// `allOf`: nodes that hold value constraints only
    pub all_of: Vec<TypeId>,
    /// `anyOf`
    pub any_of: Vec<TypeId>,
    /// `oneOf`
    pub one_of: Vec<TypeId>,
    /// `not`
    pub not: Option<TypeId>,
    /// `x-kubernetes-validations`
    pub rules: Vec<CelRule>,
}

/// One rule of `x-kubernetes-validations`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CelRule {
    /// The CEL expression.
    pub rule: SmolStr,
    /// The fixed message.
    pub message: Option<SmolStr>,
    /// A CEL expression that makes the message.
    pub message_expression: Option<SmolStr>,
    /// The reason of the error (`FieldValueInvalid` when absent).
    pub reason: Option<SmolStr>,
    /// The field that the error names, relative to the node.
    pub field_path: Option<SmolStr>,
    /// `optionalOldSelf`
    pub optional_old_self: Option<bool>,
}
