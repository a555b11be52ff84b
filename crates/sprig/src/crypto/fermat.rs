//! A quick test that sorts composite numbers out: 2^(n-1) is 1 modulo n for every odd prime n, and for
//! hardly any other number. Searching for large primes spends nearly all of its time here.

/// Whether `number` passes. `number` has its limbs from the lowest to the highest; it must be odd, and
/// the highest two bits of its highest limb must be set.
pub(crate) fn passes(number: &[u64]) -> bool {
    let modulus = Modulus::new(number);
    // Numbers are held multiplied by 2^(64 n) (Montgomery's form), in which products need no division.
    let one = modulus.radix_remainder();
    let mut power = one.clone();
    let mut wide = vec![0; 2 * number.len()];
    for (index, limb) in number.iter().enumerate().rev() {
        // The exponent is the number less one, whose lowest bit is set.
        let limb = if index == 0 { limb - 1 } else { *limb };
        for bit in (0..64).rev() {
            square(&power, &mut wide);
            modulus.reduce(&mut wide, &mut power);
            if limb >> bit & 1 == 1 {
                modulus.double(&mut power);
            }
        }
    }
    power == one
}

struct Modulus<'n> {
    limbs: &'n [u64],
    /// The negative inverse of the lowest limb, modulo 2^64.
    inverse: u64,
}

impl<'n> Modulus<'n> {
    fn new(limbs: &'n [u64]) -> Self {
        let lowest = limbs.first().copied().unwrap_or(1);
        // Every round doubles the number of bits that are right.
        let mut inverse = lowest;
        for _ in 0..6 {
            inverse = inverse.wrapping_mul(2u64.wrapping_sub(lowest.wrapping_mul(inverse)));
        }
        Modulus {
            limbs,
            inverse: inverse.wrapping_neg(),
        }
    }

    /// 2^(64 n) modulo the number, which is more than half of it: their difference.
    fn radix_remainder(&self) -> Vec<u64> {
        let mut carry = true;
        self.limbs
            .iter()
            .map(|limb| {
                let (value, overflow) = (!limb).overflowing_add(u64::from(carry));
                carry = overflow;
                value
            })
            .collect()
    }

    /// Divides `wide` by 2^(64 n) modulo the number.
    fn reduce(&self, wide: &mut [u64], result: &mut [u64]) {
        let count = self.limbs.len();
        let mut overflow = 0u64;
        for index in 0..count {
            let factor = wide[index].wrapping_mul(self.inverse);
            let mut carry = 0u64;
            for (digit, limb) in wide[index..index + count].iter_mut().zip(self.limbs) {
                (*digit, carry) = multiply_add(factor, *limb, *digit, carry);
            }
            let high = &mut wide[index + count];
            let sum = u128::from(*high) + u128::from(carry) + u128::from(overflow);
            (*high, overflow) = (low(sum), high_of(sum));
        }
        result.copy_from_slice(&wide[count..]);
        if overflow != 0 || !is_less(result, self.limbs) {
            subtract(result, self.limbs);
        }
    }

    fn double(&self, value: &mut [u64]) {
        let mut carry = 0;
        for limb in value.iter_mut() {
            let next = *limb >> 63;
            *limb = *limb << 1 | carry;
            carry = next;
        }
        if carry != 0 || !is_less(value, self.limbs) {
            subtract(value, self.limbs);
        }
    }
}

#[allow(clippy::cast_possible_truncation)]
fn low(value: u128) -> u64 {
    value as u64
}

#[allow(clippy::cast_possible_truncation)]
fn high_of(value: u128) -> u64 {
    (value >> 64) as u64
}

/// `left * right + add + carry` as low and high limb; it cannot overflow.
#[inline]
fn multiply_add(left: u64, right: u64, add: u64, carry: u64) -> (u64, u64) {
    let sum = u128::from(left) * u128::from(right) + u128::from(add) + u128::from(carry);
    (low(sum), high_of(sum))
}

/// The square of `value` in `wide`, which has twice as many limbs.
fn square(value: &[u64], wide: &mut [u64]) {
    wide.fill(0);
    // Products of different limbs stand twice in a square: add them up once and double them.
    for (index, limb) in value.iter().enumerate() {
        let others = &value[index + 1..];
        let mut carry = 0;
        for (digit, other) in wide[2 * index + 1..].iter_mut().zip(others) {
            (*digit, carry) = multiply_add(*limb, *other, *digit, carry);
        }
        if let Some(digit) = wide.get_mut(index + value.len()) {
            *digit = carry;
        }
    }
    let mut shifted = 0;
    let mut carry = 0;
    for (pair, limb) in wide.chunks_exact_mut(2).zip(value) {
        let [first, second] = pair else { continue };
        let doubled = (*first << 1 | shifted, *second << 1 | *first >> 63);
        shifted = *second >> 63;
        let product = u128::from(*limb) * u128::from(*limb);
        let sum = u128::from(doubled.0) + u128::from(low(product)) + carry;
        *first = low(sum);
        let sum = u128::from(doubled.1) + u128::from(high_of(product)) + (sum >> 64);
        *second = low(sum);
        carry = sum >> 64;
    }
}

fn is_less(left: &[u64], right: &[u64]) -> bool {
    left.iter().rev().lt(right.iter().rev())
}

fn subtract(from: &mut [u64], amount: &[u64]) {
    let mut borrow = false;
    for (limb, less) in from.iter_mut().zip(amount) {
        let (value, first) = limb.overflowing_sub(*less);
        let (value, second) = value.overflowing_sub(u64::from(borrow));
        *limb = value;
        borrow = first || second;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primes_pass_and_others_do_not() {
        // 2^64 - 59 is the largest prime of one limb; its neighbours are composite.
        for (number, is_prime) in [
            (u64::MAX - 58, true),
            (u64::MAX - 56, false),
            (u64::MAX - 60, false),
            (u64::MAX, false),
        ] {
            assert_eq!(passes(&[number]), is_prime, "{number}");
        }
        // 2^128 - 159 is the largest prime of two limbs.
        for less in (1..400).step_by(2) {
            let number = u128::MAX - (less - 1);
            assert_eq!(
                passes(&[low(number), high_of(number)]),
                [159, 173, 233, 237, 275, 357].contains(&less),
                "2^128 - {less}"
            );
        }
    }
}
