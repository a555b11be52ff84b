//! Bounds on what an execution may use.

use crate::error::TOO_DEEP;
use crate::stack::StackMeter;

/// What an execution (with everything it includes) may use. Each bound ends in an error.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Evaluated nodes, commands and calls.
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

/// The use so far.
#[derive(Debug)]
pub(crate) struct Meter {
    limits: Limits,
    steps: u64,
    output: u64,
    text: u64,
    pub depth: usize,
    pub stack: StackMeter,
}

impl Meter {
    pub fn start(limits: &Limits) -> Self {
        Meter {
            limits: limits.clone(),
            steps: 0,
            output: 0,
            text: 0,
            depth: 0,
            stack: StackMeter::start(limits.stack_bytes),
        }
    }

    pub fn step(&mut self) -> bool {
        self.steps += 1;
        self.steps <= self.limits.steps
    }

    pub fn write(&mut self, bytes: usize) -> bool {
        self.output += bytes as u64;
        self.output <= self.limits.output_bytes
    }

    pub fn make_text(&mut self, bytes: usize) -> bool {
        self.text += bytes as u64;
        self.text <= self.limits.text_bytes
    }

    /// Goes one template deeper. False at the bound.
    pub fn enter(&mut self) -> bool {
        self.depth += 1;
        self.depth <= self.limits.depth && !self.stack.is_exhausted()
    }

    pub fn leave(&mut self) {
        self.depth -= 1;
    }

    pub fn step_message(&self) -> String {
        format!(
            "exceeded the limit of {} execution steps",
            self.limits.steps
        )
    }

    pub fn output_message(&self) -> String {
        let bytes = self.limits.output_bytes;
        format!("exceeded the limit of {bytes} bytes of output")
    }

    pub fn text_message(&self) -> String {
        let bytes = self.limits.text_bytes;
        format!("exceeded the limit of {bytes} bytes of text made by functions")
    }

    pub fn depth_message(&self) -> String {
        format!("{TOO_DEEP} ({})", self.depth)
    }
}
