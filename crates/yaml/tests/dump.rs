//! Every printer against the recorded answers of the Go libraries.
#![allow(clippy::expect_used, clippy::print_stdout)]

mod writing;

use everflow_yaml::emit::{self, Indent};
use everflow_yaml::gojson;
use serde_json::Value;
use writing::Tally;

#[test]
fn printers_agree_with_go() {
    let Some(cases) = writing::cases("dump.jsonl") else {
        return;
    };
    let mut tally = Tally::default();
    for case in &cases {
        check_case(case, &mut tally);
    }
    tally.finish("dump.jsonl", include_str!("writing/dump-known.txt"));
}

/// A field that is left out equals another one.
fn recorded<'a>(case: &'a Value, fields: &[&str]) -> &'a Value {
    fields
        .iter()
        .find_map(|field| case.get(field))
        .unwrap_or(&Value::Null)
}

fn check_case(case: &Value, tally: &mut Tally) {
    let id = case["id"].as_str().expect("an id");
    let text = case["json"].as_str().expect("JSON text");
    let Ok(value) = serde_json::from_str::<Value>(text) else {
        return;
    };
    let mut floats = value;
    gojson::numbers_as_f64(&mut floats);

    let marshal = emit::sigs_checked(&floats).map_err(|error| error.to_string());
    tally.check(
        format!("{id} marshal"),
        recorded(case, &["marshal", "sigs"]),
        &marshal,
    );

    let compact = Ok(emit::yaml3(&floats, Indent::Compact));
    tally.check(
        format!("{id} yaml3"),
        recorded(case, &["yaml3", "sigs"]),
        &compact,
    );
    let wide = Ok(emit::yaml3(&floats, Indent::Wide));
    tally.check(
        format!("{id} yaml3_wide"),
        recorded(case, &["yaml3_wide", "yaml3", "sigs"]),
        &wide,
    );
}
