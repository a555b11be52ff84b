//! Go's `fmt` and `strconv` for template values.

mod flags;
mod float;
mod format;
mod printer;

use everflow_gotext as quote;

pub(crate) use everflow_gotext::{RUNE_ERROR, unquote_char};
pub use everflow_gotext::{
    decode_rune, is_digit, is_letter, is_print, quote, quote_rune, quote_to_ascii, unquote,
};
pub use float::{FloatSize, format_float};
pub(crate) use format::{Methods, append_printable};
pub use format::{append_print, sprint, sprintf, sprintln};
