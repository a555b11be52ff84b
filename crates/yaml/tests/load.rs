//! What both dialects read, against the recorded answers of the Go libraries.

#[path = "writing/mod.rs"]
mod corpus;
mod reading;

use corpus::{Tally, cases};
use everflow_yaml::{Limits, gojson, kyaml, sigs};
use serde_json::Value;

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

fn go_text(json: Result<Value, everflow_yaml::Error>) -> Result<String, String> {
    json.map(|json| gojson::to_string(&json))
        .map_err(|error| error.to_string())
}
