//! `--set` and its relatives against recordings of helm.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use everflow_helm::chart::load_values;
use everflow_helm::strvals;
use everflow_json::{Map, Value};
use everflow_limits::Budget;

#[test]
fn set_flags_answer_as_recorded() {
    let Some(path) = everflow_corpus::find("helm/values/strvals.jsonl") else {
        return;
    };
    let text = std::fs::read_to_string(path).unwrap();
    let mut outcome = everflow_corpus::Outcome::default();
    for line in text.lines() {
        let case: Value = everflow_json::from_str(line).unwrap();
        outcome.record(case["id"].as_str().unwrap(), check(&case));
    }
    outcome.assert("");
}

fn check(case: &Value) -> Result<(), String> {
    let mut values = match case["base_yaml"].as_str() {
        Some(yaml) => load_values(yaml.as_bytes()).unwrap(),
        None => Map::new(),
    };
    let files = &case["files"];
    let read = |name: &str| match files.get(name).and_then(Value::as_str) {
        Some(content) => Ok(content.to_owned()),
        None => Err(format!("open {name}: no such file or directory")),
    };
    let budget = Budget::unlimited();
    let mut outcome = Ok(());
    for input in case["input"].as_array().unwrap() {
        let input = input.as_str().unwrap();
        outcome = match case["kind"].as_str().unwrap() {
            "set" => strvals::set(input, &mut values, &budget),
            "set-string" => strvals::set_string(input, &mut values, &budget),
            "set-literal" => strvals::set_literal(input, &mut values, &budget),
            "set-file" => strvals::set_file(input, &mut values, &read, &budget),
            "set-json" => strvals::set_json_argument(input, &mut values, &budget),
            other => panic!("unknown kind {other}"),
        };
        if outcome.is_err() {
            break;
        }
    }
    match (outcome, case["want_error"].as_str()) {
        (Err(error), Some(want)) if error.to_string() == want => Ok(()),
        (Err(error), want) => Err(format!("got error {error}, want {want:?}")),
        (Ok(()), Some(want)) => Err(format!("got {values:?}, want error {want}")),
        (Ok(()), None) => compare(&Value::Object(values), case),
    }
}

fn compare(got: &Value, case: &Value) -> Result<(), String> {
    let same_text =
        everflow_yaml::gojson::to_string(got) == everflow_yaml::gojson::to_string(&case["want"]);
    if !same_text {
        return Err(format!("got {got}, want {}", case["want"]));
    }
    for (pointer, want) in case["types"].as_object().into_iter().flatten() {
        let found = match got.pointer(pointer) {
            Some(Value::Number(number)) if number.is_f64() => "float64",
            Some(Value::Number(_)) => "int64",
            _ => continue,
        };
        if *want != found {
            return Err(format!("{pointer} is {found}, want {want}"));
        }
    }
    Ok(())
}
