//! Random writes on a real kube-apiserver and on ours; every answer has to be the same.
//!
//! Runs when `EVERFLOW_REAL=1` is set. `EVERFLOW_OPERATIONS` sets how many requests are sent
//! (10,000), `EVERFLOW_SEED` repeats a run; the seed is printed.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod documents;
mod normal;
mod random;
mod real;
mod recorded;
mod rules;

use std::collections::BTreeMap;
use std::sync::Arc;

use everflow_cluster::env::SystemEnvironment;
use everflow_cluster::{ApiServer, Body, Options, Request};
use everflow_json::Value;

use documents::Operation;
use random::Random;

/// An answer in the form that is compared.
pub struct Reply {
    pub status: u16,
    pub body: Value,
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

#[test]
fn random_writes_are_answered_alike() {
    let Some(real) = real::Server::start("writes") else {
        return;
    };
    let clock = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let seed = number("EVERFLOW_SEED", clock.as_secs());
    let wanted = number("EVERFLOW_OPERATIONS", 10_000) as usize;
    println!("EVERFLOW_SEED={seed}, {wanted} operations");
    let ours = ApiServer::new(Arc::new(SystemEnvironment::new()), Options::default());
    let mut random = Random::new(seed);
    // One example of each sort of difference, and how often it occurred.
    let mut differences: BTreeMap<String, (usize, String)> = BTreeMap::new();
    let (mut sent, mut compared) = (0, 0);
    let samples = recorded::samples();
    for operation in documents::setup(&samples) {
        let theirs = real.send(std::slice::from_ref(&operation));
        assert!(theirs[0].status < 300, "{}", theirs[0].body);
        let found = handle(&ours, &operation);
        assert!(found.status < 300, "{}", found.body);
    }
    real.wait_for_widgets();
    let mut round = 0;
    while sent < wanted {
        round += 1;
        let batch = documents::sequence(&mut random, &samples, round, 40);
        sent += batch.len();
        let theirs = real.send(&batch);
        let mut states = normal::States::default();
        let mut broken: Vec<String> = Vec::new();
        for (index, (operation, theirs)) in batch.iter().zip(&theirs).enumerate() {
            let found = handle(&ours, operation);
            if broken.contains(&operation.object()) {
                continue;
            }
            compared += 1;
            if let Some(problem) = states.compare(operation, theirs, &found) {
                let story: Vec<String> = batch[..=index]
                    .iter()
                    .filter(|earlier| earlier.object() == operation.object())
                    .map(ToString::to_string)
                    .collect();
                let example = format!("{}\n  after\n    {}", problem.text, story.join("\n    "));
                let known = differences.entry(problem.sort).or_insert((0, example));
                known.0 += 1;
                // What comes after is another story.
                broken.push(operation.object());
            }
        }
    }
    println!("{sent} operations sent, {compared} compared");
    let texts: Vec<String> = differences
        .iter()
        .map(|(sort, (count, example))| {
            format!(
                "{count} × {sort}
{example}"
            )
        })
        .collect();
    assert!(
        texts.is_empty(),
        "seed {seed}: {} sorts of differences:
{}",
        texts.len(),
        texts.join(
            "
"
        )
    );
}

/// Random definitions with rules, then random objects of their kinds. `EVERFLOW_DEFINITIONS` sets how many (100).
#[test]
fn random_rules_are_answered_alike() {
    let Some(real) = real::Server::start("rules") else {
        return;
    };
    let clock = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let seed = number("EVERFLOW_SEED", clock.as_secs());
    let wanted = number("EVERFLOW_DEFINITIONS", 100) as usize;
    println!("EVERFLOW_SEED={seed}, {wanted} definitions");
    let ours = ApiServer::new(Arc::new(SystemEnvironment::new()), Options::default());
    let mut random = Random::new(seed);
    for operation in &documents::setup(&[])[..1] {
        real.send(std::slice::from_ref(operation));
        handle(&ours, operation);
    }
    let mut differences: Vec<String> = Vec::new();
    let (mut refused, mut compared) = (0, 0);
    for round in 0..wanted {
        let round = rules::round(&mut random, round);
        let mut batch = vec![round.definition];
        let mut theirs = real.send(&batch);
        let mut states = normal::States::default();
        if theirs[0].status < 300 {
            real.wait_for(&round.probe);
            theirs.extend(real.send(&round.operations));
            batch.extend(round.operations);
        } else {
            refused += 1;
        }
        let mut broken: Vec<String> = Vec::new();
        for (operation, theirs) in batch.iter().zip(theirs) {
            let found = handle(&ours, operation);
            if broken.contains(&operation.object()) {
                continue;
            }
            compared += 1;
            let (theirs, found) = (unordered(theirs), unordered(found));
            if let Some(problem) = states.compare(operation, &theirs, &found) {
                differences.push(format!("{}\n  defined by {}", problem.text, batch[0].body));
                broken.push(operation.object());
            }
        }
    }
    println!("{wanted} definitions ({refused} refused), {compared} answers compared");
    let count = differences.len();
    differences.truncate(10);
    assert!(
        differences.is_empty(),
        "seed {seed}: {count} differences:\n{}",
        differences.join("\n")
    );
}

/// Several errors come in any order, and object types have a number of their own.
fn unordered(mut reply: Reply) -> Reply {
    let text = reply.body.to_string();
    let mut parts = text.split("selfType");
    let mut clean = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        clean.push_str("selfType");
        clean.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    reply.body = everflow_json::from_str(&clean).unwrap_or_default();
    let several = reply
        .body
        .pointer("/details/causes")
        .and_then(Value::as_array)
        .is_some_and(|causes| causes.len() > 1);
    if several && let Some(map) = reply.body.as_object_mut() {
        map.remove("message");
    }
    reply
}

fn handle(server: &ApiServer, operation: &Operation) -> Reply {
    let mut request = Request::new(&operation.method, &operation.path, operation.body.clone());
    for (name, value) in operation.headers() {
        request = request.header(name, &value);
    }
    let answer = server.handle(&request);
    let body = match &answer.body {
        Body::Full(bytes) => everflow_json::from_slice(bytes).unwrap_or_default(),
        Body::Watch(_) => Value::Null,
    };
    Reply {
        status: answer.status,
        body,
    }
}
