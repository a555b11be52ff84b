//! Release records that helm 3 and helm 4 sent to a real API server: read, written and read again.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::Read;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everflow_helm::release::{decode, encode, from_object, to_secret};
use everflow_json::Value;

/// The record's texts in a trace; they stand in protobuf as they are.
fn records(trace: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in trace.lines() {
        let exchange: Value = everflow_json::from_str(line).unwrap();
        for key in ["request_base64", "response_base64"] {
            let Some(body) = exchange[key].as_str() else {
                continue;
            };
            let body = STANDARD.decode(body).unwrap();
            let text = String::from_utf8_lossy(&body);
            let Some(start) = text.find("H4sI") else {
                continue;
            };
            let is_base64 = |c: char| c.is_ascii_alphanumeric() || "+/=".contains(c);
            let end = text[start..]
                .find(|c| !is_base64(c))
                .map_or(text.len(), |end| start + end);
            // What follows in protobuf may look like base64, too.
            let text = &text[start..end];
            found.push(text[..text.len() / 4 * 4].to_owned());
        }
    }
    found
}

fn unpacked(text: &str) -> Option<Value> {
    let bytes = STANDARD.decode(text).ok()?;
    let mut json = String::new();
    flate2::read::GzDecoder::new(bytes.as_slice())
        .read_to_string(&mut json)
        .ok()?;
    everflow_json::from_str(&json).ok()
}

/// Helm 3 writes times that never were as empty texts, helm 4 leaves them out; both read both.
fn without_empty_times(json: &mut Value) {
    match json {
        Value::Object(map) => {
            map.retain(|key, value| {
                let is_time = ["deleted", "started_at", "completed_at"].contains(&key.as_str());
                !(is_time && value == "")
            });
            map.values_mut().for_each(without_empty_times);
        }
        Value::Array(items) => items.iter_mut().for_each(without_empty_times),
        _ => {}
    }
}

#[test]
fn records_of_helm_3_and_4_survive() {
    let Some(directory) = everflow_corpus::find("apiserver/traces") else {
        return;
    };
    let mut counts = [0, 0];
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if !name.starts_with("helm") {
            continue;
        }
        for text in records(&std::fs::read_to_string(&path).unwrap()) {
            let Some(mut want) = unpacked(&text) else {
                continue;
            };
            without_empty_times(&mut want);
            let release = decode(&text).unwrap();
            assert_eq!(release.to_json(), want, "{name}");
            assert_eq!(decode(&encode(&release).unwrap()).unwrap(), release);
            let secret = to_secret(&release).unwrap();
            assert_eq!(from_object(&secret).unwrap(), release);
            assert!(release.version > 0 && !release.manifest.is_empty());
            counts[usize::from(name.starts_with("helm3"))] += 1;
        }
    }
    assert!(counts[0] > 5 && counts[1] > 5, "helm 4 and 3: {counts:?}");
}
