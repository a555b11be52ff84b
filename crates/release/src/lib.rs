//! What a HelmRelease asks for and what Helm's actions do, as pure functions.
#![forbid(unsafe_code)]

pub mod action;
pub mod chart_version;
pub mod decide;
pub mod digest;
mod error;
pub mod helm_chart;
pub mod manifest;
pub mod names;
pub mod record;
pub mod remedy;
pub mod render;
pub mod state;
pub mod status;
pub mod values;

pub use error::{Error, Unreadable, ValuesProblem};
