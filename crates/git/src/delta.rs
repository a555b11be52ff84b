//! Objects that are stored as changes to others.

use crate::Error;

fn broken() -> Error {
    Error::Protocol("the pack holds a malformed delta".to_owned())
}

/// A number of seven bits for each byte, lowest first.
pub(crate) fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..63).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// The size of the object that a delta makes; the delta may be cut off behind its head.
pub(crate) fn result_size(mut delta: &[u8]) -> Result<u64, Error> {
    number(&mut delta).ok_or_else(broken)?;
    number(&mut delta).ok_or_else(broken)
}

/// Applies a delta to its base.
pub(crate) fn apply(base: &[u8], mut delta: &[u8], limit: u64) -> Result<Vec<u8>, Error> {
    let base_size = number(&mut delta).ok_or_else(broken)?;
    let size = number(&mut delta).ok_or_else(broken)?;
    if base_size != base.len() as u64 {
        return Err(broken());
    }
    if size > limit {
        return Err(Error::TooLarge {
            what: "an object of the pack that is stored as a delta".to_owned(),
            limit,
        });
    }
    let size = usize::try_from(size).map_err(|_| broken())?;
    // A delta that lies about its result must not make us reserve what it claims.
    let mut result = Vec::with_capacity(size.min(1 << 20).max(base.len().min(size)));
    while let Some((&command, rest)) = delta.split_first() {
        delta = rest;
        if command & 0x80 != 0 {
            let (mut offset, mut length) = (0_usize, 0_usize);
            for bit in 0..4 {
                if command & 1 << bit != 0 {
                    offset |= usize::from(take(&mut delta)?) << (8 * bit);
                }
            }
            for bit in 0..3 {
                if command & 0x10 << bit != 0 {
                    length |= usize::from(take(&mut delta)?) << (8 * bit);
                }
            }
            if length == 0 {
                length = 0x10000;
            }
            let end = offset.checked_add(length).ok_or_else(broken)?;
            result.extend_from_slice(base.get(offset..end).ok_or_else(broken)?);
        } else if command != 0 {
            let length = usize::from(command);
            result.extend_from_slice(delta.get(..length).ok_or_else(broken)?);
            delta = &delta[length..];
        } else {
            return Err(broken());
        }
        if result.len() > size {
            return Err(broken());
        }
    }
    match result.len() == size {
        true => Ok(result),
        false => Err(broken()),
    }
}

fn take(bytes: &mut &[u8]) -> Result<u8, Error> {
    let (first, rest) = bytes.split_first().ok_or_else(broken)?;
    *bytes = rest;
    Ok(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deltas_copy_and_insert() {
        let base = b"hello world";
        // Copy 0..6, insert "there", copy 5..6.
        let delta = [
            11, 12, 0x90, 6, 5, b't', b'h', b'e', b'r', b'e', 0x91, 10, 1,
        ];
        assert_eq!(apply(base, &delta, 100).unwrap(), b"hello thered");
        assert_eq!(result_size(&delta).unwrap(), 12);
        assert!(matches!(
            apply(base, &delta, 5),
            Err(Error::TooLarge { .. })
        ));
    }

    #[test]
    fn malformed_deltas_are_errors() {
        let base = b"hello";
        for delta in [
            &[][..],
            &[4, 1, 1, b'x'],
            &[5, 2, 1, b'x'],
            &[5, 1, 2, b'x', b'y'],
            &[5, 1, 0],
            &[5, 9, 0x91, 3, 9],
            &[5, 1, 0x91],
            &[
                0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1,
            ],
            &[5, 3, 2, b'x'],
        ] {
            assert!(apply(base, delta, 1000).is_err(), "{delta:?}");
        }
    }
}
