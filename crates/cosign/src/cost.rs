//! What reading JSON costs: small values become much larger than their text.

use everflow_limits::{Budget, Exceeded};

/// Bytes of a value in memory, with room for lists that grow by doubling.
const VALUE: usize = 64;

/// What a JSON text may take in memory. Commas and the like in strings count too; where there are
/// many of them, there is much text.
fn of(text: &[u8]) -> usize {
    let marks = text.iter().filter(|byte| b",:[{".contains(byte)).count();
    text.len() + marks * VALUE
}

/// Memory that was charged, and is given back at the end.
pub(crate) struct Charge<'a> {
    budget: &'a Budget,
    bytes: usize,
}

impl<'a> Charge<'a> {
    /// Charges for reading these texts.
    pub(crate) fn for_texts(budget: &'a Budget, texts: &[&[u8]]) -> Result<Self, Exceeded> {
        let mut bytes = 0;
        for text in texts {
            budget.check()?;
            bytes += of(text);
        }
        budget.charge(bytes)?;
        Ok(Charge { budget, bytes })
    }
}

impl Drop for Charge<'_> {
    fn drop(&mut self) {
        self.budget.release(self.bytes);
    }
}
