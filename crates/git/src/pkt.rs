//! The framing of git's protocol: lines with their length in front.

use bytes::{Buf, Bytes, BytesMut};

use crate::Error;

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Packet {
    /// Some bytes.
    Data(Bytes),
    /// `0000`: the end of a message.
    Flush,
    /// `0001`: between the parts of a message.
    Delimiter,
    /// `0002`: the end of an answer.
    ResponseEnd,
}

/// The largest frame with its length.
const LARGEST: usize = 65_520;

/// Appends a line.
pub fn put_line(out: &mut Vec<u8>, line: &str) {
    out.extend_from_slice(format!("{:04x}{line}\n", line.len() + 5).as_bytes());
}

/// Appends the end of a message.
pub fn put_flush(out: &mut Vec<u8>) {
    out.extend_from_slice(b"0000");
}

/// Appends the mark between the parts of a message.
pub fn put_delimiter(out: &mut Vec<u8>) {
    out.extend_from_slice(b"0001");
}

/// Cuts incoming bytes into frames.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: BytesMut,
}

impl Decoder {
    /// Takes bytes as they come.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Whether no part of a frame waits.
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// What waits, taken out as it is: for servers that end the framing and send a bare pack.
    pub fn take_rest(&mut self) -> Bytes {
        self.buffer.split().freeze()
    }

    /// The next frame, when all of it is there.
    pub fn next(&mut self) -> Result<Option<Packet>, Error> {
        let Some(head) = self.buffer.get(..4) else {
            return Ok(None);
        };
        let length = std::str::from_utf8(head)
            .ok()
            .filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .and_then(|text| usize::from_str_radix(text, 16).ok());
        let Some(length) = length else {
            let start = String::from_utf8_lossy(&self.buffer[..self.buffer.len().min(40)]);
            return Err(Error::Protocol(format!(
                "invalid pkt-len found in {start:?}: this is not a git server"
            )));
        };
        let packet = match length {
            0 => Packet::Flush,
            1 => Packet::Delimiter,
            2 => Packet::ResponseEnd,
            4..=LARGEST => {
                if self.buffer.len() < length {
                    return Ok(None);
                }
                let mut frame = self.buffer.split_to(length);
                frame.advance(4);
                return Ok(Some(Packet::Data(frame.freeze())));
            }
            _ => return Err(Error::Protocol(format!("invalid pkt-len {length}"))),
        };
        self.buffer.advance(4);
        Ok(Some(packet))
    }
}

/// A frame's text without the line end; lossy, for lines that should be text.
pub fn text(bytes: &[u8]) -> String {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_cut_however_the_bytes_come() {
        let mut bytes = Vec::new();
        put_line(&mut bytes, "hello");
        put_delimiter(&mut bytes);
        bytes.extend_from_slice(b"0004");
        put_flush(&mut bytes);
        assert!(bytes.starts_with(b"000ahello\n0001"));
        for piece in 1..bytes.len() {
            let mut decoder = Decoder::default();
            let mut packets = Vec::new();
            for part in bytes.chunks(piece) {
                decoder.feed(part);
                while let Some(packet) = decoder.next().unwrap() {
                    packets.push(packet);
                }
            }
            let expected = [
                Packet::Data(Bytes::from_static(b"hello\n")),
                Packet::Delimiter,
                Packet::Data(Bytes::new()),
                Packet::Flush,
            ];
            assert_eq!(packets, expected);
            assert!(decoder.is_empty());
        }
    }

    #[test]
    fn malformed_pkt_lines_are_refused() {
        for bytes in ["<html>", "ffff", "0003", "+123", "fff1"] {
            let mut decoder = Decoder::default();
            decoder.feed(bytes.as_bytes());
            assert!(decoder.next().is_err(), "{bytes}");
        }
    }
}
