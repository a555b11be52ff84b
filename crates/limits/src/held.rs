//! Charges that end by themselves.

use crate::{Budget, Exceeded};

/// Bytes that are charged for as long as this lives.
#[derive(Debug)]
pub struct Held<'a> {
    budget: &'a Budget,
    bytes: usize,
}

impl Budget {
    /// Charges bytes that are freed when the answer is dropped: copies and texts on the way to a result.
    pub fn hold(&self, bytes: usize) -> Result<Held<'_>, Exceeded> {
        self.charge(bytes)?;
        Ok(Held {
            budget: self,
            bytes,
        })
    }
}

impl Held<'_> {
    /// Charges for more.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Exceeded> {
        self.budget.charge(bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Leaves so many bytes charged for good: what was made of the rest is kept.
    pub fn keep(mut self, bytes: usize) -> Result<(), Exceeded> {
        if bytes > self.bytes {
            let more = bytes - self.bytes;
            self.grow(more)?;
        }
        self.bytes -= bytes;
        Ok(())
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.budget.release(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use crate::{Budget, Stop};

    #[test]
    fn held_memory_is_released_except_what_is_kept() {
        let budget = Budget::new(Stop::new(), 100);
        let mut held = budget.hold(60).unwrap();
        held.grow(30).unwrap();
        assert!(held.grow(30).is_err());
        assert_eq!(budget.used(), 90);
        held.keep(20).unwrap();
        assert_eq!(budget.used(), 20);
        budget.hold(10).unwrap().keep(50).unwrap();
        assert_eq!(budget.used(), 70);
        assert!(budget.hold(31).is_err());
        drop(budget.hold(30).unwrap());
        assert_eq!(budget.used(), 70);
    }
}
