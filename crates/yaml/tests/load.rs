//! What both dialects read, against the recorded answers of the Go libraries.
#![allow(clippy::expect_used, clippy::print_stdout)]

#[path = "writing/mod.rs"]
mod corpus;
mod reading;

use corpus::{Tally, cases};
use everflow_json::{Value, json};
use everflow_yaml::sigs::typed::{self, StructTarget, Target};
use everflow_yaml::{Limits, gojson, kyaml, sigs};

/// The deepest documents that Go reads need a deep stack to be printed and dropped.
const STACK: usize = 256 << 20;

#[test]
fn load_agrees_with_go() {
    let run = std::thread::Builder::new()
        .stack_size(STACK)
        .spawn(check_load)
        .expect("a thread");
    if let Err(panic) = run.join() {
        std::panic::resume_unwind(panic);
    }
}

fn check_load() {
    let Some(cases) = cases("load.jsonl") else {
        return;
    };
    let mut tally = Tally::default();
    for case in &cases {
        let id = case["id"].as_str().unwrap_or_default();
        let input = reading::input(case);
        check_types(&mut tally, id, &input, &case["types"]);
        let recorded = &case["sigs"];
        let sigs = go_text(sigs::to_json(&input, false, Limits::GO));
        tally.check(format!("{id}/sigs"), recorded, &sigs);
        let strict = go_text(sigs::to_json(&input, true, Limits::GO));
        tally.check(
            format!("{id}/strict"),
            case.get("strict").unwrap_or(recorded),
            &strict,
        );
        let yaml3 = go_text(kyaml::yaml_to_json_within(&input, Limits::GO));
        tally.check(
            format!("{id}/yaml3"),
            case.get("yaml3").unwrap_or(recorded),
            &yaml3,
        );
    }
    tally.finish("load.jsonl", include_str!("reading/load-known.txt"));
}

/// `v: X` into a struct whose field `v` has the type.
fn check_types(tally: &mut Tally, id: &str, input: &[u8], types: &Value) {
    let Some(types) = types.as_object() else {
        return;
    };
    for (name, recorded) in types {
        let target = match name.as_str() {
            "any" => Target::Any,
            "k8s any" => Target::KubernetesAny,
            "string" => Target::String,
            "bool" => Target::Bool,
            "int64" => Target::Int64,
            "float64" => Target::Float64,
            "[]string" => Target::Slice(Box::new(Target::String)),
            "map[string]string" => Target::Map(Box::new(Target::String)),
            other => panic!("unknown type {other}"),
        };
        let go_struct = Target::Struct(StructTarget {
            name: String::new(),
            fields: vec![("v".to_owned(), target)],
        });
        let answer = typed::unmarshal(input, &go_struct);
        if let (Ok(answer), Some(go)) = (&answer, recorded["go"].as_str()) {
            let kind = json!({ "text": go });
            let ours = go_type(&answer["v"]).to_owned();
            tally.check(format!("{id}/{name}/type"), &kind, &Ok(ours));
        }
        let answer = go_text(answer.map(|answer| answer["v"].clone()));
        tally.check(format!("{id}/{name}"), recorded, &answer);
    }
}

fn go_type(json: &Value) -> &'static str {
    match json {
        Value::Null => "nil",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

fn go_text(json: Result<Value, everflow_yaml::Error>) -> Result<String, String> {
    json.map(|json| gojson::to_string(&json))
        .map_err(|error| error.to_string())
}
