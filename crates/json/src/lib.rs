//! JSON as trees that are cheap to copy.
//!
//! The trees of `serde_json` cost a piece of memory for every key and every string, and a large one for every map.
//! Kubernetes objects are many small maps with short keys: here a map is one sorted list, and text of up to 23 bytes
//! stands in it directly; longer text is shared by its copies. Reading, copying, comparing and dropping an object
//! takes a fraction of the time.
//!
//! The names are those of `serde_json`, which reads and writes the text of all that is not a tree; [`text`] is for trees.

#![forbid(unsafe_code)]

mod access;
mod convert;
mod from_tree;
mod macros;
#[doc(hidden)]
pub use macros::written;
pub mod map;
mod read;
pub mod text;
mod to_tree;
mod value;

pub use serde_json::{
    Deserializer, Error, Number, Result, Serializer, from_slice, from_str, to_string,
    to_string_pretty, to_vec, to_vec_pretty, to_writer,
};
/// Text that is cheap to copy.
pub use smol_str::SmolStr as Text;
/// Formats a [`Text`].
pub use smol_str::format_smolstr as format_text;

pub use access::Index;
pub use from_tree::from_value;
pub use map::{Entry, Map, is_same};
pub use to_tree::to_value;
#[doc(hidden)]
pub use to_tree::value_of;
pub use value::Value;
