//! Definitions of custom resources that a real API server accepted or refused.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

use std::collections::BTreeMap;

use everflow_json::Value;
use everflow_schema::crd::{check_definition, check_definition_update, set_definition_defaults};

#[test]
fn recorded_definitions_are_accepted_or_refused_alike() {
    let Some(corpus) = everflow_corpus::find("apiserver") else {
        return;
    };
    let (mut accepted, mut refused, mut wrong) = (0, 0, Vec::new());
    for area in ["crd", "ssa-cr", "flux"] {
        let directory = corpus.join("scenarios").join(area);
        for file in std::fs::read_dir(directory).unwrap() {
            let scenario: Value =
                everflow_json::from_slice(&std::fs::read(file.unwrap().path()).unwrap()).unwrap();
            for request in scenario["setup"].as_array().into_iter().flatten() {
                let mut body: Value = match request["body_file"].as_str() {
                    Some(file) => {
                        everflow_json::from_slice(&std::fs::read(corpus.join(file)).unwrap())
                            .unwrap()
                    }
                    None => request["body"].clone(),
                };
                if body["kind"] == "CustomResourceDefinition" {
                    set_definition_defaults(&mut body);
                    let errors = check_definition(&body).errors;
                    accepted += 1;
                    assert!(errors.is_empty(), "{} {errors:?}", body["metadata"]["name"]);
                }
            }
            let mut stored = BTreeMap::new();
            for step in scenario["steps"].as_array().unwrap() {
                let Some(problem) = compare(step, &mut stored) else {
                    continue;
                };
                let note = step["note"].as_str().unwrap_or_default();
                match problem {
                    Outcome::Accepted => accepted += 1,
                    Outcome::Refused => refused += 1,
                    Outcome::Wrong(problem) => {
                        wrong.push(format!("{} {note}: {problem}", scenario["name"]))
                    }
                }
            }
        }
    }
    eprintln!("{accepted} definitions accepted, {refused} refused");
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(accepted >= 8 && refused >= 44);
}

enum Outcome {
    Accepted,
    Refused,
    Wrong(String),
}

fn compare(step: &Value, stored: &mut BTreeMap<String, Value>) -> Option<Outcome> {
    let (request, response) = (&step["request"], &step["response"]);
    let path = request["path"].as_str()?;
    let (_, rest) = path.split_once("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")?;
    let name = rest
        .trim_start_matches('/')
        .split(['?', '/'])
        .next()?
        .to_owned();
    let old = stored.get(&name).cloned();
    let body = &response["body"];
    if body["kind"] == "CustomResourceDefinition" {
        stored.insert(body["metadata"]["name"].as_str()?.to_owned(), body.clone());
    }
    if rest.contains("/status") || !request["body"].is_object() {
        return None;
    }
    let content_type = request["headers"]["Content-Type"]
        .as_str()
        .unwrap_or("application/json");
    let mut definition = match (request["method"].as_str()?, content_type) {
        ("POST" | "PUT", "application/json") => request["body"].clone(),
        _ => return None,
    };
    set_definition_defaults(&mut definition);
    let checked = match (&old, request["method"] == "PUT") {
        (Some(old), true) => {
            definition["status"] = old["status"].clone();
            check_definition_update(&definition, old)
        }
        _ => check_definition(&definition),
    };
    let ours: Vec<(String, String, String)> = checked
        .errors
        .iter()
        .map(|error| {
            (
                error.kind.reason().to_owned(),
                error.field.clone(),
                error.message(),
            )
        })
        .collect();
    match response["status"].as_u64()? {
        200 | 201 if ours.is_empty() => Some(Outcome::Accepted),
        200 | 201 => Some(Outcome::Wrong(format!("we refuse: {ours:?}"))),
        422 => {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let mut theirs: Vec<(String, String, String)> = body["details"]["causes"]
                .as_array()?
                .iter()
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
                .any(|(_, field, _)| field == "metadata.resourceVersion")
            {
                return None;
            }
            if !checked.rule_schemas.is_empty() && ours.is_empty() {
                // The rules do not compile or cost too much.
                theirs.retain(|(_, _, message)| {
                    !message.contains("ompil") && !message.contains("cel expression")
                });
                theirs.retain(|(_, _, message)| !message.contains("rule cost"));
            }
            Some(if ours == theirs {
                Outcome::Refused
            } else {
                Outcome::Wrong(format!("ours {ours:?}\nrecorded {theirs:?}"))
            })
        }
        _ => None,
    }
}
