//! JSON text as Go's `encoding/json` writes and reads it.
//!
//! Kubernetes objects meet JSON text everywhere: annotations that hold the last applied object,
//! digests, API responses, `kubectl -o json`. Each is compared byte for byte with what Go printed,
//! and `serde_json` prints floats, HTML characters and line separators another way.

mod error;
mod escape;
mod exact;
mod first;
mod float;
mod parse;
mod pieces;
mod reformat;
mod scan;
mod typed;
mod write;

pub use error::JsonError;
pub use escape::{HtmlEscape, write_escaped, write_escaped_bytes};
pub use exact::canonical;
pub use float::{format_f32, format_f64, format_shortest, numbers_as_f64};
pub use parse::{Numbers, parse, parse_first};
pub use pieces::is_valid;
pub use reformat::{compact, indent};
pub use typed::{GoField, GoStruct, GoType, reprint};
pub use write::{pretty, pretty_no_html, to_string, to_string_no_html};

pub(crate) use first::first_value_length;
pub(crate) use float::{push_json_f64, push_shortest_f64};
pub(crate) use pieces::{Piece, each_piece};
