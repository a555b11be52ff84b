//! The committed data: deflated postcard, written by the generator.

use std::io::Read as _;

use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::openapi::Documents;
use crate::registry::Facts;

/// The packed facts of the Kubernetes release this crate ships.
const BUILTIN: &[u8] = include_bytes!("../data/builtin.bin");

/// The packed OpenAPI documents of the same release.
const DOCUMENTS: &[u8] = include_bytes!("../data/openapi.bin");

/// Unpacks the facts compiled into the crate.
pub fn load() -> Result<Facts, Error> {
    unpack(BUILTIN)
}

/// Unpacks the OpenAPI documents compiled into the crate.
pub(crate) fn load_documents() -> Result<Documents, Error> {
    unpack(DOCUMENTS)
}

fn unpack<T: DeserializeOwned>(packed: &[u8]) -> Result<T, Error> {
    let mut bytes = Vec::new();
    flate2::read::DeflateDecoder::new(packed)
        .read_to_end(&mut bytes)
        .map_err(|error| Error::DamagedData(error.to_string()))?;
    postcard::from_bytes(&bytes).map_err(|error| Error::DamagedData(error.to_string()))
}
