//! Where the first value of a JSON stream ends.

use super::error::JsonError;
use super::scan::Scanner;

/// How many bytes the first value takes, with the white space before it.
pub(crate) fn first_value_length(text: &[u8]) -> Result<usize, JsonError> {
    let mut scanner = Scanner::new(text);
    while scanner.next()?.is_some() {}
    Ok(scanner.offset())
}
