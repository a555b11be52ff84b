//! Bounds on what an execution may use.

/// What the executions of one [`Meter`](crate::Meter) may use. Each bound ends in an error.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Evaluated nodes, commands and calls, and what functions count: values visited, matches found.
    pub steps: u64,
    /// Bytes written, those of included templates counted each time they are written.
    pub output_bytes: u64,
    /// Bytes of text that functions return, counted each time.
    pub text_bytes: u64,
    /// Nesting of `{{template}}` and of rendering functions such as `include`.
    pub depth: usize,
    /// Native stack. It must leave room for the functions that templates call; see
    /// [`on_large_stack`] for more than the default of 1 MiB.
    pub stack_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            steps: 100_000_000,
            output_bytes: 256 << 20,
            text_bytes: 1 << 30,
            depth: 100_000,
            stack_bytes: 1 << 20,
        }
    }
}

/// Runs a function on a thread of its own with a stack of that size, for charts that nest deep.
/// A quarter of it should be left to functions: use three quarters as [`Limits::stack_bytes`].
///
/// Fails when the system gives no thread.
pub fn on_large_stack<T: Send>(
    bytes: usize,
    work: impl FnOnce() -> T + Send,
) -> std::io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("templates".to_owned())
            .stack_size(bytes)
            .spawn_scoped(scope, work)?;
        match thread.join() {
            Ok(result) => Ok(result),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}
