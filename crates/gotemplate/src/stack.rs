//! Measures the native stack, so that deep nesting ends in an error and not in an overflow.

/// Remembers where the stack stood and how much may be used from there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StackMeter {
    base: usize,
    budget: usize,
}

/// The address of something on the stack, near enough to its end.
#[inline(never)]
fn stack_address() -> usize {
    let marker = 0u8;
    std::hint::black_box(std::ptr::from_ref(&marker)).addr()
}

impl StackMeter {
    /// Starts to count here.
    pub fn start(budget: usize) -> Self {
        StackMeter {
            base: stack_address(),
            budget,
        }
    }

    /// Whether more than the budget is in use.
    pub fn is_exhausted(&self) -> bool {
        self.base.abs_diff(stack_address()) > self.budget
    }
}
