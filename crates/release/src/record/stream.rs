//! The bytes of a record as a stream: out of base64 (twice in a Secret) and out of gzip.

use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};

use base64::engine::general_purpose::{GeneralPurpose, STANDARD};
use base64::read::DecoderReader;
use flate2::read::GzDecoder;

/// What a record may weigh unpacked; Helm itself cannot store more than a fraction of this.
const MAX_RECORD_BYTES: u64 = 256 * 1024 * 1024;
const GZIP_MAGIC: [u8; 3] = [0x1f, 0x8b, 0x08];

type Base64<R> = DecoderReader<'static, GeneralPurpose, R>;

/// The JSON of the record in a Secret's `data.release`.
pub(super) fn of_secret(data: &str) -> io::Result<impl BufRead + '_> {
    let outer: Base64<&[u8]> = DecoderReader::new(data.as_bytes(), &STANDARD);
    unpacked(DecoderReader::new(outer, &STANDARD))
}

/// Bytes that may or may not be gzip.
fn unpacked<R: Read>(mut packed: R) -> io::Result<BufReader<io::Take<Unpacked<R>>>> {
    let mut start = Vec::with_capacity(GZIP_MAGIC.len());
    packed
        .by_ref()
        .take(GZIP_MAGIC.len() as u64)
        .read_to_end(&mut start)?;
    let is_gzip = start == GZIP_MAGIC;
    let whole = Cursor::new(start).chain(packed);
    let unpacked = match is_gzip {
        true => Unpacked::Gzip(Box::new(GzDecoder::new(whole))),
        false => Unpacked::Plain(whole),
    };
    Ok(BufReader::new(unpacked.take(MAX_RECORD_BYTES)))
}

enum Unpacked<R: Read> {
    Gzip(Box<GzDecoder<Chain<Cursor<Vec<u8>>, R>>>),
    Plain(Chain<Cursor<Vec<u8>>, R>),
}

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Unpacked::Gzip(reader) => reader.read(buffer),
            Unpacked::Plain(reader) => reader.read(buffer),
        }
    }
}
