//! Compares with the real merge code of Kubernetes on random documents.
//!
//! `EVERFLOW_MERGE_PEER` names the program that `real/merge-peer.sh` builds; without it the test
//! says so and passes. `EVERFLOW_MERGE_CASES` sets the number of sequences (2,000).

#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "properties/generate.rs"]
#[allow(dead_code)]
mod generate;

#[path = "replay/corpus.rs"]
#[allow(dead_code)]
mod corpus;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use everflow_json::{Map, Value, json};
use everflow_merge::apply::{FieldManager, ResetFields, SingleVersion, Writer, zero_object};
use everflow_merge::{MergeError, json_patch, merge_patch, strategic};
use everflow_schema::{Schema, builtin, split_api_version};
use proptest::collection::vec;
use proptest::prelude::*;

use generate::{Write, any_json, check, deployment, loose_writes, operation, widget_definition};

struct Peer {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    fn start() -> Option<RefCell<Self>> {
        let Some(program) = std::env::var_os("EVERFLOW_MERGE_PEER") else {
            println!("skipped: EVERFLOW_MERGE_PEER does not name the real merge code");
            return None;
        };
        let mut process = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        Some(RefCell::new(Self {
            process,
            input,
            output,
        }))
    }

    /// The answer of the real code: an object, or an error with causes.
    fn ask(&mut self, request: &Value) -> Result<Value, (String, Vec<String>)> {
        writeln!(self.input, "{request}").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let answer: Value = everflow_json::from_str(&line).unwrap();
        if let Some(error) = answer.get("error").and_then(Value::as_str) {
            let causes = answer["causes"].as_array().into_iter().flatten();
            let mut causes: Vec<String> = causes
                .map(|cause| cause.as_str().unwrap_or_default().to_owned())
                .collect();
            causes.sort();
            return Err((error.to_owned(), causes));
        }
        Ok(answer["object"].clone())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn cases() -> u32 {
    std::env::var("EVERFLOW_MERGE_CASES")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(2_000)
}

fn ours(result: Result<Value, MergeError>) -> Result<Value, (String, Vec<String>)> {
    result.map_err(|error| match error {
        MergeError::Conflict(conflicts) => {
            let mut causes: Vec<String> = conflicts
                .causes()
                .into_iter()
                .map(|cause| format!("{} {}", cause.message, cause.field))
                .collect();
            causes.sort();
            (conflicts.to_string(), causes)
        }
        other => (other.to_string(), Vec::new()),
    })
}

/// Whether an answer of the real code is one of those that depend on its map order, or is a panic.
fn is_arbitrary(answer: &Result<Value, (String, Vec<String>)>) -> bool {
    matches!(answer, Err((text, _)) if text.starts_with("panic:") || text.contains("\n  "))
}

/// Owners without times, in an order of their own.
fn owners(object: &Value) -> Vec<String> {
    let entries = object
        .pointer("/metadata/managedFields")
        .and_then(Value::as_array);
    let mut owners: Vec<String> = entries
        .into_iter()
        .flatten()
        .map(|entry| {
            let mut entry = entry.clone();
            let time = if entry.get("time").is_some() {
                "some"
            } else {
                "none"
            };
            entry["time"] = json!(time);
            entry.to_string()
        })
        .collect();
    owners.sort();
    owners
}

fn without_owners(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        metadata.remove("uid");
    }
    object
}

fn without_empty(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let fields: Map = map
                .iter()
                .map(|(key, value)| (key.clone(), without_empty(value)))
                .filter(|(_, value)| !value.is_null())
                .collect();
            if fields.is_empty() {
                Value::Null
            } else {
                Value::Object(fields)
            }
        }
        Value::Array(items) if items.is_empty() => Value::Null,
        Value::Array(items) => Value::Array(items.iter().map(without_empty).collect()),
        Value::String(text) if text.is_empty() => Value::Null,
        Value::Number(number) if number.as_f64() == Some(0.0) => Value::Null,
        other => other.clone(),
    }
}

#[test]
fn custom_resources_are_managed_alike() {
    let Some(peer) = Peer::start() else { return };
    let definition = widget_definition();
    let schema = Schema::for_custom_resource(&definition).unwrap();
    let mut for_peer = definition;
    for_peer["x-kubernetes-group-version-kind"] =
        json!([{"group": "x.io", "version": "v1", "kind": "Widget"}]);
    let text = json!({"type": "string"});
    for_peer["properties"]["apiVersion"] = text.clone();
    for_peer["properties"]["kind"] = text.clone();
    let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});
    for_peer["properties"]["metadata"] = json!({"type": "object", "properties": {
        "name": text, "uid": text, "labels": texts,
        "managedFields": {"type": "array", "items": {"type": "object"}}}});
    let schemas = json!({"io.x.Widget": for_peer});
    let zero = json!({"apiVersion": "x.io/v1", "kind": "Widget"});
    let versions = SingleVersion::new("x.io/v1", schema.view());
    let fields = FieldManager {
        versions: &versions,
        api_version: "x.io/v1",
        kind: "Widget",
        subresource: "",
        reset: &ResetFields::Nothing,
        zero: &zero,
    };
    let now = "2026-01-01T00:00:00Z";
    check(cases(), loose_writes(), |writes| {
        let mut live = Value::Null;
        for write in writes {
            let base = if live.is_null() { &zero } else { &live };
            let (request, found) = match write {
                Write::Apply {
                    manager,
                    document,
                    force,
                } => (
                    json!({"op": "apply", "manager": manager, "force": force, "new": document}),
                    ours(fields.apply(base, &document, Writer { manager, now }, force)),
                ),
                Write::Update {
                    manager,
                    mut document,
                } => {
                    document["metadata"]["uid"] = json!("u");
                    let found =
                        fields.update_or_forget(base, document.clone(), Writer { manager, now });
                    (
                        json!({"op": "update", "manager": manager, "new": document}),
                        Ok(found),
                    )
                }
            };
            let mut request = request;
            request["apiVersion"] = json!("x.io/v1");
            request["kind"] = json!("Widget");
            request["live"] = live.clone();
            request["schemas"] = schemas.clone();
            let wanted = peer.borrow_mut().ask(&request);
            request["schemas"] = Value::Null;
            if is_arbitrary(&wanted) {
                prop_assert!(
                    found.is_err(),
                    "{} should be refused: {:?}",
                    request,
                    wanted
                );
                continue;
            }
            match (found, wanted) {
                (Ok(mut found), Ok(wanted)) => {
                    prop_assert_eq!(
                        without_owners(&found),
                        without_owners(&wanted),
                        "{}",
                        request
                    );
                    prop_assert_eq!(owners(&found), owners(&wanted), "{}", request);
                    found["metadata"]["uid"] = json!("u");
                    live = found;
                }
                (found, wanted) => prop_assert_eq!(found, wanted, "{}", request),
            }
        }
        Ok(())
    });
}

#[test]
fn built_in_kinds_are_managed_alike() {
    let Some(peer) = Peer::start() else { return };
    let schema = builtin().schema("apps", "v1", "Deployment").unwrap();
    let zero = zero_object(schema, "apps/v1", "Deployment");
    let versions = SingleVersion::new("apps/v1", schema);
    let fields = FieldManager {
        versions: &versions,
        api_version: "apps/v1",
        kind: "Deployment",
        subresource: "",
        reset: &ResetFields::Nothing,
        zero: &zero,
    };
    let now = "2026-01-01T00:00:00Z";
    let managers = || prop_oneof![Just("one"), Just("two"), Just("kubectl")];
    let writes = vec((managers(), deployment(), any::<bool>(), 0..4u8), 1..6);
    check(cases() / 2, writes, |writes| {
        let mut live = Value::Null;
        for (manager, mut document, force, kind) in writes {
            document["apiVersion"] = json!("apps/v1");
            let base = if live.is_null() { &zero } else { &live };
            let mut request = json!({"apiVersion": "apps/v1", "kind": "Deployment", "manager": manager,
                "force": force, "live": live});
            let found = if kind > 0 {
                request["op"] = json!("apply");
                request["new"] = document.clone();
                ours(fields.apply(base, &document, Writer { manager, now }, force))
            } else {
                // An update is of a whole object as the server has it: with its structs.
                document = without_empty(&document);
                merge_structs(&mut document, &zero);
                document["metadata"]["uid"] = json!("u");
                request["op"] = json!("update");
                request["new"] = document.clone();
                Ok(fields.update_or_forget(base, document, Writer { manager, now }))
            };
            let wanted = peer.borrow_mut().ask(&request);
            match (found, wanted) {
                (Ok(found), Ok(mut wanted)) => {
                    prop_assert_eq!(
                        without_empty(&without_owners(&found)),
                        without_empty(&without_owners(&wanted)),
                        "{}",
                        request
                    );
                    prop_assert_eq!(owners(&found), owners(&wanted), "{}", request);
                    wanted["metadata"]["uid"] = json!("u");
                    live = wanted;
                }
                (found, wanted) => prop_assert_eq!(found, wanted, "{}", request),
            }
        }
        Ok(())
    });
}

/// Parts of the documents that were recorded for each built-in kind, applied in turn.
#[test]
fn recorded_documents_are_managed_alike() {
    let Some(peer) = Peer::start() else { return };
    let Some(root) = corpus::directory() else {
        return;
    };
    let mut by_kind: BTreeMap<(String, String), Vec<Value>> = BTreeMap::new();
    for scenario in corpus::scenarios(&root, "ssa-kinds") {
        for step in &scenario.steps {
            let body = &step["request"]["body"];
            if let (Some(version), Some(kind)) =
                (body["apiVersion"].as_str(), body["kind"].as_str())
            {
                let (group, name) = split_api_version(version);
                if builtin().schema(group, name, kind).is_some() {
                    by_kind
                        .entry((version.to_owned(), kind.to_owned()))
                        .or_default()
                        .push(body.clone());
                }
            }
        }
    }
    assert!(by_kind.len() > 40, "only {} kinds recorded", by_kind.len());
    let (agreed, refused) = (Cell::new(0), Cell::new(0));
    let kinds: Vec<_> = by_kind.into_iter().collect();
    let count = kinds.len();
    let write = (
        any::<prop::sample::Index>(),
        any::<u64>(),
        any::<bool>(),
        0..3usize,
    );
    check(cases(), (0..count, vec(write, 1..5)), |(kind, writes)| {
        let ((api_version, kind), documents) = &kinds[kind];
        let (group, version) = split_api_version(api_version);
        let schema = builtin().schema(group, version, kind).unwrap();
        let zero = zero_object(schema, api_version, kind);
        let versions = SingleVersion::new(api_version, schema);
        let fields = FieldManager {
            versions: &versions,
            api_version,
            kind,
            subresource: "",
            reset: &ResetFields::Nothing,
            zero: &zero,
        };
        let mut live = Value::Null;
        for (document, bits, force, manager) in writes {
            let manager = ["one", "two", "kubectl"][manager];
            let mut document = document.get(documents).clone();
            let mut bits = bits;
            thin_out(&mut document, &mut bits, true);
            let base = if live.is_null() { &zero } else { &live };
            let writer = Writer {
                manager,
                now: "2026-01-01T00:00:00Z",
            };
            let found = ours(fields.apply(base, &document, writer, force));
            let request = json!({"op": "apply", "apiVersion": api_version, "kind": kind,
                "manager": manager, "force": force, "live": live, "new": document});
            let wanted = peer.borrow_mut().ask(&request);
            match (found, wanted) {
                (Ok(found), Ok(mut wanted)) => {
                    prop_assert_eq!(owners(&found), owners(&wanted), "{}", request);
                    agreed.set(agreed.get() + 1);
                    wanted["metadata"]["uid"] = json!("u");
                    live = wanted;
                }
                // Values that do not fit the struct are refused later, and not by merging.
                (Ok(_), Err((text, _))) if text.starts_with("failed to convert new") => {}
                (found, wanted) => {
                    refused.set(refused.get() + 1);
                    prop_assert_eq!(found, wanted, "{}", request);
                }
            }
        }
        Ok(())
    });
    let (agreed, refused) = (agreed.get(), refused.get());
    println!("{count} kinds: {agreed} applies and {refused} refusals alike");
    assert!(agreed > refused, "{agreed} applies, {refused} refusals");
}

/// Leaves out some fields and items, chosen by the bits.
fn thin_out(value: &mut Value, bits: &mut u64, is_root: bool) {
    let mut drops = || {
        *bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (*bits >> 40).is_multiple_of(7)
    };
    match value {
        Value::Object(map) => {
            let identity = ["apiVersion", "kind", "metadata"];
            map.retain(|key, _| {
                (is_root && identity.contains(&key.as_str())) || key == "name" || !drops()
            });
            map.values_mut()
                .for_each(|value| thin_out(value, bits, false));
        }
        Value::Array(items) => {
            items.retain(|_| !drops());
            items
                .iter_mut()
                .for_each(|value| thin_out(value, bits, false));
        }
        _ => {}
    }
}

/// Adds the structs that every object has.
fn merge_structs(document: &mut Value, zero: &Value) {
    let (Value::Object(document), Value::Object(zero)) = (document, zero) else {
        return;
    };
    for (key, value) in zero {
        match document.get_mut(key) {
            Some(known) => merge_structs(known, value),
            None => {
                document.insert(key.clone(), value.clone());
            }
        }
    }
    for containers in document
        .get_mut("containers")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        containers["resources"] = json!({});
    }
}

#[test]
fn generic_patches_are_alike() {
    let Some(peer) = Peer::start() else { return };
    let ask = |op: &str, live: &Value, new: &Value, third: &Value| {
        let request = json!({"op": op, "live": live, "new": new, "third": third});
        peer.borrow_mut().ask(&request)
    };
    let none = Value::Null;
    check(
        cases(),
        (any_json(), vec(operation(), 0..4)),
        |(document, patch)| {
            if !document.is_object() {
                return Ok(());
            }
            let patch = Value::Array(patch);
            let found = json_patch::apply(&document, &patch);
            let wanted = ask("json-patch", &document, &patch, &none);
            if !is_arbitrary(&wanted) {
                prop_assert_eq!(
                    found.is_ok(),
                    wanted.is_ok(),
                    "{} {}: {:?}, {:?}",
                    document,
                    patch,
                    found,
                    wanted
                );
                if let (Ok(found), Ok(wanted)) = (found, wanted) {
                    prop_assert_eq!(found, wanted, "{} {}", document, patch);
                }
            }
            Ok(())
        },
    );
    check(
        cases(),
        (any_json(), any_json(), any_json()),
        |(a, b, c)| {
            if !(a.is_object() && b.is_object() && c.is_object()) {
                return Ok(());
            }
            prop_assert_eq!(
                ours(merge_patch::apply(&a, &b)),
                ask("merge-patch", &a, &b, &none),
                "{} {}",
                a,
                b
            );
            prop_assert_eq!(
                ours(merge_patch::create(&a, &b)),
                ask("merge-create", &a, &b, &none),
                "{} {}",
                a,
                b
            );
            prop_assert_eq!(
                ours(merge_patch::create_three_way(&a, &b, &c)),
                ask("merge-three-way", &a, &b, &c),
                "{} {} {}",
                a,
                b,
                c
            );
            Ok(())
        },
    );
}

#[test]
fn strategic_patches_are_alike() {
    let Some(peer) = Peer::start() else { return };
    let schema = builtin().schema("apps", "v1", "Deployment").unwrap();
    let ask = |op: &str, live: &Value, new: &Value, third: &Value| {
        let request = json!({"op": op, "apiVersion": "apps/v1", "kind": "Deployment",
            "live": live, "new": new, "third": third});
        peer.borrow_mut().ask(&request)
    };
    let none = Value::Null;
    check(
        cases(),
        (deployment(), deployment(), deployment()),
        |(a, b, c)| {
            let patch = strategic::create(&a, &b, schema);
            prop_assert_eq!(
                ours(patch.clone()),
                ask("strategic-create", &a, &b, &none),
                "{} {}",
                a,
                b
            );
            let patch = patch.unwrap();
            prop_assert_eq!(
                ours(strategic::apply(&c, &patch, schema)),
                ask("strategic", &c, &patch, &none),
                "{} {}",
                c,
                patch
            );
            prop_assert_eq!(
                ours(strategic::apply(&a, &b, schema)),
                ask("strategic", &a, &b, &none),
                "{} {}",
                a,
                b
            );
            prop_assert_eq!(
                ours(strategic::create_three_way(&a, &b, &c, schema)),
                ask("strategic-three-way", &a, &b, &c),
                "{} {} {}",
                a,
                b,
                c
            );
            Ok(())
        },
    );
    check(
        cases(),
        (deployment(), any_json(), any_json()),
        |(a, b, c)| {
            if !b.is_object() {
                return Ok(());
            }
            let mut placed = a.clone();
            placed["spec"]["template"]["spec"] = c;
            for (live, patch) in [(&a, &b), (&a, &placed)] {
                let found = ours(strategic::apply(live, patch, schema));
                // Some answers depend on the order in which Go walks a map; one of a few has to
                // agree.
                let mut answers = (0..8).map(|_| ask("strategic", live, patch, &none));
                let agrees = answers.any(|wanted| {
                    is_arbitrary(&wanted) || (found.is_err() && wanted.is_err()) || found == wanted
                });
                prop_assert!(
                    agrees,
                    "{} {}: {:?} {:?}",
                    live,
                    patch,
                    found,
                    ask("strategic", live, patch, &none)
                );
            }
            Ok(())
        },
    );
}
