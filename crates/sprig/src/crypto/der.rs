//! Just enough of ASN.1's DER.

pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const OBJECT_ID: u8 = 0x06;
pub(crate) const UTF8_STRING: u8 = 0x0c;
pub(crate) const PRINTABLE_STRING: u8 = 0x13;
pub(crate) const UTC_TIME: u8 = 0x17;
pub(crate) const GENERAL_TIME: u8 = 0x18;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;

/// A value with its tag and length.
pub(crate) fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    let len = content.len();
    if len < 0x80 {
        out.push(len as u8);
    } else {
        let bytes = len.to_be_bytes();
        let significant = &bytes[bytes.iter().position(|&b| b != 0).unwrap_or(bytes.len())..];
        out.push(0x80 | significant.len() as u8);
        out.extend_from_slice(significant);
    }
    out.extend_from_slice(content);
    out
}

pub(crate) fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    tagged(SEQUENCE, &parts.concat())
}

/// A number that is not negative, from its big-endian bytes.
pub(crate) fn unsigned(bytes: &[u8]) -> Vec<u8> {
    let start = bytes.iter().position(|&b| b != 0).unwrap_or(bytes.len());
    let significant = &bytes[start..];
    match significant.first() {
        None => tagged(INTEGER, &[0]),
        Some(first) if *first >= 0x80 => tagged(INTEGER, &[&[0], significant].concat()),
        Some(_) => tagged(INTEGER, significant),
    }
}

/// A bit string of whole bytes.
pub(crate) fn bit_string(bytes: &[u8]) -> Vec<u8> {
    tagged(BIT_STRING, &[&[0], bytes].concat())
}

/// An object identifier from its encoded content.
pub(crate) fn object_id(encoded: &[u8]) -> Vec<u8> {
    tagged(OBJECT_ID, encoded)
}

pub(crate) const NULL: &[u8] = &[0x05, 0x00];
pub(crate) const TRUE: &[u8] = &[0x01, 0x01, 0xff];

/// One value: its tag, its content, and all of it.
#[derive(Clone, Copy)]
pub(crate) struct Element<'a> {
    pub tag: u8,
    pub content: &'a [u8],
    pub raw: &'a [u8],
}

/// Reads values one after the other.
pub(crate) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// The next value; `None` at the end or if it is malformed.
    pub(crate) fn next(&mut self) -> Option<Element<'a>> {
        let all = self.0;
        let (&tag, rest) = all.split_first()?;
        let (&first, mut rest) = rest.split_first()?;
        let len = if first < 0x80 {
            usize::from(first)
        } else {
            let count = usize::from(first & 0x7f);
            if count == 0 || count > 4 {
                return None;
            }
            let (bytes, tail) = rest.split_at_checked(count)?;
            rest = tail;
            bytes
                .iter()
                .fold(0, |len, &byte| len << 8 | usize::from(byte))
        };
        let (content, tail) = rest.split_at_checked(len)?;
        self.0 = tail;
        Some(Element {
            tag,
            content,
            raw: &all[..all.len() - tail.len()],
        })
    }

    /// The next value, which must have this tag.
    pub(crate) fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next()
            .filter(|element| element.tag == tag)
            .map(|element| element.content)
    }

    /// The next value if it has this tag.
    pub(crate) fn optional(&mut self, tag: u8) -> Option<&'a [u8]> {
        if self.0.first() == Some(&tag) {
            self.expect(tag)
        } else {
            None
        }
    }
}
