//! Replays the recorded apply, update and patch requests on the pure functions.
//!
//! The live object of each step is the one that the real server answered before; what the server
//! adds on its own (defaults, allocated fields, versions) is not compared.

#![allow(clippy::unwrap_used)]

mod corpus;
mod kinds;
mod object;
mod scale;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use everflow_json::{Value, json};
use everflow_merge::MergeError;
use everflow_merge::apply::{
    FieldManager, Writer, manager_of_user_agent, without_time_only_changes,
};
use everflow_merge::{json_patch, merge_patch, strategic};
use everflow_schema::SchemaView;

use corpus::Scenario;
use kinds::{Kinds, Resource};

const NOW: &str = "2026-06-01T12:00:00Z";

#[derive(Default)]
struct Counts {
    applied: usize,
    conflicts: usize,
    refused: usize,
    updated: usize,
    patched: usize,
    scaled: usize,
    left_out: usize,
}

#[test]
fn recorded_writes_are_reproduced() {
    let Some(root) = corpus::directory() else {
        return;
    };
    let known: BTreeMap<String, String> = include_str!("../data/replay-mismatches.txt")
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .filter_map(|line| line.split_once(' '))
        .map(|(id, reason)| (id.to_owned(), reason.to_owned()))
        .collect();
    let mut failures: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut counts = Counts::default();
    let mut scenarios = 0;
    for area in ["ssa", "ssa-cr", "ssa-kinds", "patch", "flux"] {
        for scenario in corpus::scenarios(&root, area) {
            scenarios += 1;
            let problems = Replay::new(&scenario, &mut counts).run();
            if !problems.is_empty() {
                failures.insert(scenario.id.clone(), problems);
            }
        }
    }
    println!(
        "{scenarios} scenarios: {} applied, {} conflicts, {} refused, {} updates, {} patches, {} through scale; {} steps belong to the server",
        counts.applied,
        counts.conflicts,
        counts.refused,
        counts.updated,
        counts.patched,
        counts.scaled,
        counts.left_out
    );
    let failed: BTreeSet<&String> = failures.keys().collect();
    let listed: BTreeSet<&String> = known.keys().collect();
    let unlisted: Vec<String> = failures
        .iter()
        .filter(|(id, _)| !known.contains_key(*id))
        .map(|(id, problems)| format!("{id}\n{}", problems.join("\n")))
        .collect();
    assert!(
        unlisted.is_empty(),
        "{} scenarios differ:\n{}",
        unlisted.len(),
        unlisted.join("\n")
    );
    let passing: Vec<_> = listed.difference(&failed).collect();
    assert!(
        passing.is_empty(),
        "listed as mismatches but fine: {passing:?}"
    );
}

struct Replay<'a> {
    scenario: &'a Scenario,
    counts: &'a mut Counts,
    kinds: Kinds,
    objects: BTreeMap<String, Value>,
    /// Objects as they should be after writes through scale, until the server shows them.
    predicted: BTreeMap<String, (usize, Value)>,
    problems: RefCell<Vec<String>>,
}

/// The parts of a request that matter here.
struct Request<'a> {
    method: &'a str,
    resource: Resource,
    query: BTreeMap<String, String>,
    content_type: String,
    manager: String,
    body: &'a Value,
}

impl<'a> Replay<'a> {
    fn new(scenario: &'a Scenario, counts: &'a mut Counts) -> Self {
        let mut kinds = Kinds::default();
        for request in &scenario.setup {
            kinds.learn(&request["body"]);
        }
        Self {
            scenario,
            counts,
            kinds,
            objects: BTreeMap::new(),
            predicted: BTreeMap::new(),
            problems: RefCell::default(),
        }
    }

    fn run(mut self) -> Vec<String> {
        for (index, step) in self.scenario.steps.iter().enumerate() {
            let (Some(request), Some(response)) = (step.get("request"), step.get("response"))
            else {
                continue;
            };
            self.step(index, request, response);
            let body = &response["body"];
            self.kinds.learn(body);
            self.remember(request, response);
        }
        self.problems.into_inner()
    }

    fn fail(&self, index: usize, text: impl std::fmt::Display) {
        self.problems
            .borrow_mut()
            .push(format!("  step {index}: {text}"));
    }

    /// Keeps what the server now holds.
    fn remember(&mut self, request: &Value, response: &Value) {
        let path = request["path"].as_str().unwrap_or_default();
        let Some((resource, query)) = self.kinds.resource(path) else {
            return;
        };
        let status = response["status"].as_i64().unwrap_or(0);
        let method = request["method"].as_str().unwrap_or_default();
        if query.contains_key("dryRun") || !(200..300).contains(&status) {
            return;
        }
        let body = &response["body"];
        let is_object =
            body.pointer("/metadata/uid").is_some() && body["kind"] == resource.kind.as_str();
        if method == "DELETE" {
            self.objects.remove(&resource.key(body));
        } else if is_object {
            let key = resource.key(body);
            if let Some((index, predicted)) = self.predicted.remove(&key)
                && method == "GET"
                && let Some(problem) = object::same_owners(&predicted, &predicted, body, NOW, false)
            {
                self.fail(index, format!("scale: {problem}"));
            }
            self.objects.insert(key, body.clone());
        } else if resource.subresource == "scale" && method != "GET" {
            let key = resource.key(&Value::Null);
            match self.predicted.get(&key) {
                Some((_, predicted)) => self.objects.insert(key, predicted.clone()),
                None => self.objects.remove(&key),
            };
        }
    }

    fn step(&mut self, index: usize, request: &'a Value, response: &Value) {
        let method = request["method"].as_str().unwrap_or_default();
        if !matches!(method, "POST" | "PUT" | "PATCH") {
            return;
        }
        let path = request["path"].as_str().unwrap_or_default();
        let header = |name: &str| {
            request
                .pointer(&format!("/headers/{name}"))
                .and_then(Value::as_str)
        };
        let Some((resource, query)) = self.kinds.resource(path) else {
            self.counts.left_out += 1;
            return;
        };
        let content_type = header("Content-Type").unwrap_or("application/json");
        let content_type = content_type
            .split(';')
            .next()
            .unwrap_or_default()
            .to_owned();
        let manager = query
            .get("fieldManager")
            .filter(|name| !name.is_empty())
            .cloned();
        let manager = manager
            .unwrap_or_else(|| manager_of_user_agent(header("User-Agent").unwrap_or("corpus/1.0")));
        let body = &request["body"];
        if resource.subresource == "scale" && !body.is_null() {
            let write = scale::ScaleWrite {
                content_type: &content_type,
                body,
                manager: &manager,
                force: query.get("force").is_some_and(|force| force == "true"),
                now: NOW,
            };
            self.scale(index, &resource.key(&Value::Null), &write, response);
            return;
        }
        if body.is_null() || !self.kinds.knows(&resource) {
            self.counts.left_out += 1;
            return;
        }
        let request = Request {
            method,
            resource,
            query,
            content_type,
            manager,
            body,
        };
        let status = response["status"].as_i64().unwrap_or(0);
        if request.content_type == "application/apply-patch+yaml" {
            self.apply(index, &request, status, &response["body"]);
        } else if (200..300).contains(&status) {
            self.update(index, &request, &response["body"]);
        } else {
            self.refused_patch(index, &request, status, &response["body"]);
        }
    }

    /// A patch that the server refused: where it does so because of the patch itself, so do we.
    fn refused_patch(&mut self, index: usize, request: &Request<'_>, status: i64, answer: &Value) {
        let (Some(live), "PATCH") = (self.live(request), request.method) else {
            self.counts.left_out += 1;
            return;
        };
        let schema = self.kinds.kind(&request.resource).schema();
        let error = match patched(request, &live, schema) {
            Some(Err(error)) => error,
            _ => {
                self.counts.left_out += 1;
                return;
            }
        };
        let text = error.to_string();
        let wanted = match &error {
            MergeError::JsonPatch { .. } => {
                let text = "the server rejected our request due to an error in our request";
                (422, text.to_owned())
            }
            MergeError::Strategic { .. } => (500, text),
            MergeError::StrategicFormat { .. } => (400, text),
            _ => (400, format!("error decoding patch: {text}")),
        };
        self.counts.refused += 1;
        let message = answer["message"].as_str().unwrap_or_default();
        if wanted != (status, message.to_owned()) {
            self.fail(
                index,
                format!("patch refused\n    {wanted:?}, the server says\n    {status} {message}"),
            );
        }
    }

    fn scale(&mut self, index: usize, key: &str, write: &scale::ScaleWrite<'_>, response: &Value) {
        let status = response["status"].as_i64().unwrap_or(0);
        let message = response["body"]["message"].as_str().unwrap_or_default();
        let result = self
            .objects
            .get(key)
            .and_then(|parent| scale::write(parent, write));
        match result {
            Some(Ok(object)) if (200..300).contains(&status) => {
                self.counts.scaled += 1;
                self.predicted.insert(key.to_owned(), (index, object));
            }
            Some(Err(error))
                if (200..300).contains(&status) || message.starts_with("Apply failed") =>
            {
                self.counts.refused += 1;
                if error.to_string() != message {
                    self.fail(
                        index,
                        format!(
                            "scale refused\n    {error}, the server says {status}\n    {message}"
                        ),
                    );
                }
            }
            _ => self.counts.left_out += 1,
        }
    }

    fn live(&self, request: &Request<'_>) -> Option<Value> {
        let name = match request.method {
            "POST" => return None,
            _ => request.resource.key(&Value::Null),
        };
        self.objects.get(&name).cloned()
    }

    fn apply(&mut self, index: usize, request: &Request<'_>, status: i64, answer: &Value) {
        let live = self.live(request);
        if live.is_none() && status == 200 {
            self.counts.left_out += 1;
            return;
        }
        let message = answer["message"].as_str().unwrap_or_default();
        let ours = [
            "Apply failed with",
            "failed to create typed",
            "failed to prune",
            "invalid object type",
            "metadata.managedFields must be nil",
            "failed to",
        ];
        let is_ours =
            (200..300).contains(&status) || ours.iter().any(|start| message.starts_with(start));
        if !is_ours {
            self.counts.left_out += 1;
            return;
        }
        let kind = self.kinds.kind(&request.resource);
        let manager = kind.field_manager(&request.resource);
        let zero = kind.zero();
        let base = live.as_ref().unwrap_or(&zero);
        let writer = Writer {
            manager: &request.manager,
            now: NOW,
        };
        let force = request
            .query
            .get("force")
            .is_some_and(|force| force == "true");
        let result = manager
            .run(|manager: &FieldManager<'_>| manager.apply(base, request.body, writer, force));
        match result {
            Ok(object) if (200..300).contains(&status) => {
                self.counts.applied += 1;
                let subresource = &request.resource.subresource;
                let is_builtin = kind.is_builtin();
                let object = object::with_reset(subresource, live.as_ref(), &object, answer);
                let object = object::with_new_owners(base, object, is_builtin);
                let object = without_time_only_changes(base, object);
                let problem =
                    object::same_owners(base, &object, answer, NOW, self.scenario.strict_time)
                        .or_else(|| object::same_content(&object, answer, is_builtin));
                if let Some(problem) = problem {
                    self.fail(index, format!("apply by {}: {problem}", request.manager));
                }
            }
            Ok(_) => self.fail(
                index,
                format!("apply went through, the server says {status} {message}"),
            ),
            Err(MergeError::Conflict(conflicts)) => {
                self.counts.conflicts += 1;
                let text = conflicts.to_string();
                let causes: BTreeSet<(String, String)> = conflicts
                    .causes()
                    .into_iter()
                    .map(|cause| (cause.message, cause.field))
                    .collect();
                let wanted: BTreeSet<(String, String)> = answer["details"]["causes"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(|cause| {
                        let part = |key: &str| cause[key].as_str().unwrap_or_default().to_owned();
                        (part("message"), part("field"))
                    })
                    .collect();
                if text != message || causes != wanted {
                    self.fail(
                        index,
                        format!(
                            "conflict\n    {text:?}, the server says {status}\n    {message:?}"
                        ),
                    );
                }
            }
            Err(error) => {
                self.counts.refused += 1;
                if error.to_string() != message {
                    self.fail(
                        index,
                        format!("refused\n    {error}, the server says {status}\n    {message}"),
                    );
                }
            }
        }
    }

    fn update(&mut self, index: usize, request: &Request<'_>, answer: &Value) {
        let live = self.live(request);
        if (live.is_none() && request.method == "PATCH")
            || answer["kind"] != request.resource.kind.as_str()
        {
            self.counts.left_out += 1;
            return;
        }
        let kind = self.kinds.kind(&request.resource);
        let mut entries = request.body.pointer("/metadata/managedFields").cloned();
        if let (Some(live), "PATCH") = (&live, request.method) {
            let Some(result) = patched(request, live, kind.schema()) else {
                self.counts.left_out += 1;
                return;
            };
            match result {
                Err(error) => {
                    let text = format!("{} is refused: {error}", request.content_type);
                    return self.fail(index, text);
                }
                Ok(patched) => {
                    self.counts.patched += 1;
                    entries = patched.pointer("/metadata/managedFields").cloned();
                    let subresource = &request.resource.subresource;
                    let patched = object::with_reset(subresource, Some(live), &patched, answer);
                    let problem = object::same_content(&patched, answer, kind.is_builtin());
                    if let Some(problem) = problem {
                        self.fail(index, format!("{}: {problem}", request.content_type));
                    }
                }
            }
        }
        let mut new = answer.clone();
        object::set_entries(&mut new, entries);
        if live.is_none() {
            object::without_allocated(&mut new, request.body);
        }
        let manager = kind.field_manager(&request.resource);
        let zero = kind.zero();
        let base = live.as_ref().unwrap_or(&zero);
        let writer = Writer {
            manager: &request.manager,
            now: NOW,
        };
        let result = manager
            .run(|manager: &FieldManager<'_>| Ok(manager.update_or_forget(base, new, writer)));
        self.counts.updated += 1;
        let object = match result {
            Ok(object) => object,
            Err(error) => return self.fail(index, format!("update is refused: {error}")),
        };
        let object = without_time_only_changes(base, object);
        if let Some(problem) =
            object::same_owners(base, &object, answer, NOW, self.scenario.strict_time)
        {
            self.fail(index, format!("update by {}: {problem}", request.manager));
        }
    }
}

/// The object after the request's patch; none for a type of patch that is not known.
fn patched(
    request: &Request<'_>,
    live: &Value,
    schema: SchemaView<'_>,
) -> Option<Result<Value, MergeError>> {
    Some(match request.content_type.as_str() {
        "application/json-patch+json" => json_patch::apply(live, request.body),
        "application/merge-patch+json" => merge_patch::apply(live, request.body),
        "application/strategic-merge-patch+json" => strategic::apply(live, request.body, schema),
        _ => return None,
    })
}

#[test]
fn unknown_paths_are_left_out() {
    assert!(Kinds::default().resource("/version").is_none());
    assert_eq!(json!(null), Value::Null);
}
