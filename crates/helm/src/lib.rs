//! Helm without Go: charts, values, rendering, hooks and release records.
#![forbid(unsafe_code)]

pub mod chart;
pub mod dependencies;
mod go_text;
pub mod json_schema;
pub mod manifests;
pub mod objects;
pub mod release;
pub mod strvals;
pub mod values;
