//! The packed form: postcard, deflated.

use std::io::Write as _;

use crate::Failure;

/// Packs a value as `everflow_schema::data` unpacks it.
pub fn pack(value: &impl serde::Serialize) -> Result<Vec<u8>, Failure> {
    let plain = postcard::to_allocvec(value)?;
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(&plain)?;
    Ok(encoder.finish()?)
}
