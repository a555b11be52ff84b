//! Helm without Go: charts, values, rendering, hooks and release records.
#![forbid(unsafe_code)]

pub use everflow_gotemplate::{Limits, on_large_stack};

pub mod chart;
pub mod dependencies;
mod go_text;
pub mod index;
pub mod json_schema;
pub mod lint;
pub mod manifests;
pub mod objects;
pub mod package;
pub mod parsed;
pub mod post_render;
pub mod release;
pub mod render;
mod render_error;
pub mod strvals;
pub mod template;
pub mod values;
