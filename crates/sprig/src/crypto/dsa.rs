//! DSA keys: 2048 bits with a 256-bit subgroup.

use everflow_gotemplate::{FuncError, Meter};
use num_bigint_dig::{BigUint, RandBigInt};

use super::der::{INTEGER, Reader, SEQUENCE, sequence, unsigned};
use super::prime::{Primality, random_prime};
use crate::source::Random;

const MODULUS_BITS: usize = 2048;
const SUBGROUP_BITS: u32 = 256;

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
    pub(crate) fn generate(random: &mut Random<'_>, meter: &Meter<'_>) -> Result<Self, FuncError> {
        let one = BigUint::from(1u32);
        let (p, q) = primes(random, meter)?;
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
            let x = random.gen_biguint(SUBGROUP_BITS as usize);
            if x > BigUint::from(0u32) && x < q {
                break x;
            }
        };
        let y = g.modpow(&x, &p);
        Ok(Self { p, q, g, y, x })
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
fn primes(random: &mut Random<'_>, meter: &Meter<'_>) -> Result<(BigUint, BigUint), FuncError> {
    let one = BigUint::from(1u32);
    let primality = Primality::new();
    loop {
        let q = random_prime(SUBGROUP_BITS, random, meter)?;
        let step = &q << 1;
        for _ in 0..4 * MODULUS_BITS {
            let start = random.gen_biguint(MODULUS_BITS) | (&one << (MODULUS_BITS - 1));
            let p = &start - (&start % &step) + &one;
            if p.bits() == MODULUS_BITS && primality.test(&p, meter)? {
                return Ok((p, q));
            }
        }
    }
}
