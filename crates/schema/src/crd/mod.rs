//! Checks definitions of custom resources as the API server checks them.
//!
//! Rules in CEL are compiled elsewhere: [`Checked::rule_schemas`] names the schemas whose rules are
//! worth compiling and the path at which their errors stand.

mod approval;
mod definition;
mod field_path;
mod keywords;
mod node;
mod schema;
mod schema_defaults;
mod structure;

pub use approval::approval_condition;
pub use definition::{Checked, check_definition, check_definition_update, set_definition_defaults};
