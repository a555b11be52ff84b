//! Large prime numbers.

use std::sync::OnceLock;

use num_bigint_dig::prime::probably_prime;
use num_bigint_dig::{BigUint, RandBigInt};

use crate::source::Random;

/// Candidates are first divided by all primes below this.
const SIEVE_LIMIT: usize = 1 << 14;
/// Rounds of the probabilistic test; a strong Lucas test follows them. For random candidates of
/// these sizes that leaves a chance of error below 2^-100.
const ROUNDS: usize = 5;
/// How far to search from a random start before taking a new one.
const SPAN: u64 = 1 << 16;

fn small_primes() -> &'static [u64] {
    static PRIMES: OnceLock<Vec<u64>> = OnceLock::new();
    PRIMES.get_or_init(|| {
        let mut composite = vec![false; SIEVE_LIMIT];
        let mut primes = Vec::new();
        for number in 2..SIEVE_LIMIT {
            if composite[number] {
                continue;
            }
            primes.push(number as u64);
            for multiple in (number * number..SIEVE_LIMIT).step_by(number) {
                composite[multiple] = true;
            }
        }
        primes
    })
}

fn remainder(number: &BigUint, divisor: u64) -> u64 {
    let bytes = (number % divisor).to_bytes_be();
    bytes
        .iter()
        .fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// Whether a large number is prime, as far as can be told.
pub(crate) fn is_prime(number: &BigUint) -> bool {
    let divisible = |prime: &u64| remainder(number, *prime) == 0;
    !small_primes().iter().any(divisible) && probably_prime(number, ROUNDS)
}

/// A random prime of exactly that many bits, the highest two of which are set so that the product
/// of two such primes has twice as many.
pub(crate) fn random_prime(bits: usize, random: &mut Random<'_>) -> BigUint {
    let one = BigUint::from(1u32);
    loop {
        let start = random.gen_biguint(bits) | (BigUint::from(3u32) << (bits - 2)) | &one;
        let remainders: Vec<(u64, u64)> = small_primes()
            .iter()
            .map(|&prime| (prime, remainder(&start, prime)))
            .collect();
        for delta in (0..SPAN).step_by(2) {
            if remainders
                .iter()
                .any(|(prime, rest)| (rest + delta) % prime == 0)
            {
                continue;
            }
            let candidate = &start + delta;
            if candidate.bits() != bits {
                break;
            }
            if probably_prime(&candidate, ROUNDS) {
                return candidate;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::FixedSource;

    #[test]
    fn primes_have_the_size_asked_for() {
        let mut source = FixedSource::new(0, 0, 7);
        let prime = random_prime(256, &mut Random(&mut source));
        assert_eq!(prime.bits(), 256);
        assert!(is_prime(&prime));
        assert!(!is_prime(&(&prime + 1u32)));
    }
}
