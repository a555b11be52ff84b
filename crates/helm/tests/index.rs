//! Indexes of chart repositories against what Go makes of them.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::Cursor;

use everflow_corpus::Outcome;
use everflow_helm::index::read_index;
use everflow_json::Value;

const CASES: &str = include_str!("indexes/cases.jsonl");
const KNOWN: &str = include_str!("indexes/known.txt");

fn rewritten(index: &str) -> Result<String, String> {
    let mut aside = Vec::new();
    let outline = read_index(index.as_bytes(), &mut aside).map_err(|error| error.to_string())?;
    let mut out = Vec::new();
    outline.write(Cursor::new(aside), &mut out).unwrap();
    Ok(String::from_utf8(out).unwrap())
}

#[test]
fn indexes_are_loaded_and_printed_as_go_does() {
    let mut outcome = Outcome::default();
    for line in CASES.lines() {
        let case: Value = everflow_json::from_str(line).unwrap();
        let text = |key: &str| case[key].as_str().unwrap_or_default();
        let got = rewritten(text("index"));
        let expected = match text("error") {
            "" => Ok(text("json").to_owned()),
            error => Err(error.to_owned()),
        };
        let same = match got == expected {
            true => Ok(()),
            false => Err(format!("got {got:?}, Go {expected:?}")),
        };
        outcome.record(text("id"), same);
    }
    outcome.assert(KNOWN);
}
