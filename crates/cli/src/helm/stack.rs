//! Where charts are rendered: on the main thread if its stack will do, else on a thread with a large
//! stack.
//!
//! A thread of its own costs more than it seems: memory comes from an arena that the system grows in
//! small steps. Nearly all charts nest so little that the stack of the main thread is enough.

use everflow_helm::{Limits, on_large_stack};

use crate::exit::Failure;

/// Enough for templates that include themselves as often as helm lets them.
pub const STACK_BYTES: usize = 256 << 20;

/// What systems give the main thread. A process may have been started with less.
const USUAL_MAIN_STACK_BYTES: u64 = 8 << 20;

/// What templates may use up on a large stack; a quarter of it is left to the functions they call.
pub fn render_limits() -> Limits {
    Limits {
        stack_bytes: STACK_BYTES / 4 * 3,
        ..Limits::default()
    }
}

/// What templates may use up on the main thread: a bit more than half of its usual stack.
fn main_thread_limits() -> Limits {
    Limits {
        stack_bytes: 5 << 20,
        ..Limits::default()
    }
}

/// What came of a run, and whether templates nested too deep for its limits.
pub struct Attempt<T> {
    pub result: T,
    pub is_too_deep: bool,
}

/// Runs `work` on the main thread; if its templates nest too deep, once more with a large stack.
pub fn with_enough_stack<T: Send>(
    work: impl Fn(&Limits) -> Attempt<T> + Sync,
) -> Result<T, Failure> {
    if main_stack_is_usual() {
        let attempt = work(&main_thread_limits());
        if !attempt.is_too_deep {
            return Ok(attempt.result);
        }
    }
    Ok(on_large_stack(STACK_BYTES, || {
        work(&render_limits()).result
    })?)
}

#[cfg(unix)]
fn main_stack_is_usual() -> bool {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Stack);
    limit
        .current
        .is_none_or(|bytes| bytes >= USUAL_MAIN_STACK_BYTES)
}

#[cfg(not(unix))]
fn main_stack_is_usual() -> bool {
    false
}
