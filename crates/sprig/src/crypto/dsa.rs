//! DSA keys: 2048 bits with a 256-bit subgroup.

use num_bigint_dig::prime::probably_prime;
use num_bigint_dig::{BigUint, RandBigInt};

use super::der::{INTEGER, Reader, SEQUENCE, sequence, unsigned};
use crate::source::Random;

const MODULUS_BITS: usize = 2048;
const SUBGROUP_BITS: usize = 256;
const TESTS: usize = 32;

/// A private key.
#[derive(Debug, Clone)]
pub(crate) struct DsaKey {
    p: BigUint,
    q: BigUint,
    g: BigUint,
    y: BigUint,
    x: BigUint,
}

impl DsaKey {
    /// Finds new parameters and a key for them.
    pub(crate) fn generate(random: &mut Random<'_>) -> Self {
        let one = BigUint::from(1u32);
        let (p, q) = primes(random);
        let exponent = (&p - &one) / &q;
        let mut base = BigUint::from(2u32);
        let g = loop {
            let g = base.modpow(&exponent, &p);
            if g != one {
                break g;
            }
            base += 1u32;
        };
        let x = loop {
            let x = random.gen_biguint(SUBGROUP_BITS);
            if x > BigUint::from(0u32) && x < q {
                break x;
            }
        };
        let y = g.modpow(&x, &p);
        Self { p, q, g, y, x }
    }

    /// The form OpenSSL writes: a version and the five numbers.
    pub(crate) fn to_der(&self) -> Vec<u8> {
        let number = |n: &BigUint| unsigned(&n.to_bytes_be());
        sequence(&[
            &unsigned(&[]),
            &number(&self.p),
            &number(&self.q),
            &number(&self.g),
            &number(&self.y),
            &number(&self.x),
        ])
    }

    pub(crate) fn from_der(der: &[u8]) -> Option<Self> {
        let mut numbers = Reader(Reader(der).expect(SEQUENCE)?);
        numbers.expect(INTEGER)?;
        let mut number = || numbers.expect(INTEGER).map(BigUint::from_bytes_be);
        let (p, q, g, y, x) = (number()?, number()?, number()?, number()?, number()?);
        Some(Self { p, q, g, y, x })
    }
}

/// A subgroup order and a modulus such that the one divides the other less one.
fn primes(random: &mut Random<'_>) -> (BigUint, BigUint) {
    let one = BigUint::from(1u32);
    loop {
        let q = (random.gen_biguint(SUBGROUP_BITS) | (&one << (SUBGROUP_BITS - 1))) | &one;
        if !probably_prime(&q, TESTS) {
            continue;
        }
        for _ in 0..4 * MODULUS_BITS {
            let candidate =
                (random.gen_biguint(MODULUS_BITS) | (&one << (MODULUS_BITS - 1))) | &one;
            let p = &candidate - (&candidate % &q) + &one;
            if p.bits() == MODULUS_BITS && probably_prime(&p, TESTS) {
                return (p, q);
            }
        }
    }
}
