//! Go's `text/template` (Go 1.26) with Go's own values, formatting and error texts.
//!
//! * [`Value`] is a Go value: typed numbers, byte strings, shared mutable maps, typed slices, objects
//!   with fields and methods.
//! * [`Functions`] holds what templates may call, each with its Go [`Signature`], against which calls
//!   are checked as Go's reflection does.
//! * [`Templates`] is a set of parsed templates; it is executed with a value as dot.
//! * [`Meter`] holds executions to their [`Limits`] and to a budget of memory and time.
//! * [`gofmt`] prints values as Go's `fmt` and `strconv` do.
//!
//! The engine has no I/O, no clock and no randomness; functions get those from the state that the
//! caller of an execution owns.
#![forbid(unsafe_code)]

mod error;
mod exec;
mod function;
pub mod gofmt;
mod json;
mod list;
mod map;
mod meter;
mod object;
mod parse;
mod stack;
mod templates;
mod text;
mod types;
mod value;

pub use error::{Error, FuncError};
pub use exec::{Limits, on_large_stack};
pub use function::{Args, Code, Context, FuncResult, Function, Functions, Signature};
pub use json::Numbers;
pub use list::List;
pub use map::Map;
pub use meter::{
    BYTES_OF_A_STEP, CONTAINER_BYTES, ENTRY_BYTES, Held, ITEM_BYTES, JSON_BYTES, Meter,
    entry_bytes, map_bytes, text_bytes,
};
pub use object::Object;
pub use templates::{MissingKey, Templates};
pub use text::GoStr;
pub use types::{GoType, Kind, Method, NamedType};
pub use value::Value;
