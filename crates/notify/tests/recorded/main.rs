//! Replays what was recorded of the real notification-controller: each scenario with its objects, events and
//! webhooks, against the pure core and stand-ins for all services.

#![allow(clippy::unwrap_used)]

mod compare;
mod gitea;
mod hooks;
mod keys;
mod nats;
mod otlp;
mod standin;
mod symbols;
mod wire;
mod world;

use everflow_corpus::Outcome;
use everflow_json::Value;

use keys::Keys;
use symbols::Symbols;
use world::{Response, World};

/// Scenarios that differ, and why.
const KNOWN: &str = include_str!("known.txt");

#[test]
fn scenarios_of_the_real_controller_are_reproduced() {
    let Some(directory) = everflow_corpus::find("flux/notification") else {
        return;
    };
    let keys = Keys::new();
    let mut files: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let only = std::env::var("ONLY").unwrap_or_default();
    let mut outcome = Outcome::default();
    for file in files {
        let scenario: Value = everflow_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let name = scenario["name"].as_str().unwrap().to_owned();
        let has_steps = scenario["steps"]
            .as_array()
            .is_some_and(|steps| !steps.is_empty());
        if !has_steps || !name.contains(&only) {
            continue;
        }
        outcome.record(name, replay(&scenario, &keys));
    }
    if only.is_empty() {
        outcome.assert(KNOWN);
    } else {
        outcome.assert("");
    }
}

fn replay(scenario: &Value, keys: &Keys) -> Result<(), String> {
    let symbols = Symbols::new(keys);
    let mut world = World::new(scenario, keys, &symbols);
    let refused: Vec<&str> = scenario["objects_rejected"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|one| one["object"].as_str())
        .collect();
    for object in symbols.fill(&scenario["objects"]).as_array().unwrap() {
        let name = format!(
            "{}/{}",
            object["kind"].as_str().unwrap(),
            object["metadata"]["name"].as_str().unwrap()
        );
        if !refused.contains(&name.as_str()) {
            world.apply(object);
        }
    }
    world.is_running = true;
    let at_first = scenario["then"]["requestedAt_changed"]
        .as_array()
        .into_iter()
        .flatten();
    // What was annotated when it was put there counts as changed.
    world
        .annotated
        .extend(at_first.filter_map(Value::as_str).map(str::to_owned));
    world.reconcile_all();
    check(&mut world, &symbols.fill(&scenario["then"]), None)
        .map_err(|why| format!("at first: {why}"))?;
    for (index, step) in scenario["steps"].as_array().unwrap().iter().enumerate() {
        let response = act(&mut world, step, &symbols);
        let then = symbols.fill(&step["then"]);
        check(&mut world, &then, response).map_err(|why| format!("step {index}: {why}"))?;
    }
    Ok(())
}

/// Carries out a step.
fn act(world: &mut World<'_>, step: &Value, symbols: &Symbols<'_>) -> Option<Response> {
    let mut response = None;
    for (verb, given) in step.as_object().unwrap() {
        let given = symbols.fill(given);
        match verb.as_str() {
            "then" => {}
            "event" => response = Some(world.post_event(given.to_string().as_bytes())),
            "post" => response = Some(world.post_event(&body(&given))),
            "apply" => given
                .as_array()
                .unwrap()
                .iter()
                .for_each(|object| world.apply(object)),
            "delete" => {
                for name in given.as_array().unwrap() {
                    let (kind, name) = name.as_str().unwrap().split_once('/').unwrap();
                    world.delete(kind, name);
                }
            }
            "sleep" => {
                let millis = (given.as_f64().unwrap() * 1_000.0) as u64;
                world.now = world.now + std::time::Duration::from_millis(millis);
                world.retry_failed();
            }
            "hook" => response = Some(hooks::hook(world, &given)),
            "annotate" => {
                for (object, annotations) in given.as_object().unwrap() {
                    world.annotate(object, annotations);
                }
            }
            other => panic!("step {other}"),
        }
    }
    response
}

/// The body of a request to the event server.
fn body(given: &Value) -> Vec<u8> {
    if let Some(size) = given["size"].as_u64() {
        return vec![b'x'; size as usize];
    }
    match &given["body"] {
        Value::String(text) => text.as_bytes().to_vec(),
        other => {
            let mut event = other.clone();
            if let Some(pad) = given["pad"].as_u64() {
                event["message"] = Value::from("m".repeat(pad as usize));
            }
            in_order(&event).into_bytes()
        }
    }
}

/// The text of an event. Where a name stands there twice, the one with a capital comes last, as in the recordings:
/// trees know no order of their own.
fn in_order(event: &Value) -> String {
    let Some(map) = event.as_object() else {
        return event.to_string();
    };
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_by_key(|(name, _)| name.starts_with(|first: char| first.is_ascii_uppercase()));
    let entries = entries
        .iter()
        .map(|(name, value)| format!("{}:{value}", Value::from(name.as_str())));
    format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
}

/// Compares what happened since the last step with what was recorded.
fn check(world: &mut World<'_>, then: &Value, response: Option<Response>) -> Result<(), String> {
    let requests = std::mem::take(&mut world.requests);
    let warnings = std::mem::take(&mut world.warnings);
    if let (Some(recorded), Some(response)) = (then.get("response"), response) {
        check_response(recorded, &response)?;
    }
    let recorded = then["requests"].as_array().cloned().unwrap_or_default();
    let several = world.all("Alert").len() > 1;
    // Which paths the API has is asked once by the recorded client; ours knows them.
    let asks_paths = |one: &Value| one["method"] == "OPTIONS";
    // The keys of Google are fetched by the caller of the core.
    let asks_keys = |one: &Value| one["path"] == "/oauth2/v3/certs";
    let recorded = recorded
        .into_iter()
        .filter(|one| !asks_paths(one) && !asks_keys(one));
    let recorded: Vec<Value> = recorded.collect();
    compare::requests(&recorded, &requests, several)?;
    check_annotated(world, then)?;
    check_receivers(world, then)?;
    check_warnings(world, then, &warnings)
}

/// Compares which objects were asked to be reconciled.
fn check_annotated(world: &mut World<'_>, then: &Value) -> Result<(), String> {
    let recorded = then["requestedAt_changed"].as_array().into_iter().flatten();
    let mut recorded: Vec<&str> = recorded.filter_map(Value::as_str).collect();
    let mut ours = std::mem::take(&mut world.annotated);
    recorded.sort_unstable();
    ours.sort_unstable();
    match recorded == ours {
        true => Ok(()),
        false => Err(format!("annotated {ours:?} instead of {recorded:?}")),
    }
}

/// Compares the status of Receivers that were observed.
fn check_receivers(world: &World<'_>, then: &Value) -> Result<(), String> {
    for (name, observed) in then["objects"].as_object().into_iter().flatten() {
        let mut parts = name.split('/');
        let (kind, name) = (parts.next().unwrap(), parts.next().unwrap());
        let namespace = parts.next().unwrap_or(&world.namespace);
        let Some(recorded) = observed.get("status").filter(|_| kind == "Receiver") else {
            continue;
        };
        let ours = &world.get(kind, namespace, name).unwrap()["status"];
        let [recorded, ours] = [recorded, ours].map(without_times);
        compare::same(&recorded, &ours, &format!("status of {name}"))?;
    }
    Ok(())
}

/// A status without the times of its conditions.
fn without_times(status: &Value) -> Value {
    let mut status = status.clone();
    let conditions = status.get_mut("conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        condition
            .as_object_mut()
            .unwrap()
            .remove("lastTransitionTime");
    }
    status
}

fn check_response(recorded: &Value, response: &Response) -> Result<(), String> {
    let status = recorded["status"].as_u64().unwrap_or_default();
    if status != u64::from(response.status) {
        return Err(format!("status {} instead of {status}", response.status));
    }
    let headers = response.headers.iter().map(|(name, value)| {
        (
            everflow_json::Text::from(*name),
            Value::from(value.as_str()),
        )
    });
    let nothing = Value::Object(everflow_json::Map::new());
    let recorded_headers = recorded.get("headers").unwrap_or(&nothing);
    compare::same(
        recorded_headers,
        &Value::Object(headers.collect()),
        "response headers",
    )?;
    let text = recorded["text"].as_str().unwrap_or_default();
    match text == response.text {
        true => Ok(()),
        false => Err(format!("response {:?} instead of {text:?}", response.text)),
    }
}

fn check_warnings(
    world: &mut World<'_>,
    then: &Value,
    warnings: &[world::ObjectEvent],
) -> Result<(), String> {
    let recorded = then["events"].as_array().cloned().unwrap_or_default();
    // How often what fails is tried again, and so counted up, is a matter of time.
    let is_retry = |one: &Value| {
        let text = |name: &str| one[name].as_str().unwrap_or_default().to_owned();
        let told = (text("object"), text("message"));
        text("reason") == "Failed" && world.told.contains(&told) && warnings.is_empty()
    };
    let recorded: Vec<Value> = recorded.into_iter().filter(|one| !is_retry(one)).collect();
    let told = warnings
        .iter()
        .map(|warning| (warning.object.clone(), warning.message.clone()));
    world.told.extend(told);
    // Events that say the same are counted up: each stands there once.
    let mut ours: Vec<&world::ObjectEvent> = Vec::new();
    for warning in warnings {
        let is_new = ours
            .iter()
            .all(|known| (&known.object, &known.message) != (&warning.object, &warning.message));
        if is_new {
            ours.push(warning);
        }
    }
    if recorded.len() != ours.len() {
        let messages: Vec<&str> = ours
            .iter()
            .map(|warning| warning.message.as_str())
            .collect();
        let texts: Vec<&str> = recorded
            .iter()
            .filter_map(|one| one["message"].as_str())
            .collect();
        return Err(format!("events {messages:?} instead of {texts:?}"));
    }
    for recorded in &recorded {
        let text = |name: &str| recorded[name].as_str().unwrap_or_default();
        let of_object: Vec<&&world::ObjectEvent> = ours
            .iter()
            .filter(|warning| warning.object == text("object") && warning.reason == text("reason"))
            .collect();
        let mut problems = Vec::new();
        let fits = of_object.iter().any(|warning| {
            let result =
                compare::message(text("message"), &warning.message, warning.token.as_deref());
            result.map_err(|why| problems.push(why)).is_ok() && warning.kind == text("type")
        });
        if !fits {
            return Err(format!(
                "event {} {}: {}",
                text("object"),
                text("reason"),
                problems.join("; ")
            ));
        }
        if let Some(annotations) = recorded
            .get("annotations")
            .filter(|_| recorded["count"].as_u64() == Some(1))
        {
            let ours = &of_object[0].annotations;
            let ours = ours.iter().map(|(key, value)| {
                (
                    everflow_json::Text::from(key.as_str()),
                    Value::from(value.as_str()),
                )
            });
            compare::same(annotations, &Value::Object(ours.collect()), "annotations")?;
        }
    }
    Ok(())
}
