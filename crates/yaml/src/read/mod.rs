//! Reading: bytes, characters, tokens, events, trees.

mod chars;
mod comments;
mod fetch;
mod input;
mod number;
mod parse_block;
mod parse_flow;
mod parser;
mod resolve;
mod scan_block;
mod scan_property;
mod scan_scalar;
mod scanner;
mod stack;
mod timestamp;
mod token;
mod tree;

pub(crate) use input::Input;
pub(crate) use parser::{EventKind, Parser};
pub(crate) use resolve::{resolve_plain, resolve_tagged, tag_of};
pub(crate) use timestamp::Timestamp;
pub(crate) use tree::TreeBuilder;
