//! Structural schemas of custom resources: reading, pruning, defaulting, validating.
//!
//! The order in which an API server uses these: [`prune`] what the schema does not know,
//! [`prune_nulls`] and [`apply_defaults`], then [`Validator`] for the values, [`check_embedded`]
//! and [`check_lists`]. Rules in CEL come last and only when [`blocks_rules`] says so; where they
//! stand tells [`rules`].

mod defaults;
mod embedded;
mod field_error;
mod fits;
mod formats;
mod lists;
mod numbers;
mod parse;
mod pattern;
mod prune;
mod ratchet;
mod report;
mod rules;
mod settled;
mod validate;

pub use defaults::{apply_defaults, prune_nulls};
pub use embedded::{check_embedded, embedded_type_error};
pub(crate) use field_error::NO_FIELD;
pub use field_error::{BadValue, FieldError, FieldErrorKind, blocks_rules, rules_not_checked};
pub use formats::{is_known_format, matches_format};
pub use lists::check_lists;
pub(crate) use parse::parse;
pub use pattern::{Pattern, PatternError, Patterns};
pub use prune::{Prune, prune};
pub use ratchet::Before;
pub use rules::{RuleSite, rules};
pub use settled::is_settled;
pub use validate::Validator;
