//! Digests of content, as `algorithm:hex`.

use std::fmt;
use std::io::{self, Read, Write};

use sha2::{Digest as _, Sha256, Sha384, Sha512};

use crate::Error;

/// A hash function for content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Algorithm {
    /// SHA-256, the default.
    #[default]
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
    /// BLAKE3 with 256 bits.
    Blake3,
}

impl Algorithm {
    /// The name in front of the colon.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Sha256 => "sha256",
            Algorithm::Sha384 => "sha384",
            Algorithm::Sha512 => "sha512",
            Algorithm::Blake3 => "blake3",
        }
    }

    /// The algorithm of that name.
    pub fn parse(name: &str) -> Result<Self, Error> {
        match name {
            "sha256" => Ok(Algorithm::Sha256),
            "sha384" => Ok(Algorithm::Sha384),
            "sha512" => Ok(Algorithm::Sha512),
            "blake3" => Ok(Algorithm::Blake3),
            _ => Err(Error::Digest(format!(
                "unsupported digest algorithm {name:?}: use sha256, sha384, sha512 or blake3"
            ))),
        }
    }
}

/// What a hash function gave.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Digest {
    text: String,
    colon: usize,
}

impl Digest {
    /// Reads `algorithm:hex`; without an algorithm it is SHA-256.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let (name, hex) = text.split_once(':').unwrap_or(("sha256", text));
        let algorithm = Algorithm::parse(name)?;
        let length = match algorithm {
            Algorithm::Sha256 | Algorithm::Blake3 => 64,
            Algorithm::Sha384 => 96,
            Algorithm::Sha512 => 128,
        };
        let plain = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
        if hex.len() != length || !hex.bytes().all(plain) {
            return Err(Error::Digest(format!("invalid checksum digest {text:?}")));
        }
        Ok(Digest::of_parts(algorithm, hex))
    }

    fn of_parts(algorithm: Algorithm, hex: &str) -> Self {
        Digest {
            text: format!("{}:{hex}", algorithm.name()),
            colon: algorithm.name().len(),
        }
    }

    /// The hexadecimal half.
    pub fn hex(&self) -> &str {
        &self.text[self.colon + 1..]
    }

    /// The algorithm.
    pub fn algorithm(&self) -> Algorithm {
        Algorithm::parse(&self.text[..self.colon]).unwrap_or_default()
    }

    /// The whole text.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A digest in the making.
#[derive(Clone)]
pub struct Digester(State);

#[derive(Clone)]
enum State {
    Sha256(Sha256),
    Sha384(Sha384),
    Sha512(Sha512),
    // Large beside the others, and there is one per file at most.
    Blake3(Box<blake3::Hasher>),
}

impl Digester {
    /// Nothing hashed yet.
    pub fn new(algorithm: Algorithm) -> Self {
        Digester(match algorithm {
            Algorithm::Sha256 => State::Sha256(Sha256::new()),
            Algorithm::Sha384 => State::Sha384(Sha384::new()),
            Algorithm::Sha512 => State::Sha512(Sha512::new()),
            Algorithm::Blake3 => State::Blake3(Box::new(blake3::Hasher::new())),
        })
    }

    /// Takes more content.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            State::Sha256(state) => state.update(bytes),
            State::Sha384(state) => state.update(bytes),
            State::Sha512(state) => state.update(bytes),
            State::Blake3(state) => {
                state.update(bytes);
            }
        }
    }

    /// The digest of all that was taken.
    pub fn finish(self) -> Digest {
        match self.0 {
            State::Sha256(state) => Digest::of_parts(Algorithm::Sha256, &hex(&state.finalize())),
            State::Sha384(state) => Digest::of_parts(Algorithm::Sha384, &hex(&state.finalize())),
            State::Sha512(state) => Digest::of_parts(Algorithm::Sha512, &hex(&state.finalize())),
            State::Blake3(state) => {
                Digest::of_parts(Algorithm::Blake3, &hex(state.finalize().as_bytes()))
            }
        }
    }
}

/// The digest of some bytes.
pub fn digest_of(algorithm: Algorithm, bytes: &[u8]) -> Digest {
    let mut digester = Digester::new(algorithm);
    digester.update(bytes);
    digester.finish()
}

/// The digest of all that a reader gives.
pub fn digest_reader(algorithm: Algorithm, mut reader: impl Read) -> io::Result<Digest> {
    let mut digester = Digester::new(algorithm);
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match reader.read(&mut buffer)? {
            0 => return Ok(digester.finish()),
            count => digester.update(&buffer[..count]),
        }
    }
}

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Writes on, hashing and counting what goes through.
pub struct DigestWriter<W> {
    out: W,
    digester: Digester,
    size: u64,
}

impl<W: Write> DigestWriter<W> {
    /// Nothing written yet.
    pub fn new(out: W, algorithm: Algorithm) -> Self {
        DigestWriter {
            out,
            digester: Digester::new(algorithm),
            size: 0,
        }
    }

    /// The writer back, with the digest and size of all that was written.
    pub fn finish(self) -> (W, Digest, u64) {
        (self.out, self.digester.finish(), self.size)
    }
}

impl<W: Write> Write for DigestWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.out.write(bytes)?;
        self.digester.update(&bytes[..count]);
        self.size += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_read_and_written() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let digest = digest_of(Algorithm::Sha256, b"");
        assert_eq!(digest.to_string(), format!("sha256:{empty}"));
        assert_eq!(Digest::parse(empty).unwrap(), digest);
        assert_eq!(Digest::parse(digest.as_str()).unwrap(), digest);
        let long = digest_of(Algorithm::Sha512, b"x");
        assert_eq!(Digest::parse(long.as_str()).unwrap(), long);
        assert_eq!(long.algorithm(), Algorithm::Sha512);
        let other = digest_of(Algorithm::Blake3, b"");
        assert_eq!(
            other.as_str(),
            "blake3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
        );
        assert_eq!(Digest::parse(other.as_str()).unwrap(), other);
        for bad in ["md5:abc", "sha256:abc", "sha256:ZZ", ""] {
            assert!(Digest::parse(bad).is_err(), "{bad}");
        }
    }
}
