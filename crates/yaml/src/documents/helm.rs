//! Helm's manifests and values.

use super::apimachinery::yaml_reader;
use super::trim::{is_blank, trim_start};
use crate::error::Error;
use crate::gojson::numbers_as_f64;
use crate::sigs;
use everflow_json::{Map, Value as Json};
use memchr::memmem;
use std::borrow::Cow;

/// `SplitManifests`: the documents of a rendered chart in order. `---` at the beginning of a line
/// separates whatever follows it: the rest of the line begins the next document.
pub fn helm_manifests(input: &[u8]) -> Vec<&[u8]> {
    let mut rest = trim_start(input);
    let mut manifests = Vec::new();
    let mut push = |document| {
        if !is_blank(document) {
            manifests.push(trim_start(document));
        }
    };
    if rest.starts_with(b"---") {
        rest = skip_blanks(&rest[3..]);
    }
    while let Some(found) = memmem::find(rest, b"\n---") {
        push(&rest[..=found]);
        rest = skip_blanks(&rest[found + 4..]);
    }
    push(rest);
    manifests
}

fn skip_blanks(bytes: &[u8]) -> &[u8] {
    let blanks = bytes
        .iter()
        .take_while(|byte| matches!(byte, b' ' | b'\t'))
        .count();
    &bytes[blanks..]
}

/// `LoadValues`: the documents of a values file, each merged over those before it. Numbers are
/// floating-point, as everywhere in Helm's values.
pub fn helm_values(input: &[u8]) -> Result<Json, Error> {
    let input = match input.last() {
        None | Some(b'\n') => Cow::Borrowed(input),
        Some(_) => Cow::Owned([input, b"\n"].concat()),
    };
    let mut values = Map::new();
    for document in yaml_reader(&input) {
        let document = document
            .map_err(|error| Error::refused(format!("error reading yaml document: {error}")))?;
        let json = sigs::yaml_to_json(&document).map_err(|error| {
            Error::refused(format!(
                "cannot unmarshal yaml document: error converting YAML to JSON: {error}"
            ))
        })?;
        match json {
            Json::Null => {}
            Json::Object(object) => merge(&mut values, object),
            other => {
                let kind = sigs::json_kind(&other);
                return Err(Error::refused(format!(
                    "cannot unmarshal yaml document: error unmarshaling JSON: while decoding \
                     JSON: json: cannot unmarshal {kind} into Go value of type \
                     map[string]interface {{}}"
                )));
            }
        }
    }
    let mut values = Json::Object(values);
    numbers_as_f64(&mut values);
    Ok(values)
}

/// Maps merge, anything else replaces.
fn merge(into: &mut Map, from: Map) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Json::Object(below)), Json::Object(above)) => merge(below, above),
            (_, value) => {
                into.insert(key, value);
            }
        }
    }
}
