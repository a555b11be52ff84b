//! Go's ways of writing values into messages.

use everflow_gotemplate::{Value, gofmt};

/// One value by one verb.
pub(crate) fn formatted(verb: &str, value: Value) -> String {
    match gofmt::sprintf(verb.as_bytes(), &[value]) {
        Ok(text) => text.to_str_lossy().into_owned(),
        // Only a value that contains itself has no text, and values from files do not.
        Err(error) => error.to_string(),
    }
}

/// Text in double quotes, as `%q` prints it.
pub(crate) fn quoted(text: &str) -> String {
    gofmt::quote(text.as_bytes())
}
