//! Pruning, defaulting and validation against recorded answers of a real API server.
//!
//! Of every recorded scenario this replays the requests on custom resources that need nothing
//! but the schema: creates, replacements, merge patches, applies of new objects.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

use std::collections::BTreeMap;
use std::path::Path;

use everflow_json::{Value, json};
use everflow_schema::structural::{
    FieldError, Prune, Validator, apply_defaults, blocks_rules, check_embedded, check_lists, prune,
    prune_nulls, rules, rules_not_checked,
};
use everflow_schema::{Schema, SchemaView};

const AREAS: [&str; 4] = ["crd", "flux", "ssa-cr", "fieldvalidation"];

#[test]
fn recorded_answers_are_the_same() {
    let Some(corpus) = everflow_corpus::find("apiserver") else {
        return;
    };
    let mut world = World {
        corpus: corpus.clone(),
        ..World::default()
    };
    for area in AREAS {
        let directory = corpus.join("scenarios").join(area);
        let mut files: Vec<_> = std::fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        for file in files {
            world.scenario(&file);
        }
    }
    let wrong = world.wrong;
    eprintln!(
        "{} answers compared, {} of them refusals",
        world.compared, world.refusals
    );
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(world.compared > 500 && world.refusals > 250);
}

#[derive(Default)]
struct World {
    corpus: std::path::PathBuf,
    /// By group and plural.
    kinds: BTreeMap<(String, String), Vec<Version>>,
    objects: BTreeMap<String, Value>,
    compared: usize,
    refusals: usize,
    wrong: Vec<String>,
}

struct Version {
    name: String,
    validator: Validator,
    has_status: bool,
    is_stored: bool,
}

/// A request on a custom resource.
struct Target {
    group: String,
    version: String,
    plural: String,
    name: Option<String>,
    subresource: Option<String>,
    collection: String,
}

impl World {
    fn scenario(&mut self, file: &Path) {
        let scenario: Value = everflow_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        self.objects.clear();
        for request in scenario["setup"].as_array().into_iter().flatten() {
            let body = match request["body_file"].as_str() {
                Some(file) => {
                    everflow_json::from_slice(&std::fs::read(self.corpus.join(file)).unwrap())
                        .unwrap()
                }
                None => request["body"].clone(),
            };
            self.learn(&body);
        }
        for (at, step) in scenario["steps"].as_array().unwrap().iter().enumerate() {
            let label = format!("{} step {at}", scenario["name"].as_str().unwrap());
            self.step(&label, step);
        }
    }

    fn learn(&mut self, body: &Value) {
        if body["kind"] != "CustomResourceDefinition" {
            return;
        }
        let spec = &body["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let versions = spec["versions"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|version| {
                let schema = Schema::from_structural(&version["schema"]["openAPIV3Schema"]).ok()?;
                Some(Version {
                    name: text(&version["name"]),
                    validator: Validator::new(schema),
                    has_status: version["subresources"].get("status").is_some(),
                    is_stored: version["storage"] == true,
                })
            });
        self.kinds.insert(
            (text(&spec["group"]), text(&spec["names"]["plural"])),
            versions.collect(),
        );
    }

    fn step(&mut self, label: &str, step: &Value) {
        let (request, response) = (&step["request"], &step["response"]);
        let succeeded = response["status"]
            .as_u64()
            .is_some_and(|status| status < 300);
        if succeeded && response["body"]["kind"] == "CustomResourceDefinition" {
            self.learn(&response["body"]);
        }
        let Some(path) = request["path"].as_str() else {
            return;
        };
        let Some(target) = target(path) else { return };
        let Some(versions) = self
            .kinds
            .get(&(target.group.clone(), target.plural.clone()))
        else {
            return;
        };
        let Some(version) = versions
            .iter()
            .find(|version| version.name == target.version)
        else {
            return;
        };
        if let Some((compared, problem)) =
            self.compare(version, versions, &target, request, response)
        {
            self.compared += usize::from(compared);
            self.refusals += usize::from(compared && !succeeded);
            self.wrong
                .extend(problem.map(|problem| format!("{label}: {problem}")));
        }
        let dry_run = path.contains("dryRun=All");
        if succeeded && !dry_run && response["body"]["metadata"]["name"].is_string() {
            let name = response["body"]["metadata"]["name"].as_str().unwrap();
            let key = format!("{}/{name}", target.collection);
            let is_object = target
                .subresource
                .as_deref()
                .is_none_or(|sub| sub == "status");
            if request["method"] == "DELETE" {
                self.objects.remove(&key);
            } else if is_object && response["body"]["kind"] != "Table" {
                self.objects.insert(key, response["body"].clone());
            }
        }
    }

    /// Whether the answer was compared, and what was wrong with ours.
    fn compare(
        &self,
        version: &Version,
        versions: &[Version],
        target: &Target,
        request: &Value,
        response: &Value,
    ) -> Option<(bool, Option<String>)> {
        let body = request.get("body").filter(|body| body.is_object())?;
        let content_type = request["headers"]["Content-Type"]
            .as_str()
            .unwrap_or("application/json");
        let old = target
            .name
            .as_ref()
            .and_then(|name| self.objects.get(&format!("{}/{name}", target.collection)));
        let status_only = match target.subresource.as_deref() {
            None => false,
            Some("status") => true,
            Some(_) => return None,
        };
        let (mut object, applied) = match (request["method"].as_str()?, content_type, old) {
            ("POST", "application/json", _) => (body.clone(), false),
            ("PUT", "application/json", Some(_)) => (body.clone(), false),
            ("PATCH", "application/merge-patch+json", Some(old)) => {
                let mut merged = old.clone();
                merge(&mut merged, body);
                (merged, false)
            }
            ("PATCH", "application/apply-patch+yaml", None) if !status_only => (body.clone(), true),
            _ => return None,
        };
        let schema = version.validator.schema().view();
        let unknown = prune(
            &mut object,
            schema,
            Prune {
                resource_root: true,
            },
        );
        if !applied {
            prune_nulls(&mut object, schema);
        }
        apply_defaults(&mut object, schema);
        prepare(&mut object, old, version.has_status, status_only);
        let errors = check(version, schema, &object, old, status_only);
        let status = response["status"].as_u64()?;
        let message = response["body"]["message"].as_str().unwrap_or_default();
        Some(match status {
            200 | 201 => {
                // What is read back has been through the stored version.
                let stored = versions
                    .iter()
                    .find(|version| version.is_stored)?
                    .validator
                    .schema()
                    .view();
                prune(
                    &mut object,
                    stored,
                    Prune {
                        resource_root: true,
                    },
                );
                apply_defaults(&mut object, stored);
                (
                    true,
                    accepted(&object, &errors, &unknown, applied, response),
                )
            }
            422 if message.contains("must be specified for an update")
                || message.starts_with(" \"\"") =>
            {
                return None;
            }
            422 => (true, refused(schema, &errors, response)),
            400 if message.contains("strict decoding error: unknown field") => {
                (true, strict(&unknown, message))
            }
            _ => return None,
        })
    }
}

fn target(path: &str) -> Option<Target> {
    let path = path.split('?').next()?;
    let mut parts: Vec<&str> = path.strip_prefix("/apis/")?.split('/').collect();
    let collection_end = if parts.get(2) == Some(&"namespaces") && parts.len() > 4 {
        5
    } else {
        3
    };
    let collection = parts.get(..collection_end)?.join("/");
    if collection_end == 5 {
        parts.drain(2..4);
    }
    let text = |at: usize| parts.get(at).map(|part| (*part).to_owned());
    Some(Target {
        group: text(0)?,
        version: text(1)?,
        plural: text(2)?,
        name: text(3),
        subresource: text(4),
        collection,
    })
}

/// RFC 7396.
fn merge(target: &mut Value, patch: &Value) {
    let Some(changes) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let fields = target.as_object_mut().unwrap();
    for (name, change) in changes {
        if change.is_null() {
            fields.remove(name);
        } else {
            merge(fields.entry(name.clone()).or_insert(Value::Null), change);
        }
    }
}

/// Status and the rest are written apart where there is a status subresource.
fn prepare(object: &mut Value, old: Option<&Value>, has_status: bool, status_only: bool) {
    let status = match (status_only, old) {
        (true, Some(old)) => {
            let status = object.get("status").cloned();
            *object = old.clone();
            status
        }
        (_, Some(old)) if has_status => old.get("status").cloned(),
        (_, None) if has_status => None,
        _ => return,
    };
    let fields = object.as_object_mut().unwrap();
    match status {
        Some(status) => fields.insert("status".into(), status),
        None => fields.remove("status"),
    };
}

fn check(
    version: &Version,
    schema: SchemaView<'_>,
    object: &Value,
    old: Option<&Value>,
    status_only: bool,
) -> Vec<FieldError> {
    let validator = &version.validator;
    let mut errors = match old {
        Some(old) if status_only => validator.validate_status_update(object, old),
        Some(old) => validator.validate_update(object, old),
        None => validator.validate(object),
    };
    if !status_only {
        errors.extend(check_embedded(object, schema, &|_, _| Vec::new()));
    }
    if old.is_none_or(|old| check_lists(old, schema).is_empty()) {
        errors.extend(check_lists(object, schema));
    }
    if blocks_rules(&errors) && !rules(schema).is_empty() {
        errors.push(rules_not_checked());
    }
    errors
}

/// Go prints whole floats without a fraction.
fn as_printed(value: &Value) -> Value {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 => Value::from(float as i64),
            _ => value.clone(),
        },
        Value::Array(items) => items.iter().map(as_printed).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (name.clone(), as_printed(value)))
            .collect(),
        other => other.clone(),
    }
}

fn accepted(
    object: &Value,
    errors: &[FieldError],
    unknown: &[String],
    applied: bool,
    response: &Value,
) -> Option<String> {
    if let Some(error) = errors.first() {
        return Some(format!("we refuse: {error}"));
    }
    for part in ["spec", "status"] {
        let (ours, theirs) = (object.get(part), response["body"].get(part));
        if ours.map(as_printed).as_ref() != theirs {
            return Some(format!("{part}: ours {ours:?}, recorded {theirs:?}"));
        }
    }
    let warning = &response["headers"]["warning"];
    let warnings: Vec<&str> = warning
        .as_str()
        .into_iter()
        .chain(
            warning
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str),
        )
        .collect();
    let is_unknown =
        |warning: &&&str| warning.contains("unknown field") && !warning.contains("\"metadata.");
    let recorded = warnings.iter().filter(is_unknown).count();
    (!applied && recorded > 0 && recorded != unknown.len())
        .then(|| format!("unknown fields: ours {unknown:?}, recorded {warnings:?}"))
}

fn refused(schema: SchemaView<'_>, errors: &[FieldError], response: &Value) -> Option<String> {
    let mut ours: Vec<(String, String, String)> = errors
        .iter()
        .map(|error| {
            (
                error.kind.reason().to_owned(),
                error.field.clone(),
                error.message(),
            )
        })
        .collect();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let elsewhere = ["metadata", "kind", "apiVersion"];
    let mut theirs: Vec<(String, String, String)> = response["body"]["details"]["causes"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|cause| {
            (
                text(&cause["reason"]),
                text(&cause["field"]),
                text(&cause["message"]),
            )
        })
        .collect();
    if theirs
        .iter()
        .any(|(_, field, _)| field == "kind" || field == "apiVersion")
    {
        return None;
    }
    theirs.retain(|(_, field, _)| {
        !elsewhere
            .iter()
            .any(|prefix| field.split(['.', '[']).next() == Some(prefix))
    });
    if !rules(schema).is_empty() && !blocks_rules(errors) {
        // What rules in CEL say comes on top of ours.
        theirs.retain(|cause| ours.contains(cause));
    }
    ours.sort();
    theirs.sort();
    (ours != theirs).then(|| format!("ours {ours:?}\nrecorded {theirs:?}"))
}

fn strict(unknown: &[String], message: &str) -> Option<String> {
    let mut recorded: Vec<&str> = message
        .split("unknown field \"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .filter(|field| !field.starts_with("metadata."))
        .collect();
    recorded.sort_unstable();
    (recorded != unknown)
        .then(|| format!("unknown fields: ours {unknown:?}, recorded {recorded:?}"))
}
