//! The functions of Helm's templates: all of sprig, and Helm's own that need no chart.
//!
//! [`register`] adds them to a table of the template engine, each with its Go signature. What is
//! left to Helm itself: `include`, `tpl`, `required`, `lookup`, and the wording of `fail`.
//!
//! Time and randomness come from a [`Source`] that the caller keeps in the state of an execution.
//!
//! ```
//! use everflow_gotemplate::Functions;
//! use everflow_sprig::{FixedSource, Source, register};
//!
//! let mut functions = Functions::new();
//! register(&mut functions, |context| {
//!     context.state::<FixedSource>().map(|source| source as &mut dyn Source)
//! });
//! assert!(functions.get("nindent").is_some());
//! ```
#![forbid(unsafe_code)]

pub mod cost;
mod crypto;
mod decimal;
mod encoding;
mod formats;
mod functions;
mod number;
mod objects;
mod path;
mod regexp;
mod source;
mod support;
mod text;
mod time;
mod url;

use everflow_gotemplate::{Context, Functions};

pub use objects::{DURATION, DurationObject, TIME, TimeObject};
pub use regexp::Bounded as BoundedRegex;
pub use source::{FixedSource, Source};
pub use time::{Duration, Time};

/// Finds the source of time and randomness in the state of an execution.
pub type SourceOf = for<'c, 's> fn(&'c mut Context<'s>) -> Option<&'c mut dyn Source>;

/// Adds all functions to a table. `source` tells where the state of an execution has its
/// [`Source`]; functions that need one fail without it.
pub fn register(functions: &mut Functions, source: SourceOf) {
    functions::register(functions, source);
}
