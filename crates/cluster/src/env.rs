//! Time and randomness, handed in from outside so that a run can be repeated exactly.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::time::Timestamp;

pub use everflow_builtins::Environment;

/// The machine's clock and its source of randomness.
#[derive(Debug, Default)]
pub struct SystemEnvironment;

impl SystemEnvironment {
    /// The machine's own.
    pub fn new() -> Self {
        SystemEnvironment
    }
}

impl Environment for SystemEnvironment {
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp::from_micros(since.as_micros() as i64)
    }

    fn random(&self) -> u64 {
        // Tokens are made of this: without the system's randomness nothing may be made up.
        getrandom::u64().unwrap_or_else(|_| std::process::abort())
    }
}

/// A clock that moves only when told to, and a seeded sequence of bits.
#[derive(Debug)]
pub struct ManualEnvironment {
    micros: AtomicI64,
    generator: Mutex<u64>,
}

impl ManualEnvironment {
    /// Starts at `start` with the given seed.
    pub fn new(start: Timestamp, seed: u64) -> Self {
        ManualEnvironment {
            micros: AtomicI64::new(start.micros()),
            generator: Mutex::new(seed),
        }
    }

    /// Moves the clock forward.
    pub fn advance_micros(&self, micros: i64) {
        self.micros.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Environment for ManualEnvironment {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.micros.load(Ordering::SeqCst))
    }

    fn random(&self) -> u64 {
        let mut state = self
            .generator
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        split_mix(&mut state)
    }
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut bits = *state;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

/// A random (version 4) UUID.
pub fn new_uid(env: &dyn Environment) -> String {
    let (high, low) = (env.random(), env.random());
    let high = (high & 0xffff_ffff_ffff_0fff) | 0x4000;
    let low = (low & 0x3fff_ffff_ffff_ffff) | 0x8000_0000_0000_0000;
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}

/// The characters of generated suffixes: no vowels and no look-alikes, so no words appear.
const SUFFIX_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// The five characters appended to `generateName`.
pub fn name_suffix(env: &dyn Environment) -> String {
    let mut bits = env.random();
    (0..5)
        .map(|_| {
            let index = (bits % SUFFIX_ALPHABET.len() as u64) as usize;
            bits /= SUFFIX_ALPHABET.len() as u64;
            char::from(SUFFIX_ALPHABET[index])
        })
        .collect()
}
