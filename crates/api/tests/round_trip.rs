//! Objects come back as they were read, and what cannot be read is said precisely.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "real_crds/generate.rs"]
mod generate;
#[path = "common/typed.rs"]
mod typed;

use std::path::{Path, PathBuf};

use everflow_api::kustomization::Kustomization;
use everflow_api::notification::Receiver;
use everflow_api::source::GitRepository;
use everflow_api::{KINDS, Kind, Object, crd};
use everflow_json::{Value, json};
use generate::{Random, value};
use typed::by_kind;

fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "json") {
            found.push(path);
        }
    }
}

/// Calls with every object of Flux that a document holds, however deep.
fn each_object(value: &Value, call: &mut impl FnMut(&Value)) {
    match value {
        Value::Object(map) => {
            let is_whole = value
                .pointer("/metadata/name")
                .is_some_and(Value::is_string);
            if is_whole && map.contains_key("apiVersion") && map.contains_key("kind") {
                call(value);
            }
            map.values().for_each(|value| each_object(value, call));
        }
        Value::Array(items) => items.iter().for_each(|value| each_object(value, call)),
        _ => {}
    }
}

/// Values that stand for those of the run are put back into a form that can be read.
fn with_values(value: &mut Value) {
    match value {
        Value::String(text) if text.starts_with("$TIME") || text.starts_with("$time") => {
            *text = "2026-11-15T10:00:00Z".into();
        }
        Value::String(text) if text.starts_with("$DUR") => *text = "1.5s".into(),
        Value::String(text) if text == "$SIZE" => *value = 1234.into(),
        Value::String(text) if text.starts_with("$ARTIFACT_TIME") => {
            *text = "2026-11-15T10:00:00Z".into();
        }
        Value::Object(map) => {
            // Of releases only the status was recorded after the first time.
            if map.get("kind") == Some(&json!("HelmRelease")) && map.contains_key("status") {
                map.entry("spec").or_insert(json!({"interval": "1m"}));
            }
            map.values_mut().for_each(with_values);
        }
        Value::Array(items) => items.iter_mut().for_each(with_values),
        _ => {}
    }
}

/// All objects that the real controllers left behind.
#[test]
fn recorded_objects_come_back_whole() {
    let Some(directory) = everflow_corpus::find("flux") else {
        return;
    };
    let mut found = Vec::new();
    files(&directory, &mut found);
    let (mut count, mut refused) = (0, Vec::new());
    for file in found {
        let mut document: Value =
            everflow_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        with_values(&mut document);
        let rejected = document["objects_rejected"].as_array();
        let rejected = rejected.into_iter().flatten();
        let rejected: Vec<&str> = rejected.filter_map(|one| one["object"].as_str()).collect();
        each_object(&document, &mut |object| match by_kind(object) {
            None => {}
            Some(Ok(back)) => {
                assert_eq!(&back, object, "{}", file.display());
                count += 1;
            }
            Some(Err(error)) => {
                let error = error.to_string();
                // Recorded with its scenario: the API server refused it as well.
                if !rejected
                    .iter()
                    .any(|name| error.starts_with(&format!("{name}:")))
                {
                    refused.push(format!("{}: {error}", file.display()));
                }
            }
        });
    }
    println!(
        "{count} objects came back whole, {} cannot be read",
        refused.len()
    );
    // These the API server refused as well.
    for refusal in &refused {
        println!("{refusal}");
        let files = [
            "git-scheme",
            "helm-chart-admission",
            "invalid-spec",
            "provider-invalid",
            "receiver-invalid",
            "alert-summary-too-long",
        ];
        assert!(files.iter().any(|file| refusal.contains(file)), "{refusal}");
    }
    assert!(count > 1000, "{count}");
}

#[test]
fn spellings_and_unknown_fields_survive() {
    let object = json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
        "kind": "Kustomization",
        "metadata": {
            "name": "a", "namespace": "b", "generation": 3, "creationTimestamp": null,
            "managedFields": [{"manager": "x"}], "labels": {}, "finalizers": [],
        },
        "spec": {
            "interval": "60s", "timeout": "1m0s", "retryInterval": "0.5h",
            "prune": false, "force": false, "suspend": null, "wait": true,
            "path": "", "patches": [], "dependsOn": [{"name": "c", "future": {"x": [1.5]}}],
            "sourceRef": {"kind": "GitRepository", "name": "d", "namespace": "", "more": true},
            "postBuild": {"substitute": {}, "substituteFrom": null},
            "images": [{"name": "x", "digest": ""}],
            "commonMetadata": {},
        },
        "status": {
            "observedGeneration": -1, "inventory": {"entries": []},
            "conditions": [{
                "type": "Ready", "status": "Unknown", "reason": "Progressing", "message": "",
                "lastTransitionTime": "2026-01-01T02:00:00+02:00", "observedGeneration": 0,
            }],
        },
        "future": 1,
    });
    let read = Object::<Kustomization>::read(&object).unwrap();
    assert_eq!(read.to_value(), object);
    assert_eq!(read.spec.interval, read.spec.timeout());
    assert_eq!(read.spec.path, None);
    assert_eq!(read.spec.source_ref.namespace, None);
    assert!(!read.spec.suspend);
    assert_eq!(
        read.status.conditions[0].last_transition_time.rfc3339(),
        "2026-01-01T00:00:00Z"
    );

    let mut changed = read;
    changed.spec.suspend = true;
    changed.spec.interval = everflow_time::Duration::from_seconds(90);
    changed.spec.path = Some("deploy".into());
    changed.status.inventory = None;
    let mut expected = object;
    expected["spec"]["suspend"] = true.into();
    expected["spec"]["interval"] = "1m30s".into();
    expected["spec"]["path"] = "deploy".into();
    expected["status"]
        .as_object_mut()
        .unwrap()
        .remove("inventory");
    assert_eq!(changed.to_value(), expected);
}

#[test]
fn required_fields_are_written_when_they_are_zero() {
    let spec = everflow_api::kustomization::KustomizationSpec::default();
    let written = everflow_api::to_value(&spec);
    assert_eq!(written["prune"], false);
    assert_eq!(written.get("suspend"), None);
}

fn error_of<K: Kind>(spec: Value) -> String {
    let object = json!({"metadata": {"name": "a", "namespace": "b"}, "spec": spec});
    Object::<K>::read(&object).unwrap_err().to_string()
}

#[test]
fn errors_name_object_field_and_remedy() {
    let url = "https://x.y/z";
    let cases = [
        (
            json!({"url": url}),
            "GitRepository/b/a: spec.interval: is required but missing",
        ),
        (
            json!({"url": 5, "interval": "1m"}),
            "GitRepository/b/a: spec.url: expected a text, found 5",
        ),
        (
            json!({"url": url, "interval": "10"}),
            "GitRepository/b/a: spec.interval: expected a duration such as 30s, 10m or 1h30m, found \"10\"",
        ),
        (
            json!({"url": url, "interval": "1m", "provider": "gcp"}),
            "GitRepository/b/a: spec.provider: expected one of generic, aws, azure, github, found the text \"gcp\"",
        ),
        (
            json!({"url": url, "interval": "1m", "include": [{"repository": {"name": "x"}}, {}]}),
            "GitRepository/b/a: spec.include[1].repository: is required but missing",
        ),
        (
            json!({"url": url, "interval": "1m", "suspend": "yes"}),
            "GitRepository/b/a: spec.suspend: expected true or false, found the text \"yes\"",
        ),
        (
            json!({"url": url, "interval": "1m", "ref": []}),
            "GitRepository/b/a: spec.ref: expected an object, found a list",
        ),
        (
            json!("x"),
            "GitRepository/b/a: spec: expected an object, found the text \"x\"",
        ),
        (
            Value::Null,
            "GitRepository/b/a: spec.url: is required but missing",
        ),
    ];
    for (spec, expected) in cases {
        assert_eq!(error_of::<GitRepository>(spec), expected);
    }
    let receiver = json!({"type": "github", "resources": [
        {"kind": "Bucket", "name": "x", "matchLabels": {"a.b/c": 1}},
    ]});
    assert_eq!(
        error_of::<Receiver>(receiver),
        "Receiver/b/a: spec.resources[0].matchLabels[a.b/c]: expected a text, found 1"
    );
}

#[test]
fn other_kinds_and_versions_are_refused() {
    let object = json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1beta2", "kind": "GitRepository",
        "metadata": {"name": "a", "namespace": "b"},
    });
    let error = Object::<GitRepository>::read(&object).unwrap_err();
    assert_eq!(
        error.to_string(),
        "GitRepository/b/a is source.toolkit.fluxcd.io/v1beta2 GitRepository, \
         not source.toolkit.fluxcd.io/v1 GitRepository"
    );
    assert_eq!(error.reason(), "UnsupportedKind");
    for broken in [json!(null), json!([]), json!("x"), json!({"metadata": 1})] {
        assert!(Object::<GitRepository>::read(&broken).is_err());
    }
}

/// What the schema allows can be read and comes back whole; what it does not allow is refused or
/// comes back whole as well.
#[test]
fn whatever_the_schema_allows_can_be_read() {
    let (mut allowed, mut refused) = (0, 0);
    for (seed, info) in KINDS.iter().enumerate() {
        let definition = crd::definition(info);
        let properties =
            &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
        let mut random = Random::new(seed as u64 + 1);
        for round in 0..400 {
            let (fill, wrong) = ([10, 40, 70, 90][round % 4], [0, 0, 3, 8][round / 4 % 4]);
            let mut object = json!({
                "apiVersion": info.api_version(), "kind": info.kind,
                "metadata": {"name": "a", "namespace": "b"},
                "spec": value(&mut random, &properties["spec"], fill, wrong),
            });
            if info.status.is_some() {
                object["status"] = value(&mut random, &properties["status"], fill, wrong);
            }
            match by_kind(&object).unwrap() {
                Ok(back) => {
                    assert_eq!(back, object);
                    allowed += 1;
                }
                Err(error) => {
                    assert!(wrong > 0, "{error}\n{object}");
                    let text = error.to_string();
                    assert!(text.starts_with(&format!("{}/b/a: s", info.kind)), "{text}");
                    refused += 1;
                }
            }
        }
    }
    println!("{allowed} objects came back whole, {refused} were refused");
    assert!(refused > 500, "{refused}");
}
