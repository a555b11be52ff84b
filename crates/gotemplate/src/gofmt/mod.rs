//! Go's `fmt` and `strconv` for template values.

mod quote;
mod unicode_tables;

pub use quote::{decode_rune, is_digit, is_letter, is_print, quote, quote_to_ascii, unquote};
