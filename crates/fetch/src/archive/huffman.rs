//! The second half of the encoder: symbols to Huffman coded blocks, with the choices of Go's
//! standard library (which of the three block kinds, how code lengths are limited and written).

use std::io::{self, Write};

/// A byte, or a repetition of bytes before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol(u32);

const REPEAT: u32 = 1 << 30;

impl Symbol {
    /// A byte as it is.
    pub fn literal(byte: u8) -> Self {
        Symbol(u32::from(byte))
    }

    /// So many bytes (3 to 258) from so far back (1 to 32768).
    pub fn repeat(length: usize, distance: usize) -> Self {
        Symbol(REPEAT | ((length - 3) as u32) << 16 | (distance - 1) as u32)
    }

    fn parts(self) -> Result<(usize, usize), usize> {
        match self.0 & REPEAT {
            0 => Err(self.0 as usize),
            _ => Ok(((self.0 >> 16 & 0xff) as usize, (self.0 & 0xffff) as usize)),
        }
    }
}

const END_OF_BLOCK: usize = 256;
const FIRST_LENGTH: usize = 257;
const LITERALS: usize = 286;
const DISTANCES: usize = 30;
const LENGTH_CODES: usize = 19;
const LARGEST_STORED: usize = 65_535;

const LENGTH_EXTRA: [u8; 29] = [
    0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0,
];
/// The smallest length of each code, less three.
const LENGTH_BASE: [u16; 29] = [
    0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128,
    160, 192, 224, 255,
];
/// The order in which lengths of the length codes are written (RFC 1951, 3.2.7).
const LENGTH_ORDER: [usize; 19] = [
    16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15,
];

fn length_code(length: usize) -> usize {
    LENGTH_BASE.partition_point(|&base| usize::from(base) <= length) - 1
}

fn distance_extra(code: usize) -> u32 {
    (code as u32 / 2).saturating_sub(1)
}

fn distance_base(code: usize) -> usize {
    match code {
        0..4 => code,
        _ => (2 + (code & 1)) << distance_extra(code),
    }
}

/// The code of a distance less one.
fn distance_code(distance: usize) -> usize {
    if distance < 4 {
        return distance;
    }
    let bits = usize::BITS - 1 - distance.leading_zeros();
    (2 * bits) as usize + (distance >> (bits - 1) & 1)
}

#[derive(Clone, Copy, Default)]
struct Code {
    bits: u16,
    length: u8,
}

/// Writes blocks of symbols as bits.
pub struct BlockWriter<W: Write> {
    out: W,
    bits: u64,
    bit_count: u32,
    buffer: Vec<u8>,
    literal_counts: [u32; LITERALS],
    distance_counts: [u32; DISTANCES],
}

impl<W: Write> BlockWriter<W> {
    /// A writer of blocks to `out`.
    pub fn new(out: W) -> Self {
        BlockWriter {
            out,
            bits: 0,
            bit_count: 0,
            buffer: Vec::with_capacity(8 * 1024),
            literal_counts: [0; LITERALS],
            distance_counts: [0; DISTANCES],
        }
    }

    fn put(&mut self, bits: u32, count: u32) {
        self.bits |= u64::from(bits) << self.bit_count;
        self.bit_count += count;
        while self.bit_count >= 8 {
            self.buffer.push(self.bits as u8);
            self.bits >>= 8;
            self.bit_count -= 8;
        }
    }

    fn put_code(&mut self, code: Code) {
        self.put(u32::from(code.bits), u32::from(code.length));
    }

    fn align(&mut self) {
        if self.bit_count > 0 {
            self.buffer.push(self.bits as u8);
            self.bits = 0;
            self.bit_count = 0;
        }
    }

    fn drain(&mut self) -> io::Result<()> {
        self.out.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    fn put_stored_header(&mut self, length: usize, last: bool) {
        self.put(u32::from(last), 3);
        self.align();
        self.put(length as u32, 16);
        self.put(!length as u32 & 0xffff, 16);
    }

    /// Writes the empty last block and gives the writer back.
    pub fn finish(mut self) -> io::Result<W> {
        self.put_stored_header(0, true);
        self.align();
        self.drain()?;
        Ok(self.out)
    }

    fn count(&mut self, symbols: &[Symbol]) -> (usize, usize) {
        self.literal_counts = [0; LITERALS];
        self.distance_counts = [0; DISTANCES];
        for symbol in symbols {
            match symbol.parts() {
                Err(literal) => self.literal_counts[literal] += 1,
                Ok((length, distance)) => {
                    self.literal_counts[FIRST_LENGTH + length_code(length)] += 1;
                    self.distance_counts[distance_code(distance)] += 1;
                }
            }
        }
        self.literal_counts[END_OF_BLOCK] += 1;
        let used = |counts: &[u32]| counts.iter().rposition(|&n| n != 0).map_or(0, |at| at + 1);
        let literals = used(&self.literal_counts);
        let mut distances = used(&self.distance_counts);
        if distances == 0 {
            // A block without repetitions still names one distance code.
            self.distance_counts[0] = 1;
            distances = 1;
        }
        (literals, distances)
    }

    /// Writes one block that is not the last; `raw` is what the symbols stand for, when it is
    /// still at hand.
    pub fn write_block(&mut self, symbols: &[Symbol], raw: Option<&[u8]>) -> io::Result<()> {
        let (literals, distances) = self.count(symbols);
        let literal_codes = codes(&self.literal_counts, 15);
        let distance_codes = codes(&self.distance_counts, 15);
        let stored = raw.filter(|raw| raw.len() <= LARGEST_STORED);
        let extra = match stored {
            Some(_) => self.extra_bits(literals, distances),
            None => 0,
        };
        let header = Header::new(&literal_codes[..literals], &distance_codes[..distances]);
        let fixed_literals = fixed_literal_codes();
        let fixed_distances = fixed_distance_codes();
        let fixed_size = 3 + self.size(&fixed_literals, &fixed_distances) + extra;
        let own_size = header.size() + self.size(&literal_codes, &distance_codes) + extra;
        let smallest = fixed_size.min(own_size);
        match stored {
            Some(raw) if (raw.len() + 5) * 8 < smallest => {
                self.put_stored_header(raw.len(), false);
                self.buffer.extend_from_slice(raw);
            }
            _ if own_size < fixed_size => {
                self.put_header(&header, literals, distances);
                self.put_symbols(symbols, &literal_codes, &distance_codes);
            }
            _ => {
                self.put(2, 3);
                self.put_symbols(symbols, &fixed_literals, &fixed_distances);
            }
        }
        self.drain()
    }

    fn extra_bits(&self, literals: usize, distances: usize) -> usize {
        let lengths = (FIRST_LENGTH + 8..literals).map(|code| {
            self.literal_counts[code] as usize * usize::from(LENGTH_EXTRA[code - FIRST_LENGTH])
        });
        let far = (4..distances)
            .map(|code| self.distance_counts[code] as usize * distance_extra(code) as usize);
        lengths.sum::<usize>() + far.sum::<usize>()
    }

    fn size(&self, literal_codes: &[Code], distance_codes: &[Code]) -> usize {
        bits_of(&self.literal_counts, literal_codes)
            + bits_of(&self.distance_counts, distance_codes)
    }

    fn put_header(&mut self, header: &Header, literals: usize, distances: usize) {
        self.put(4, 3);
        self.put(literals as u32 - 257, 5);
        self.put(distances as u32 - 1, 5);
        self.put(header.written as u32 - 4, 4);
        for &place in &LENGTH_ORDER[..header.written] {
            self.put(u32::from(header.codes[place].length), 3);
        }
        for &(code, extra) in &header.runs {
            self.put_code(header.codes[usize::from(code)]);
            self.put(u32::from(extra), run_bits(code));
        }
    }

    fn put_symbols(&mut self, symbols: &[Symbol], literal_codes: &[Code], distance_codes: &[Code]) {
        for symbol in symbols {
            match symbol.parts() {
                Err(literal) => self.put_code(literal_codes[literal]),
                Ok((length, distance)) => {
                    let code = length_code(length);
                    self.put_code(literal_codes[FIRST_LENGTH + code]);
                    let rest = length - usize::from(LENGTH_BASE[code]);
                    self.put(rest as u32, u32::from(LENGTH_EXTRA[code]));
                    let code = distance_code(distance);
                    self.put_code(distance_codes[code]);
                    let rest = distance - distance_base(code);
                    self.put(rest as u32, distance_extra(code));
                }
            }
        }
        self.put_code(literal_codes[END_OF_BLOCK]);
    }
}

fn bits_of(counts: &[u32], codes: &[Code]) -> usize {
    counts
        .iter()
        .zip(codes)
        .map(|(&count, code)| count as usize * usize::from(code.length))
        .sum()
}

/// Bits that follow a code of the header.
fn run_bits(code: u8) -> u32 {
    match code {
        16 => 2,
        17 => 3,
        18 => 7,
        _ => 0,
    }
}

/// The code lengths of a block, run-length encoded.
struct Header {
    runs: Vec<(u8, u8)>,
    counts: [u32; LENGTH_CODES],
    codes: Vec<Code>,
    written: usize,
}

impl Header {
    fn new(literals: &[Code], distances: &[Code]) -> Self {
        let lengths: Vec<u8> = literals
            .iter()
            .chain(distances)
            .map(|code| code.length)
            .collect();
        let mut runs = Vec::new();
        for group in lengths.chunk_by(|one, two| one == two) {
            run_codes(group[0], group.len(), &mut runs);
        }
        let mut counts = [0; LENGTH_CODES];
        for &(code, _) in &runs {
            counts[usize::from(code)] += 1;
        }
        let mut written = LENGTH_CODES;
        while written > 4 && counts[LENGTH_ORDER[written - 1]] == 0 {
            written -= 1;
        }
        Header {
            runs,
            codes: codes(&counts, 7),
            counts,
            written,
        }
    }

    fn size(&self) -> usize {
        let extra: usize = (16..=18)
            .map(|code| self.counts[usize::from(code)] as usize * run_bits(code) as usize)
            .sum();
        3 + 5 + 5 + 4 + 3 * self.written + bits_of(&self.counts, &self.codes) + extra
    }
}

fn run_codes(length: u8, mut count: usize, runs: &mut Vec<(u8, u8)>) {
    if length == 0 {
        while count >= 11 {
            let run = count.min(138);
            runs.push((18, (run - 11) as u8));
            count -= run;
        }
        if count >= 3 {
            runs.push((17, (count - 3) as u8));
            count = 0;
        }
    } else {
        runs.push((length, 0));
        count -= 1;
        while count >= 3 {
            let run = count.min(6);
            runs.push((16, (run - 3) as u8));
            count -= run;
        }
    }
    runs.extend(std::iter::repeat_n((length, 0), count));
}

fn reversed(bits: u16, length: u8) -> u16 {
    (bits << (16 - length)).reverse_bits()
}

fn fixed_literal_codes() -> Vec<Code> {
    let code = |symbol: u16| {
        let (bits, length) = match symbol {
            0..144 => (symbol + 48, 8),
            144..256 => (symbol + 400 - 144, 9),
            256..280 => (symbol - 256, 7),
            _ => (symbol + 192 - 280, 8),
        };
        Code {
            bits: reversed(bits, length),
            length,
        }
    };
    (0..LITERALS as u16).map(code).collect()
}

fn fixed_distance_codes() -> Vec<Code> {
    let code = |symbol| Code {
        bits: reversed(symbol, 5),
        length: 5,
    };
    (0..DISTANCES as u16).map(code).collect()
}

/// Codes for symbols by how often they occur, none longer than `longest`.
fn codes(counts: &[u32], longest: usize) -> Vec<Code> {
    let mut codes = vec![Code::default(); counts.len()];
    let mut used: Vec<(u32, usize)> = counts
        .iter()
        .enumerate()
        .filter(|(_, count)| **count != 0)
        .map(|(symbol, &count)| (count, symbol))
        .collect();
    if used.len() <= 2 {
        for (bits, (_, symbol)) in used.iter().enumerate() {
            codes[*symbol] = Code {
                bits: bits as u16,
                length: 1,
            };
        }
        return codes;
    }
    used.sort_unstable();
    let counts_by_length = lengths(&used, longest);
    let mut bits = 0_u16;
    let mut left = used.len();
    for (length, &count) in counts_by_length.iter().enumerate().skip(1) {
        bits <<= 1;
        let group = &mut used[left - count..left];
        group.sort_unstable_by_key(|(_, symbol)| *symbol);
        for (_, symbol) in group.iter() {
            codes[*symbol] = Code {
                bits: reversed(bits, length as u8),
                length: length as u8,
            };
            bits = bits.wrapping_add(1);
        }
        left -= count;
    }
    codes
}

/// How many symbols get each code length, by package-merge over the sorted counts. Ties between a
/// package and a symbol go to the package, which is what decides between codes of equal cost.
fn lengths(used: &[(u32, usize)], longest: usize) -> Vec<usize> {
    let count = used.len();
    let longest = longest.min(count - 1);
    // Each row: the weights of its items with the number of symbols among the items so far.
    let mut rows: Vec<Vec<(u64, usize)>> = Vec::with_capacity(longest);
    for level in 0..longest {
        let packages: Vec<u64> = match level {
            0 => Vec::new(),
            _ => rows[level - 1]
                .chunks_exact(2)
                .map(|pair| pair[0].0 + pair[1].0)
                .collect(),
        };
        rows.push(merge(used, &packages));
    }
    let mut by_length = vec![0; longest + 1];
    let mut items = 2 * count - 2;
    let mut symbols_above = 0;
    // From the last row down, the items taken say how many symbols reach that depth.
    let mut reached = Vec::with_capacity(longest);
    for row in rows.iter().rev() {
        let symbols = match items {
            0 => 0,
            _ => row[items - 1].1,
        };
        reached.push(symbols);
        items = 2 * (items - symbols);
    }
    for (depth, symbols) in reached.iter().enumerate().rev() {
        by_length[depth + 1] = symbols - symbols_above;
        symbols_above = *symbols;
    }
    by_length
}

fn merge(used: &[(u32, usize)], packages: &[u64]) -> Vec<(u64, usize)> {
    let mut row = Vec::with_capacity(used.len() + packages.len());
    let (mut symbol, mut package) = (0, 0);
    while symbol < used.len() || package < packages.len() {
        let next_symbol = used.get(symbol).map(|(count, _)| u64::from(*count));
        let next_package = packages.get(package).copied();
        let take_symbol = match (next_symbol, next_package) {
            (Some(one), Some(two)) => one < two,
            (one, _) => one.is_some(),
        };
        if take_symbol {
            row.push((next_symbol.unwrap_or_default(), symbol + 1));
            symbol += 1;
        } else {
            row.push((next_package.unwrap_or_default(), symbol));
            package += 1;
        }
    }
    row
}
