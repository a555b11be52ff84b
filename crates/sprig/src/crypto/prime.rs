//! Large prime numbers.

use std::num::NonZeroU32;

use crypto_bigint::BoxedUint;
use crypto_primes::hazmat::SmallFactorsSieve;
use crypto_primes::{Flavor, is_prime};
use everflow_gotemplate::{FuncError, Meter};
use num_bigint_dig::BigUint;

use crate::source::Random;

/// Numbers are first divided by all primes below this.
const SMALL: u32 = 256;

/// A random prime of exactly that many bits, a multiple of eight, the highest two of which are set so
/// that the product of two such primes has twice as many.
pub(crate) fn random_prime(
    bits: u32,
    random: &mut Random<'_>,
    meter: &Meter<'_>,
) -> Result<BigUint, FuncError> {
    loop {
        let mut bytes = vec![0; bits as usize / 8];
        random.0.fill(&mut bytes);
        if let Some(highest) = bytes.first_mut() {
            *highest |= 0xc0;
        }
        let start = number(&bytes, bits)?;
        let most = NonZeroU32::new(bits).unwrap_or(NonZeroU32::MIN);
        let sieve =
            SmallFactorsSieve::new(start, most, false).map_err(|error| error.to_string())?;
        for candidate in sieve {
            meter.steps(steps(bits))?;
            if is_prime(Flavor::Any, &candidate) {
                return Ok(BigUint::from_bytes_be(&candidate.to_be_bytes()));
            }
        }
    }
}

/// Whether large numbers are prime, as far as can be told.
pub(crate) struct Primality {
    small_primes: Vec<u32>,
}

impl Primality {
    pub(crate) fn new() -> Self {
        let is_prime = |number: &u32| (2..*number).all(|divisor| !number.is_multiple_of(divisor));
        Primality {
            small_primes: (2..SMALL).filter(is_prime).collect(),
        }
    }

    pub(crate) fn test(&self, number: &BigUint, meter: &Meter<'_>) -> Result<bool, FuncError> {
        let nothing = BigUint::from(0_u32);
        let divisible = |prime: &u32| number % *prime == nothing;
        if self.small_primes.iter().any(divisible) {
            return Ok(false);
        }
        let bits = u32::try_from(number.bits()).unwrap_or(u32::MAX);
        meter.steps(steps(bits))?;
        let number = self::number(&number.to_bytes_be(), bits.next_multiple_of(8))?;
        Ok(is_prime(Flavor::Any, &number))
    }
}

fn number(bytes: &[u8], bits: u32) -> Result<BoxedUint, FuncError> {
    BoxedUint::from_be_slice(bytes, bits).map_err(|error| error.to_string().into())
}

/// What the test of a number of so many bits takes; it is the third power of their count.
fn steps(bits: u32) -> u64 {
    let words = u64::from(bits / 64);
    words * words * words / 20
}

#[cfg(test)]
mod tests {
    use everflow_gotemplate::Limits;
    use everflow_limits::Budget;

    use super::*;
    use crate::source::FixedSource;

    #[test]
    fn primes_have_the_size_asked_for() {
        let budget = Budget::unlimited();
        let meter = Meter::new(&Limits::default(), &budget);
        let mut source = FixedSource::new(0, 0, 7);
        let primality = Primality::new();
        for bits in [256, 1024] {
            let prime = random_prime(bits, &mut Random(&mut source), &meter).unwrap();
            assert_eq!(prime.bits(), bits as usize);
            assert!((&prime >> (bits as usize - 2)) == BigUint::from(3_u32));
            assert!(primality.test(&prime, &meter).unwrap());
            assert!(!primality.test(&(&prime + 1_u32), &meter).unwrap());
            assert!(!primality.test(&(&prime * 257_u32), &meter).unwrap());
        }
    }

    #[test]
    fn known_primes_pass_and_others_do_not() {
        let budget = Budget::unlimited();
        let meter = Meter::new(&Limits::default(), &budget);
        let primality = Primality::new();
        // The largest primes of two limbs.
        for less in (1_u128..400).step_by(2) {
            let number = BigUint::from_bytes_be(&(u128::MAX - (less - 1)).to_be_bytes());
            let is_prime = [159, 173, 233, 237, 275, 357].contains(&less);
            assert_eq!(
                primality.test(&number, &meter).unwrap(),
                is_prime,
                "2^128 - {less}"
            );
        }
    }
}
