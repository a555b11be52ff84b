//! The committed facts: deflated postcard, written by the generator.

use std::io::Read as _;

use crate::error::Error;
use crate::registry::Facts;

/// The packed facts of the Kubernetes release this crate ships.
const BUILTIN: &[u8] = include_bytes!("../data/builtin.bin");

/// Unpacks the facts compiled into the crate.
pub fn load() -> Result<Facts, Error> {
    unpack(BUILTIN)
}

/// Unpacks facts that [`crate::generate`] packed.
pub fn unpack(packed: &[u8]) -> Result<Facts, Error> {
    let mut bytes = Vec::new();
    flate2::read::DeflateDecoder::new(packed)
        .read_to_end(&mut bytes)
        .map_err(|error| Error::DamagedData(error.to_string()))?;
    postcard::from_bytes(&bytes).map_err(|error| Error::DamagedData(error.to_string()))
}
