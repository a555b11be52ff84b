//! The blocks that stand before entries.

/// Headers are blocks of this size, and content is padded to them.
pub(crate) const BLOCK: usize = 512;

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A hard link.
    Link,
    /// A character device.
    Char,
    /// A block device.
    Block,
    /// A named pipe.
    Fifo,
    /// Something else, by its letter.
    Other(char),
}

impl Kind {
    /// Whether such entries have no content, whatever size their header gives.
    pub(crate) fn is_header_only(self) -> bool {
        !matches!(self, Kind::File | Kind::Other(_))
    }
}

/// What a header stands before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    /// An entry.
    Entry(Kind),
    /// Something about entries that follow.
    Record(Record),
}

/// What is said about entries that follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Record {
    /// The name of the next one.
    LongName,
    /// The target of the next one.
    LongLink,
    /// Attributes of the next one.
    Pax,
    /// Attributes of all of them.
    GlobalPax,
}

/// What a header says that somebody asks for.
#[derive(Debug)]
pub(crate) struct Fields {
    pub(crate) path: Vec<u8>,
    pub(crate) before: Before,
    /// Whether it is a file of the oldest format, where directories are files whose name ends with a slash.
    pub(crate) is_old_file: bool,
    pub(crate) mode: u32,
    pub(crate) size: u64,
}

impl Fields {
    /// Reads a block; none is the end of the archive.
    pub(crate) fn read(block: &[u8; BLOCK]) -> Result<Option<Self>, &'static str> {
        if block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        if !has_right_checksum(block) {
            return Err("its checksum is wrong");
        }
        let mode = number(&block[100..108]).and_then(|mode| u32::try_from(mode).ok());
        Ok(Some(Fields {
            path: path(block),
            before: before(block[156]),
            is_old_file: block[156] == 0,
            mode: mode.unwrap_or(0o600),
            size: number(&block[124..136]).ok_or("its size is no number or too large")?,
        }))
    }
}

fn before(letter: u8) -> Before {
    Before::Entry(match letter {
        // Contiguous files are files.
        0 | b'0' | b'7' => Kind::File,
        b'1' => Kind::Link,
        b'2' => Kind::Symlink,
        b'3' => Kind::Char,
        b'4' => Kind::Block,
        b'5' => Kind::Directory,
        b'6' => Kind::Fifo,
        b'L' => return Before::Record(Record::LongName),
        b'K' => return Before::Record(Record::LongLink),
        b'x' => return Before::Record(Record::Pax),
        b'g' => return Before::Record(Record::GlobalPax),
        other => Kind::Other(char::from(other)),
    })
}

/// The name, behind a prefix where the format has one.
fn path(block: &[u8; BLOCK]) -> Vec<u8> {
    let name = text(&block[..100]);
    let prefix = match (&block[257..263], &block[508..]) {
        // The format of star has other fields at the end.
        (b"ustar\0", b"tar\0") => text(&block[345..476]),
        (b"ustar\0", _) => text(&block[345..500]),
        _ => b"",
    };
    match prefix.is_empty() {
        true => name.to_vec(),
        false => [prefix, b"/", name].concat(),
    }
}

/// The text of a field, which a zero byte ends.
fn text(field: &[u8]) -> &[u8] {
    let end = field.iter().position(|byte| *byte == 0);
    &field[..end.unwrap_or(field.len())]
}

/// The number in a field: octal digits between spaces and zero bytes, or in base 256 if the first bit is set.
fn number(field: &[u8]) -> Option<u64> {
    match field.first() {
        // The second bit is the sign.
        Some(first) if first & 0xc0 == 0x80 => {
            let digits = std::iter::once(first & 0x3f).chain(field[1..].iter().copied());
            let mut digits = digits.skip_while(|digit| *digit == 0);
            digits.try_fold(0_u64, |number, digit| {
                Some(number.checked_mul(256)? | u64::from(digit))
            })
        }
        Some(first) if first & 0x80 != 0 => None,
        _ => {
            let is_blank = |byte: &&u8| matches!(**byte, b' ' | 0);
            let start = field.iter().take_while(is_blank).count();
            let end = field.len() - field.iter().rev().take_while(is_blank).count();
            let digits = text(field.get(start..end).unwrap_or_default());
            digits.iter().try_fold(0_u64, |number, digit| match digit {
                b'0'..=b'7' => Some(number.checked_mul(8)? | u64::from(digit - b'0')),
                _ => None,
            })
        }
    }
}

/// Whether the sum of all bytes, with spaces where the sum itself stands, is the one that is given. Some old
/// programs took bytes for signed numbers.
fn has_right_checksum(block: &[u8; BLOCK]) -> bool {
    let given = number(&block[148..156]).and_then(|sum| i64::try_from(sum).ok());
    let bytes = || block[..148].iter().chain(&[b' '; 8]).chain(&block[156..]);
    let unsigned: i64 = bytes().map(|byte| i64::from(*byte)).sum();
    let signed: i64 = bytes().map(|byte| i64::from(byte.cast_signed())).sum();
    given == Some(unsigned) || given == Some(signed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_by_go() {
        for (field, value) in [
            (&b"0000644\0"[..], Some(0o644)),
            (b" 644 \0  ", Some(0o644)),
            (b"\0 644\0", Some(0o644)),
            (b"644\x009", Some(0o644)),
            (b"\0\0\0\0", Some(0)),
            (b"77777777777\0", Some(0o77_777_777_777)),
            (b"8\0", None),
            (b"-1\0", None),
            (b"+1\0", None),
            (b"6 4\0", None),
            (b"7777777777777777777777777\0", None),
            (b"\x80\0\0\x01\x02", Some(0x102)),
            (b"\x81\x02", Some(0x102)),
            (
                b"\x80\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff",
                Some(u64::MAX),
            ),
            (b"\x80\0\0\x01\0\0\0\0\0\0\0\0", None),
            (b"\xff\xff\xff\xff", None),
        ] {
            assert_eq!(number(field), value, "{field:?}");
        }
    }
}
