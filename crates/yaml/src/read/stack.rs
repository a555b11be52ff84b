//! A stack whose first entries need no allocation, for the many documents that are small.

/// Entries beyond the first `N` are in a vector.
pub(super) struct Stack<T, const N: usize> {
    first: [T; N],
    rest: Vec<T>,
    len: usize,
}

impl<T: Copy + Default, const N: usize> Stack<T, N> {
    pub(super) fn new() -> Self {
        Stack {
            first: [T::default(); N],
            rest: Vec::new(),
            len: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    pub(super) fn push(&mut self, value: T) {
        match self.first.get_mut(self.len) {
            Some(place) => *place = value,
            None => self.rest.push(value),
        }
        self.len += 1;
    }

    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<T> {
        self.len = self.len.checked_sub(1)?;
        match self.first.get(self.len) {
            Some(value) => Some(*value),
            None => self.rest.pop(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back_in_reverse_order() {
        let mut stack = Stack::<u32, 3>::new();
        (0..10).for_each(|value| stack.push(value));
        assert_eq!(stack.len(), 10);
        let popped: Vec<u32> = std::iter::from_fn(|| stack.pop()).collect();
        assert_eq!(popped, [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
        assert_eq!(stack.pop(), None);
    }
}
