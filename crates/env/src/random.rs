//! Chance.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// A source of random bits.
pub trait Random: Send + Sync + fmt::Debug {
    /// The next 64 bits.
    fn next(&self) -> u64;

    /// A number from 0 up to, but not including, 1.
    fn unit(&self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// The machine's source, fit for secrets.
#[derive(Debug)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn next(&self) -> u64 {
        // The kernel's source fails only before it is seeded at boot; then the address of a local
        // and the time would be no better than a constant.
        getrandom::u64().unwrap_or(0x9e37_79b9_7f4a_7c15)
    }
}

/// The same sequence for the same seed (SplitMix64). Not for secrets.
#[derive(Debug)]
pub struct SeededRandom {
    state: AtomicU64,
}

impl SeededRandom {
    /// A sequence of its own for each seed.
    pub fn new(seed: u64) -> Self {
        SeededRandom {
            state: AtomicU64::new(seed),
        }
    }
}

impl Random for SeededRandom {
    fn next(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut bits = self
            .state
            .fetch_add(STEP, Ordering::Relaxed)
            .wrapping_add(STEP);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_fixes_the_sequence() {
        let (one, two) = (SeededRandom::new(7), SeededRandom::new(7));
        for _ in 0..100 {
            assert_eq!(one.next(), two.next());
            assert!((0.0..1.0).contains(&one.unit()));
            two.next();
        }
        assert_ne!(SeededRandom::new(1).next(), SeededRandom::new(2).next());
    }
}
