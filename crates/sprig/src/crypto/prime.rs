//! Large prime numbers.

use std::sync::OnceLock;

use num_bigint_dig::prime::probably_prime;
use num_bigint_dig::{BigUint, RandBigInt};

use super::fermat;
use crate::source::Random;

/// Candidates are first divided by all primes below this.
const SIEVE_LIMIT: usize = 1 << 14;
/// Rounds of the probabilistic test; a strong Lucas test follows them. For random candidates of
/// these sizes that leaves a chance of error below 2^-100.
const ROUNDS: usize = 5;
/// How many odd numbers to look at from a random start before taking a new one.
const SPAN: usize = 1 << 12;

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
        for delta in survivors(&start) {
            let candidate = &start + delta;
            if candidate.bits() != bits {
                break;
            }
            // The quick test wants whole limbs.
            let quick = bits.is_multiple_of(64);
            if quick && !fermat::passes(&limbs(&candidate)) {
                continue;
            }
            if probably_prime(&candidate, ROUNDS) {
                return candidate;
            }
        }
    }
}

/// The even distances from `start` at which no small prime divides.
fn survivors(start: &BigUint) -> impl Iterator<Item = u64> + use<> {
    let mut struck = vec![false; SPAN];
    let words: Vec<u32> = start
        .to_bytes_be()
        .rchunks(4)
        .rev()
        .map(|bytes| {
            bytes
                .iter()
                .fold(0, |word, byte| word << 8 | u32::from(*byte))
        })
        .collect();
    // Two primes at once: their product still fits into half a machine word.
    for pair in small_primes()[1..].chunks(2) {
        let product: u64 = pair.iter().product();
        let rest = words
            .iter()
            .fold(0, |rest, word| (rest << 32 | u64::from(*word)) % product);
        for prime in pair {
            // The first even distance that makes a multiple, counted in twos.
            let missing = (prime - rest % prime) % prime;
            let first = match missing % 2 {
                0 => missing / 2,
                _ => (missing + prime) / 2,
            };
            for index in (first as usize..SPAN).step_by(*prime as usize) {
                struck[index] = true;
            }
        }
    }
    let whole = struck.into_iter().enumerate();
    whole.filter_map(|(index, struck)| (!struck).then_some(2 * index as u64))
}

/// The limbs of a number, the lowest first.
fn limbs(number: &BigUint) -> Vec<u64> {
    number
        .to_bytes_le()
        .chunks(8)
        .map(|bytes| {
            bytes
                .iter()
                .rev()
                .fold(0, |limb, byte| limb << 8 | u64::from(*byte))
        })
        .collect()
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

    #[test]
    fn what_survives_has_no_small_factor_and_nothing_else_is_lost() {
        let start = BigUint::from(0xffff_ffff_ffff_0001u64);
        let left: Vec<u64> = survivors(&start).take(50).collect();
        for delta in (0..*left.last().unwrap()).step_by(2) {
            let number = &start + delta;
            let divisible = small_primes()
                .iter()
                .any(|prime| remainder(&number, *prime) == 0);
            assert_eq!(left.contains(&delta), !divisible, "{delta}");
        }
    }
}
