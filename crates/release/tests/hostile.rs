//! Values, records and manifests that anyone may write: each ends in an error that says what is too large.
#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everflow_api::common::ConfigKind;
use everflow_api::helm::ValuesReference;
use everflow_helm::chart::{ChartFile, load_files};
use everflow_helm::values::Warnings;
use everflow_json::{Value, json};
use everflow_limits::{Budget, Stop};
use everflow_release::manifest::{Scope, definitions, objects};
use everflow_release::record::{Entry, Storage, StoredRecord};
use everflow_release::values::compose;

const SHARE: u64 = 32 << 20;

fn budget() -> Budget {
    Budget::new(Stop::new(), SHARE)
}

/// A map of a few kilobytes that stands for a hundred thousand texts: as many as Go's reader takes.
fn aliases(key: &str) -> String {
    let tens = |name: &str| vec![format!("*{name}"); 10].join(", ");
    let texts = |count| vec!["t"; count].join(", ");
    let mut yaml = format!("plain: [{}]\na0: &a0 [{}]\n", texts(2_000), texts(10));
    for level in 1..4 {
        let below = tens(&format!("a{}", level - 1));
        writeln!(yaml, "a{level}: &a{level} [{below}]").unwrap();
    }
    writeln!(yaml, "{key}: [{}]", tens("a3")).unwrap();
    yaml
}

/// The Secret of a revision whose record is this text.
fn secret(version: i64, record: &str) -> Value {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(record.as_bytes()).unwrap();
    let packed = STANDARD.encode(gzip.finish().unwrap());
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1",
        "metadata": {
            "name": format!("sh.helm.release.v1.web.v{version}"), "namespace": "apps",
            "labels": {"name": "web", "owner": "helm", "version": version.to_string()},
        },
        "data": {"release": STANDARD.encode(packed)},
    })
}

#[test]
fn values_of_many_references_count_together() {
    let references: Vec<ValuesReference> = (0..50)
        .map(|number| ValuesReference {
            kind: ConfigKind::ConfigMap,
            name: "bomb".into(),
            values_key: Some(format!("k{number}")),
            ..ValuesReference::default()
        })
        .collect();
    let mut object = json!({"data": {}});
    for number in 0..50 {
        object["data"][format!("k{number}").as_str()] = json!(aliases(&format!("key{number}")));
    }
    let composed = compose("apps", &references, None, |_, _| Some(&object), &budget());
    let error = composed.unwrap_err().to_string();
    assert!(error.contains("apps/bomb' with key 'k"), "{error}");
    assert!(
        error.contains("32 MiB") && error.contains("--max-work-memory"),
        "{error}"
    );
    let stopped = budget();
    stopped.stop().raise();
    let composed = compose("apps", &references, None, |_, _| Some(&object), &stopped);
    assert!(
        composed
            .unwrap_err()
            .to_string()
            .contains("the time for it is over")
    );
}

#[test]
fn records_that_unpack_to_much_are_unreadable_and_say_so() {
    let start = "{\"name\":\"web\",\"version\":1,\"info\":{\"status\":\"deployed\"},";
    let small = || Budget::new(Stop::new(), 4 << 20);
    let zeros = vec!["0"; 100_000].join(",");
    let long = "x".repeat(5 << 20);
    for record in [
        format!("{start}\"config\":{{\"a\":[{zeros}]}}}}"),
        format!("{start}\"chart\":{{\"files\":[{zeros}]}}}}"),
        format!("{start}\"hooks\":[{zeros}]}}"),
        format!("{start}\"{long}\":1}}"),
        format!("{start}\"manifest\":\"{long}\"}}"),
    ] {
        let secret = secret(1, &record);
        let Entry::Unreadable { cause, .. } = Entry::of_within(&secret, &small()) else {
            panic!("it was read: {}", &record[..90]);
        };
        let cause = cause.to_string();
        assert!(cause.contains("--max-work-memory"), "{cause}");
        let whole = StoredRecord::of(&secret, &small()).unwrap_err();
        let whole = whole.to_string();
        assert!(
            whole.contains("apps/sh.helm.release.v1.web.v1") && whole.contains("--max-work-memory"),
            "{whole}"
        );
    }
}

#[test]
fn memory_of_many_records_is_counted_together() {
    let zeros = vec!["0"; 50_000].join(",");
    let secrets: Vec<Value> = (1..=20)
        .map(|version| {
            let record = format!(
                "{{\"name\":\"web\",\"version\":{version},\"config\":{{\"a\":[{zeros}]}}}}"
            );
            secret(version, &record)
        })
        .collect();
    let budget = budget();
    let entries = secrets
        .iter()
        .map(|secret| Entry::of_within(secret, &budget));
    let storage = Storage::of_entries(entries);
    assert!(storage.records().count() < 20);
    assert!(storage.last().is_err());
}

/// A cluster that knows every kind.
struct Known(Budget);

impl Scope for Known {
    fn is_namespaced(&self, _: &str, _: &str) -> Option<bool> {
        Some(true)
    }

    fn budget(&self) -> Option<&Budget> {
        Some(&self.0)
    }
}

#[test]
fn documents_of_a_manifest_count_together() {
    let mut manifest = String::new();
    for number in 0..50 {
        let spec = aliases("key");
        write!(
            manifest,
            "---\napiVersion: example.com/v1\nkind: Thing\nmetadata: {{name: t{number}}}\n{spec}"
        )
        .unwrap();
    }
    let error = objects(&manifest, "apps", &Known(budget()))
        .unwrap_err()
        .to_string();
    assert!(error.contains("--max-work-memory"), "{error}");
    let few: String = manifest.split_inclusive("---\n").take(2).collect();
    let found = objects(&few, "apps", &Known(budget()));
    assert_eq!(found.unwrap().len(), 1);
}

#[test]
fn definitions_of_a_chart_count_together() {
    let mut file = String::new();
    for number in 0..50 {
        let spec = aliases("key");
        write!(
            file,
            "---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: t{number}}}\n{spec}"
        )
        .unwrap();
    }
    let files = vec![
        ChartFile::new(
            "Chart.yaml",
            b"apiVersion: v2\nname: web\nversion: 1.0.0\n".to_vec(),
        ),
        ChartFile::new("crds/things.yaml", file.into_bytes()),
    ];
    let chart = load_files(files, &mut Warnings::default()).unwrap();
    let error = definitions(&chart, "apps", "web", &budget())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("crds/things.yaml") && error.contains("--max-work-memory"),
        "{error}"
    );
}
