//! What is told about the progress of work: on standard error, so that results can be piped.

use std::io::Write as _;

/// A line without a symbol.
pub fn plain(text: &str) {
    // Nobody to tell is no reason to stop.
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn line(symbol: &str, text: &str) {
    plain(&format!("{symbol} {text}"));
}

/// Something begins.
pub fn action(text: &str) {
    line("►", text);
}

/// Something is made.
pub fn generation(text: &str) {
    line("✚", text);
}

/// Something is waited for.
pub fn waiting(text: &str) {
    line("◎", text);
}

/// Something is done.
pub fn success(text: &str) {
    line("✔", text);
}

/// Something is not as it should be.
pub fn warning(text: &str) {
    line("⚠️", text);
}

/// Something went wrong, and the work goes on.
pub fn failure(text: &str) {
    line("✗", text);
}
