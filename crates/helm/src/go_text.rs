//! Go's ways of writing values into messages.

use everflow_gotemplate::{FuncError, Meter, Value, gofmt};

/// One value by one verb.
pub(crate) fn formatted(verb: &str, value: Value, meter: &Meter<'_>) -> Result<String, FuncError> {
    match gofmt::sprintf(verb.as_bytes(), &[value], meter) {
        Ok(text) => Ok(text.to_str_lossy().into_owned()),
        Err(error) if error.exceeded().is_some() => Err(error),
        // A value that contains itself has no text, and values from files do not.
        Err(error) => Ok(error.to_string()),
    }
}

/// Text in double quotes, as `%q` prints it.
pub(crate) fn quoted(text: &str) -> String {
    gofmt::quote(text.as_bytes())
}
