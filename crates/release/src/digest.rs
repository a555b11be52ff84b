//! Digests as Flux forms them: `sha256:` and hex.

use everflow_api::go_json;
use everflow_api::wire::Wire;
use everflow_json::{Map, Value};
use everflow_yaml::emit;
use sha2::{Digest as _, Sha256};

/// The digest of bytes.
pub fn of_bytes(bytes: &[u8]) -> String {
    finished(Sha256::new().chain_update(bytes))
}

/// The digest that a hash has come to.
pub(crate) fn finished(hash: Sha256) -> String {
    format!("sha256:{}", hex(&hash.finalize()))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The digest of values: of their YAML with all keys sorted, or of nothing when there are none.
///
/// ```
/// use everflow_release::digest::of_values;
/// assert_eq!(
///     of_values(&everflow_json::Map::new()),
///     "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
/// );
/// ```
pub fn of_values(values: &Map) -> String {
    match values.is_empty() {
        true => of_bytes(b""),
        false => of_bytes(emit::sorted_pairs(&Value::Object(values.clone())).as_bytes()),
    }
}

/// The digest of a record of the API: of its JSON in Go's order and a newline.
pub fn of_record<T: Wire>(record: &T) -> String {
    of_bytes(format!("{}\n", go_json::print(record)).as_bytes())
}
