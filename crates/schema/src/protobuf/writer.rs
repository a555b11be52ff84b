//! The protobuf wire format, writing.

/// Collects the fields of a message.
#[derive(Debug, Default)]
pub(super) struct Writer {
    out: Vec<u8>,
}

impl Writer {
    pub(super) fn varint(&mut self, number: u32, value: u64) {
        self.raw_varint(u64::from(number) << 3);
        self.raw_varint(value);
    }

    pub(super) fn fixed64(&mut self, number: u32, value: [u8; 8]) {
        self.raw_varint(u64::from(number) << 3 | 1);
        self.out.extend_from_slice(&value);
    }

    pub(super) fn fixed32(&mut self, number: u32, value: [u8; 4]) {
        self.raw_varint(u64::from(number) << 3 | 5);
        self.out.extend_from_slice(&value);
    }

    pub(super) fn bytes(&mut self, number: u32, value: &[u8]) {
        self.raw_varint(u64::from(number) << 3 | 2);
        self.raw_varint(value.len() as u64);
        self.out.extend_from_slice(value);
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.out
    }

    fn raw_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.out.push((value as u8 & 0x7f) | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
    }
}
