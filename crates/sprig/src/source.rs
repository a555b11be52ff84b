//! Where the time and randomness of functions come from.

/// A clock and a source of random bytes, given by whoever renders. With a fixed one, output is
/// reproducible.
pub trait Source {
    /// The current time in seconds and nanoseconds since 1970.
    fn now(&mut self) -> (i64, u32);

    /// Fills a buffer with random bytes.
    fn fill(&mut self, buffer: &mut [u8]);
}

/// A source that always gives the same: one moment, and bytes that follow from a seed.
///
/// The bytes are no secret. It is for tests and for output that must not change.
#[derive(Debug, Clone)]
pub struct FixedSource {
    seconds: i64,
    nanos: u32,
    state: u64,
}

impl FixedSource {
    /// A source with a moment and a seed.
    pub fn new(seconds: i64, nanos: u32, seed: u64) -> Self {
        Self {
            seconds,
            nanos,
            state: seed,
        }
    }
}

impl Source for FixedSource {
    fn now(&mut self) -> (i64, u32) {
        (self.seconds, self.nanos)
    }

    fn fill(&mut self, buffer: &mut [u8]) {
        for chunk in buffer.chunks_mut(8) {
            // The splitmix64 generator.
            self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = self.state;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^= mixed >> 31;
            chunk.copy_from_slice(&mixed.to_le_bytes()[..chunk.len()]);
        }
    }
}

/// Random numbers from a [`Source`].
pub(crate) struct Random<'a>(pub &'a mut dyn Source);

impl Random<'_> {
    /// A number below `bound`, all equally likely; zero if the bound is.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            return 0;
        }
        let limit = u64::MAX - u64::MAX % bound;
        loop {
            let mut bytes = [0; 8];
            self.0.fill(&mut bytes);
            let number = u64::from_le_bytes(bytes);
            if number < limit {
                return number % bound;
            }
        }
    }

    /// One character out of a set.
    pub(crate) fn one_of(&mut self, set: &[u8]) -> u8 {
        set[self.below(set.len() as u64) as usize]
    }
}

impl rsa::rand_core::RngCore for Random<'_> {
    fn next_u32(&mut self) -> u32 {
        let mut bytes = [0; 4];
        self.0.fill(&mut bytes);
        u32::from_le_bytes(bytes)
    }

    fn next_u64(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    fn fill_bytes(&mut self, dest: &mut [u8]) {
        self.0.fill(dest);
    }

    fn try_fill_bytes(&mut self, dest: &mut [u8]) -> Result<(), rsa::rand_core::Error> {
        self.0.fill(dest);
        Ok(())
    }
}

/// The caller of a render decides how good its source is.
impl rsa::rand_core::CryptoRng for Random<'_> {}
