//! How long the built-in facts take to unpack: `cargo bench -p everflow-schema`.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::hint::black_box;
use std::time::Instant;

use everflow_json::json;
use everflow_schema::{Registry, data, openapi, protobuf};

fn main() {
    let rounds = 200;
    time("facts, unpacked and indexed", rounds, || {
        Registry::new(data::load().unwrap())
    });
    time("documents", rounds, || openapi::load().unwrap());
    time("document of apps/v1", rounds, || {
        openapi::documents().v3("apis/apps/v1").unwrap()
    });
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "b", "labels": {"app": "x"}},
        "data": {"key": "value"},
    });
    let body = protobuf::encode(&object).unwrap();
    time("protobuf, one ConfigMap decoded", 20_000, || {
        protobuf::decode(&body).unwrap()
    });
    time("protobuf, one ConfigMap encoded", 20_000, || {
        protobuf::encode(&object).unwrap()
    });
}

fn time<T>(what: &str, rounds: u32, work: impl Fn() -> T) {
    let start = Instant::now();
    black_box(work());
    let first = start.elapsed();
    let start = Instant::now();
    for _ in 0..rounds {
        black_box(work());
    }
    println!(
        "{what}: first {first:?}, then {:?}",
        start.elapsed() / rounds
    );
}
