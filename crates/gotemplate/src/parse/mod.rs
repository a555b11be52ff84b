//! From text to the parsed form.

pub(crate) mod ast;
mod lexer;
mod number;
mod operand;
mod parser;
pub(crate) mod render;

pub(crate) use lexer::Delimiters;
pub(crate) use parser::{Parse, parse};
