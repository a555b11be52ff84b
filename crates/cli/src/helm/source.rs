//! The machine's clock and randomness for renders.

use std::time::{SystemTime, UNIX_EPOCH};

use everflow_sprig::Source;

/// The machine's own.
pub struct SystemSource;

impl Source for SystemSource {
    fn now(&mut self) -> (i64, u32) {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => (
                i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
                since.subsec_nanos(),
            ),
            Err(_) => (0, 0),
        }
    }

    fn fill(&mut self, buffer: &mut [u8]) {
        if getrandom::fill(buffer).is_err() {
            // Without the system's randomness nothing secret may be made up.
            std::process::abort();
        }
    }
}
