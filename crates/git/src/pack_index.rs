//! The index that lies beside a pack: where each object is.

use super::object::ObjectId;

/// How an index of the second version begins.
pub const MAGIC: [u8; 8] = [0xff, b't', b'O', b'c', 0, 0, 0, 2];
/// Bytes of a table with the number of objects by the first byte of their names.
const FANOUT: usize = 256 * 4;
/// In the table of places: the place is in another table, of large ones.
const LARGE: u32 = 1 << 31;

/// Names and places of all objects; none when this is no index of the second version.
pub fn read(index: &[u8]) -> Option<Vec<(ObjectId, u64)>> {
    let rest = index.strip_prefix(&MAGIC)?;
    let (fanout, rest) = rest.split_at_checked(FANOUT)?;
    let count = usize::try_from(number(fanout, 255)?).ok()?;
    let (names, rest) = rest.split_at_checked(count.checked_mul(20)?)?;
    let (_checks, rest) = rest.split_at_checked(count.checked_mul(4)?)?;
    let (places, large) = rest.split_at_checked(count.checked_mul(4)?)?;
    let mut found = Vec::with_capacity(count);
    for (at, name) in names.chunks_exact(20).enumerate() {
        let mut id = [0; 20];
        id.copy_from_slice(name);
        let place = number(places, at)?;
        let place = match place & LARGE {
            0 => u64::from(place),
            _ => {
                let at = usize::try_from(place & !LARGE).ok()?;
                let high = u64::from(number(large, at * 2)?);
                high << 32 | u64::from(number(large, at * 2 + 1)?)
            }
        };
        found.push((ObjectId(id), place));
    }
    Some(found)
}

/// One number of a table.
fn number(table: &[u8], at: usize) -> Option<u32> {
    let bytes = table.get(at.checked_mul(4)?..)?.first_chunk::<4>()?;
    Some(u32::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(places: &[(u8, u32)], large: &[u64]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        for first in 0..256_usize {
            let below = places.iter().filter(|place| usize::from(place.0) <= first);
            bytes.extend((below.count() as u32).to_be_bytes());
        }
        for (first, _) in places {
            bytes.extend([*first; 20]);
        }
        bytes.extend(vec![0; places.len() * 4]);
        for (_, place) in places {
            bytes.extend(place.to_be_bytes());
        }
        for place in large {
            bytes.extend(place.to_be_bytes());
        }
        bytes
    }

    #[test]
    fn pack_index_offsets_beyond_4_gib_are_read() {
        let bytes = index(&[(1, 12), (7, LARGE)], &[1 << 33]);
        let found = read(&bytes).unwrap();
        assert_eq!(
            found,
            [(ObjectId([1; 20]), 12), (ObjectId([7; 20]), 1 << 33)]
        );
    }

    #[test]
    fn truncated_pack_index_is_rejected() {
        let bytes = index(&[(1, 12), (7, LARGE)], &[1 << 33]);
        for end in 0..bytes.len() {
            assert!(read(&bytes[..end]).is_none(), "{end}");
        }
        assert!(read(&[0; 2_000]).is_none());
    }
}
