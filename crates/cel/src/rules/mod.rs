//! Rules on custom resources: `x-kubernetes-validations` of structural schemas.
//!
//! [`check_definition`] says what is wrong with the rules of a schema, [`Rules`] holds them
//! compiled and checks objects by them.

mod compile;
mod decl;
mod definition;
mod validate;
mod value;

pub use definition::check_definition;
pub use validate::{Findings, Rules};

use std::sync::Arc;

use everflow_schema::Schema;

use crate::check::{DeclType, Declarations};

/// The variables of rules at the root of a schema; nothing when rules cannot see it.
pub fn declarations(schema: &Schema) -> Option<Declarations> {
    let decl: Arc<DeclType> = decl::declared(&schema.types, schema.root, true)?;
    Some(compile::variables(&decl, false))
}
