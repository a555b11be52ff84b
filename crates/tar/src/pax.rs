//! PAX records: `LENGTH KEY=VALUE\n`, one after another.

/// What PAX records say of the next entry, as far as anybody asks.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Pax {
    pub(crate) path: Option<Vec<u8>>,
    pub(crate) size: Option<u64>,
    pub(crate) sparse: bool,
}

const MALFORMED: &str = "malformed PAX record";

impl Pax {
    /// Reads records; the last of one key counts, and one without a value says nothing.
    pub(crate) fn parse(mut rest: &[u8]) -> Result<Self, &'static str> {
        let mut pax = Pax::default();
        while !rest.is_empty() {
            let (key, value, after) = split(rest).ok_or(MALFORMED)?;
            match key {
                b"path" if value.contains(&0) => return Err("zero byte in a PAX path"),
                b"path" => pax.path = Some(value.to_vec()).filter(|path| !path.is_empty()),
                b"size" => pax.size = number(value)?,
                _ => pax.sparse |= key.starts_with(b"GNU.sparse."),
            }
            rest = after;
        }
        Ok(pax)
    }
}

/// Takes the first record off: its key, its value, and what is behind it.
fn split(records: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = records.iter().position(|byte| *byte == b' ')?;
    let length = std::str::from_utf8(&records[..space]).ok()?;
    let length = length.parse::<usize>().ok()?;
    let record = records.get(space + 1..length)?.strip_suffix(b"\n")?;
    let equals = record.iter().position(|byte| *byte == b'=')?;
    let (key, value) = (&record[..equals], &record[equals + 1..]);
    (!key.is_empty() && !key.contains(&0)).then(|| (key, value, &records[length..]))
}

fn number(value: &[u8]) -> Result<Option<u64>, &'static str> {
    if value.is_empty() {
        return Ok(None);
    }
    let text = std::str::from_utf8(value).ok();
    let number = text.and_then(|text| text.parse::<u64>().ok());
    number.map(Some).ok_or("PAX size is no number")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_with_line_ends_and_repeated_keys_are_read() {
        let records = b"12 path=a\nb\n11 size=12\n10 path=b\n22 LIBARCHIVE.x=y \nz=\n";
        let pax = Pax::parse(records).unwrap();
        assert_eq!(pax.path.as_deref(), Some(&b"b"[..]));
        assert_eq!(pax.size, Some(12));
        assert!(!pax.sparse);
        let first = Pax::parse(&records[..12]).unwrap();
        assert_eq!(first.path.as_deref(), Some(&b"a\nb"[..]));
    }

    #[test]
    fn empty_values_say_nothing() {
        assert_eq!(Pax::parse(b"8 path=\n8 size=\n"), Ok(Pax::default()));
        assert_eq!(Pax::parse(b""), Ok(Pax::default()));
    }

    #[test]
    fn records_of_sparse_files_are_noticed() {
        assert!(Pax::parse(b"22 GNU.sparse.major=1\n").unwrap().sparse);
    }

    #[test]
    fn malformed_records_are_refused() {
        for records in [
            &b"path=a"[..],
            b"9 path=a",
            b"99 path=a\n",
            b"3 path=a\n",
            b"0 path=a\n",
            b"18446744073709551615 path=a\n",
            b"-1 path=a\n",
            b"7 path\n",
            b"5 =a\n",
            b"11 path=a\0\n",
            b"11 size=-1\n",
            b"11 size=1x\n",
            b"29 size=99999999999999999999\n",
            b"\0\0\0\0",
        ] {
            let shown = String::from_utf8_lossy(records);
            assert!(Pax::parse(records).is_err(), "{shown:?}");
        }
    }
}
