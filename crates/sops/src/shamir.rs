//! Shamir's way to share a secret: any so many parts give it back.

/// Puts parts together. Each is the points of the polynomials with the position at its end.
pub fn combine(parts: &[Vec<u8>]) -> Result<Vec<u8>, String> {
    let Some(first) = parts.first().filter(|part| part.len() > 1) else {
        return Err("no parts that could be combined".to_owned());
    };
    let length = first.len() - 1;
    let mut positions = Vec::with_capacity(parts.len());
    for part in parts {
        match part.last() {
            Some(position) if part.len() == length + 1 && !positions.contains(position) => {
                positions.push(*position);
            }
            _ => return Err("the parts do not belong together".to_owned()),
        }
    }
    let weights = weights(&positions);
    let secret = (0..length).map(|index| {
        let values = parts.iter().map(|part| part[index]);
        let weighted = values.zip(&weights);
        weighted.fold(0, |sum, (value, weight)| sum ^ multiply(value, *weight))
    });
    Ok(secret.collect())
}

/// What each point counts for the value at zero of the polynomial through all of them.
fn weights(positions: &[u8]) -> Vec<u8> {
    let weight = |own: &u8| {
        let others = positions.iter().filter(|other| *other != own);
        others.fold(1, |weight, other| {
            multiply(weight, multiply(*other, invert(own ^ other)))
        })
    };
    positions.iter().map(weight).collect()
}

/// The product in the field of 256 elements that AES uses.
fn multiply(mut a: u8, mut b: u8) -> u8 {
    let mut product = 0;
    while b != 0 {
        if b & 1 == 1 {
            product ^= a;
        }
        let carry = a & 0x80;
        a <<= 1;
        if carry != 0 {
            a ^= 0x1b;
        }
        b >>= 1;
    }
    product
}

/// One over an element: its 254th power.
fn invert(a: u8) -> u8 {
    let mut power = a;
    let mut inverse = 1;
    for _ in 0..7 {
        power = multiply(power, power);
        inverse = multiply(inverse, power);
    }
    inverse
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_has_its_inverse() {
        assert!((1..=255).all(|a| multiply(a, invert(a)) == 1));
    }

    #[test]
    fn two_of_three_parts_are_enough() {
        let secret = [7u8, 0, 255];
        let slopes = [91u8, 3, 200];
        let part = |x: u8| -> Vec<u8> {
            let points = secret
                .iter()
                .zip(slopes)
                .map(|(s, slope)| s ^ multiply(slope, x));
            points.chain([x]).collect()
        };
        assert_eq!(combine(&[part(5), part(77)]).unwrap(), secret);
        assert_eq!(combine(&[part(200), part(5)]).unwrap(), secret);
        assert!(combine(&[part(5), part(5)]).is_err());
        assert!(combine(&[]).is_err());
    }
}
