//! A deflate encoder that makes the same choices as the one of Go's standard library at its
//! default level, so that our archives have the digests that Flux's have.
//!
//! The format leaves open which matches a compressor finds and how it cuts its output into
//! blocks. Go hashes four bytes, follows chains of at most 128 earlier places, waits one byte for
//! a better match, and closes a block after 2^14 symbols. Any other choice gives a valid stream of
//! other bytes.

use std::io::{self, Write};

use super::huffman::{BlockWriter, Symbol};

const WINDOW: usize = 1 << 15;
const WINDOW_MASK: usize = WINDOW - 1;
const HASH_BITS: u32 = 17;
const HASH_FACTOR: u32 = 0x1e35_a7bd;
/// When positions in the chains grow past this they are moved back.
const REBASE_AT: i64 = 1 << 24;
const SHORTEST: usize = 4;
const LONGEST: usize = 258;
const SYMBOLS_PER_BLOCK: usize = 1 << 14;

/// Do not look for a better match at the next byte when this one is so long.
const LAZY: usize = 16;
/// Stop searching at a match so long.
const NICE: usize = 128;
const CHAIN: usize = 128;

/// Compresses into an underlying writer.
pub struct Deflater<W: Write> {
    blocks: BlockWriter<W>,
    window: Vec<u8>,
    filled: usize,
    position: usize,
    /// Where the block that is being collected began; `None` when that has left the window.
    block_start: Option<usize>,
    /// The byte before `position` has not been given out yet.
    pending_literal: bool,
    length: usize,
    distance: usize,
    newest: Vec<u32>,
    older: Vec<u32>,
    /// The start of the chain that the last hashed position continued.
    chain_start: i64,
    /// What is added to a window position to make a chain position; zero means nothing there.
    base: i64,
    symbols: Vec<Symbol>,
}

impl<W: Write> Deflater<W> {
    /// An encoder that writes to `out`.
    pub fn new(out: W) -> Self {
        Deflater {
            blocks: BlockWriter::new(out),
            window: vec![0; 2 * WINDOW],
            filled: 0,
            position: 0,
            block_start: Some(0),
            pending_literal: false,
            length: SHORTEST - 1,
            distance: 0,
            newest: vec![0; 1 << HASH_BITS],
            older: vec![0; WINDOW],
            chain_start: -1,
            base: 1,
            symbols: Vec::with_capacity(SYMBOLS_PER_BLOCK + 1),
        }
    }

    /// Takes more input.
    pub fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.compress(false)?;
            let taken = self.fill(bytes);
            bytes = &bytes[taken..];
        }
        Ok(())
    }

    /// Ends the stream and gives the writer back.
    pub fn finish(mut self) -> io::Result<W> {
        self.compress(true)?;
        self.blocks.finish()
    }

    fn fill(&mut self, bytes: &[u8]) -> usize {
        if self.position >= 2 * WINDOW - (SHORTEST + LONGEST) {
            self.slide();
        }
        let count = bytes.len().min(self.window.len() - self.filled);
        self.window[self.filled..self.filled + count].copy_from_slice(&bytes[..count]);
        self.filled += count;
        count
    }

    fn slide(&mut self) {
        self.window.copy_within(WINDOW.., 0);
        self.position -= WINDOW;
        self.filled -= WINDOW;
        self.block_start = self.block_start.and_then(|start| start.checked_sub(WINDOW));
        self.base += WINDOW as i64;
        if self.base > REBASE_AT {
            let back = self.base - 1;
            self.base -= back;
            self.chain_start -= back;
            let rebase = |value: &mut u32| {
                *value = u32::try_from(i64::from(*value) - back).unwrap_or(0);
            };
            self.older.iter_mut().for_each(rebase);
            self.newest.iter_mut().for_each(rebase);
        }
    }

    /// Puts a position at the head of its chain and returns the head before it.
    fn insert(&mut self, position: usize) -> u32 {
        let word = u32::from_be_bytes([
            self.window[position],
            self.window[position + 1],
            self.window[position + 2],
            self.window[position + 3],
        ]);
        let slot = (word.wrapping_mul(HASH_FACTOR) >> (32 - HASH_BITS)) as usize;
        let before = self.newest[slot];
        self.older[position & WINDOW_MASK] = before;
        self.newest[slot] = (position as i64 + self.base) as u32;
        before
    }

    fn emit_block(&mut self, end: usize) -> io::Result<()> {
        if end > 0 {
            let raw = match self.block_start {
                Some(start) if start <= end => Some(&self.window[start..end]),
                _ => None,
            };
            self.blocks.write_block(&self.symbols, raw)?;
            self.block_start = Some(end);
        }
        self.symbols.clear();
        Ok(())
    }

    fn compress(&mut self, ending: bool) -> io::Result<()> {
        if self.filled - self.position < SHORTEST + LONGEST && !ending {
            return Ok(());
        }
        let insert_until = self.filled as i64 - (SHORTEST as i64 - 1);
        loop {
            let ahead = self.filled - self.position;
            if ahead < SHORTEST + LONGEST {
                if !ending {
                    return Ok(());
                }
                if ahead == 0 {
                    return self.flush_pending();
                }
            }
            if (self.position as i64) < insert_until {
                self.chain_start = i64::from(self.insert(self.position));
            }
            self.step(ahead, insert_until)?;
        }
    }

    fn flush_pending(&mut self) -> io::Result<()> {
        if self.pending_literal {
            self.symbols
                .push(Symbol::literal(self.window[self.position - 1]));
            self.pending_literal = false;
        }
        if self.symbols.is_empty() {
            return Ok(());
        }
        self.emit_block(self.position)
    }

    /// Decides about one position: give out the match before, or go on and see.
    fn step(&mut self, ahead: usize, insert_until: i64) -> io::Result<()> {
        let (length_before, distance_before) = (self.length, self.distance);
        self.length = SHORTEST - 1;
        self.distance = 0;
        let oldest = self.position.saturating_sub(WINDOW) as i64;
        let start = self.chain_start - self.base;
        if start >= oldest
            && ahead > length_before
            && length_before < LAZY
            && let Some((length, distance)) = self.find(start as usize, ahead)
        {
            self.length = length;
            self.distance = distance;
        }
        if length_before >= SHORTEST && self.length <= length_before {
            self.symbols
                .push(Symbol::repeat(length_before, distance_before));
            let next = self.position + length_before - 1;
            for position in self.position + 1..next {
                if (position as i64) < insert_until {
                    self.insert(position);
                }
            }
            self.position = next.max(self.position + 1);
            self.pending_literal = false;
            self.length = SHORTEST - 1;
            if self.symbols.len() == SYMBOLS_PER_BLOCK {
                self.emit_block(self.position)?;
            }
            return Ok(());
        }
        if self.pending_literal {
            let place = self.position - 1;
            self.symbols.push(Symbol::literal(self.window[place]));
            if self.symbols.len() == SYMBOLS_PER_BLOCK {
                self.emit_block(place + 1)?;
            }
        }
        self.position += 1;
        self.pending_literal = true;
        Ok(())
    }

    /// The best match for the bytes at the current position, longer than three.
    fn find(&self, mut candidate: usize, ahead: usize) -> Option<(usize, usize)> {
        let position = self.position;
        let longest = LONGEST.min(ahead);
        let here = &self.window[position..position + longest];
        let nice = NICE.min(longest);
        let mut length = SHORTEST - 1;
        let mut tries = CHAIN;
        let mut found = None;
        let oldest = position as i64 - WINDOW as i64;
        // Fewer bytes left than the shortest match: nothing can be found.
        let mut wanted = *here.get(length)?;
        while tries > 0 {
            if self.window[candidate + length] == wanted {
                let there = &self.window[candidate..candidate + longest];
                let common = common_prefix(there, here);
                if common > length && (common > SHORTEST || position - candidate <= 4096) {
                    length = common;
                    found = Some((common, position - candidate));
                    if common >= nice {
                        break;
                    }
                    wanted = here[common];
                }
            }
            if candidate as i64 == oldest {
                break;
            }
            let next = i64::from(self.older[candidate & WINDOW_MASK]) - self.base;
            if next < oldest || next < 0 {
                break;
            }
            candidate = next as usize;
            tries -= 1;
        }
        found
    }
}

fn common_prefix(one: &[u8], two: &[u8]) -> usize {
    let mut count = 0;
    for (left, right) in one.chunks_exact(8).zip(two.chunks_exact(8)) {
        if left != right {
            break;
        }
        count += 8;
    }
    count
        + one[count..]
            .iter()
            .zip(&two[count..])
            .take_while(|(left, right)| left == right)
            .count()
}

/// Writes a gzip stream with the header that Go writes: no name, no time, unknown system.
pub struct GzipWriter<W: Write> {
    deflater: Deflater<W>,
    crc: flate2::Crc,
}

impl<W: Write> GzipWriter<W> {
    /// Starts the stream.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255])?;
        Ok(GzipWriter::after_header(out))
    }

    /// Starts the stream with an extra field and a comment in its header. The field is cut at
    /// 64 KiB, the comment at its first zero byte.
    pub fn with_header(mut out: W, extra: &[u8], comment: &str) -> io::Result<Self> {
        const EXTRA_AND_COMMENT: u8 = 4 | 16;
        out.write_all(&[0x1f, 0x8b, 8, EXTRA_AND_COMMENT, 0, 0, 0, 0, 0, 255])?;
        let length = u16::try_from(extra.len()).unwrap_or(u16::MAX);
        out.write_all(&length.to_le_bytes())?;
        out.write_all(&extra[..usize::from(length)])?;
        let comment = comment.split('\0').next().unwrap_or_default();
        out.write_all(comment.as_bytes())?;
        out.write_all(&[0])?;
        Ok(GzipWriter::after_header(out))
    }

    fn after_header(out: W) -> Self {
        GzipWriter {
            deflater: Deflater::new(out),
            crc: flate2::Crc::new(),
        }
    }

    /// Ends the stream and gives the writer back.
    pub fn finish(self) -> io::Result<W> {
        let mut out = self.deflater.finish()?;
        out.write_all(&self.crc.sum().to_le_bytes())?;
        out.write_all(&self.crc.amount().to_le_bytes())?;
        Ok(out)
    }
}

impl<W: Write> Write for GzipWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.crc.update(bytes);
        self.deflater.write(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::digest::{Algorithm, digest_of};
    use std::io::Read;

    /// Bytes that repeat now and then, the same on every run.
    fn sample(count: usize, seed: u32, alphabet: u32, repeats: bool) -> Vec<u8> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 8
        };
        let mut bytes: Vec<u8> = Vec::with_capacity(count);
        while bytes.len() < count {
            if repeats && bytes.len() > 100 && next() % 3 == 0 {
                let distance = next() as usize % bytes.len().min(60_000) + 1;
                let length = next() as usize % 300 + 1;
                for _ in 0..length {
                    bytes.push(bytes[bytes.len() - distance]);
                }
            } else {
                bytes.push((next() % alphabet) as u8);
            }
        }
        bytes.truncate(count);
        bytes
    }

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut writer = GzipWriter::new(Vec::new()).unwrap();
        for piece in bytes.chunks(32 * 1024) {
            writer.write_all(piece).unwrap();
        }
        writer.finish().unwrap()
    }

    #[test]
    fn compressed_bytes_decompress_to_the_original() {
        for (count, alphabet) in [
            (0, 1),
            (1, 2),
            (5, 3),
            (300, 4),
            (70_000, 9),
            (400_000, 256),
        ] {
            for repeats in [false, true] {
                let bytes = sample(count, 7, alphabet, repeats);
                let mut read = Vec::new();
                flate2::read::GzDecoder::new(&packed(&bytes)[..])
                    .read_to_end(&mut read)
                    .unwrap();
                assert!(read == bytes, "{count} bytes of {alphabet}");
            }
        }
    }

    /// The digests were taken from Go's compress/gzip over the same input.
    #[test]
    fn the_bytes_are_the_ones_go_writes() {
        let known = include_str!("deflate_digests.txt");
        for line in known.lines().filter(|line| !line.starts_with('#')) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let count = fields[0].parse().unwrap();
            let seed = fields[1].parse().unwrap();
            let alphabet = fields[2].parse().unwrap();
            let bytes = sample(count, seed, alphabet, fields[3] == "true");
            let digest = digest_of(Algorithm::Sha256, &packed(&bytes));
            assert_eq!(digest.hex(), fields[4], "{line}");
        }
    }
}
