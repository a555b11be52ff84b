//! Random and damaged templates: whatever comes, parsing and executing return.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use everflow_gotemplate::{
    Functions, GoType, Limits, Meter, Numbers, Signature, Templates, Value, gofmt,
};
use everflow_limits::Budget;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Parts that templates are made of, whole and broken.
const PIECES: &[&str] = &[
    "{{",
    "}}",
    "{{- ",
    " -}}",
    "{{/*",
    "*/}}",
    "{{if ",
    "{{range ",
    "{{with ",
    "{{else}}",
    "{{else if ",
    "{{end}}",
    "{{define \"a\"}}",
    "{{block \"b\" .}}",
    "{{template \"a\" .}}",
    "{{break}}",
    "{{continue}}",
    "$",
    "$x",
    "$x := ",
    "$i, $x := ",
    " = ",
    "|",
    "(",
    ")",
    ".",
    ".a",
    ".list",
    ".n.x",
    "nil",
    "true",
    "1",
    "-1",
    "1.5e3",
    "'c'",
    "1i",
    "\"s\"",
    "`r`",
    "index ",
    "slice ",
    "printf ",
    "\"%[3]*.[2]*[1]f\" ",
    "print ",
    "eq ",
    "lt ",
    "and ",
    "or ",
    "not ",
    "len ",
    "call ",
    "html ",
    "list ",
    " ",
    "\n",
    "text",
    "\u{0}",
    "é",
    "\"",
    "`",
    "'",
    "\\",
    ",",
    ":",
    "99999999999999999999",
    "0x",
    "%",
];

fn runner(cases: u32) -> TestRunner {
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    // A fixed seed: the same cases in every run.
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    TestRunner::new_with_rng(config, rng)
}

fn functions() -> Arc<Functions> {
    let mut functions = Functions::new();
    let signature = Signature::variadic(&[GoType::Any], GoType::ANY_SLICE);
    functions.add("list", signature, |_, args| {
        Ok(Value::list(args.all().to_vec()))
    });
    Arc::new(functions)
}

fn run(text: &[u8], functions: &Arc<Functions>) {
    let mut templates = Templates::new("set", Arc::clone(functions));
    let limits = Limits {
        steps: 20_000,
        output_bytes: 1 << 20,
        ..Limits::default()
    };
    let budget = Budget::unlimited();
    let meter = Meter::new(&limits, &budget);
    if templates.parse("main", text, &meter).is_err() {
        return;
    }
    let data =
        everflow_json::json!({"a": "x", "list": [1, "b", null, {"c": 2}], "n": {"x": [true]}});
    let data = Value::from_json(&data, Numbers::Float64, &meter).unwrap();
    for name in templates.names() {
        let name = name.to_str_lossy();
        let meter = Meter::new(&limits, &budget);
        let _ = templates.execute(&name, &data, &mut (), &meter);
    }
}

#[test]
fn templates_of_random_pieces() {
    let functions = functions();
    let text = proptest::collection::vec(proptest::sample::select(PIECES), 0..24);
    let result = runner(6000).run(&text, |pieces| {
        run(pieces.concat().as_bytes(), &functions);
        Ok(())
    });
    result.unwrap();
}

#[test]
fn templates_of_random_bytes() {
    let functions = functions();
    let bytes = proptest::collection::vec(any::<u8>(), 0..60);
    let result = runner(2000).run(&bytes, |mut bytes| {
        run(&bytes, &functions);
        let mut action = b"{{".to_vec();
        action.append(&mut bytes);
        action.extend_from_slice(b"}}");
        run(&action, &functions);
        Ok(())
    });
    result.unwrap();
}

#[test]
fn damaged_templates_of_the_corpus() {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .map(|dir| dir.join("shared/corpus/helm/functions/gotemplate-syntax.jsonl"))
        .find(|path| path.is_file());
    let Some(corpus) = corpus else {
        eprintln!("skipped: no corpus of helm functions");
        return;
    };
    let texts: Vec<Vec<u8>> = std::fs::read_to_string(corpus)
        .unwrap()
        .lines()
        .filter_map(|line| {
            let case: everflow_json::Value = everflow_json::from_str(line).unwrap();
            case["template"]
                .as_str()
                .map(|text| text.as_bytes().to_vec())
        })
        .collect();
    let functions = functions();
    let damage = (
        proptest::sample::select(texts),
        any::<prop::sample::Index>(),
        any::<prop::sample::Index>(),
        proptest::sample::select(PIECES),
    );
    let result = runner(4000).run(&damage, |(mut text, cut, place, piece)| {
        if !text.is_empty() {
            text.remove(cut.index(text.len()));
        }
        let at = place.index(text.len() + 1);
        text.splice(at..at, piece.bytes());
        run(&text, &functions);
        Ok(())
    });
    result.unwrap();
}

#[test]
fn formats_of_random_bytes() {
    let strategy = (
        "%?[-+# 0]{0,3}[0-9*\\[\\]]{0,4}\\.?[0-9*\\[\\]]{0,4}[a-zA-Z%é]?%{0,2}",
        any::<i64>(),
        any::<f64>(),
        proptest::collection::vec(any::<u8>(), 0..6),
    );
    let budget = Budget::unlimited();
    let meter = Meter::new(&Limits::default(), &budget);
    let result = runner(6000).run(&strategy, |(format, int, float, bytes)| {
        let values = [
            Value::Int(int % 100),
            Value::Float64(float),
            Value::string(bytes.clone()),
            Value::list(vec![Value::Int(int), Value::Nil, Value::bytes(&bytes)]),
        ];
        for value in &values {
            let _ = gofmt::sprintf(format.as_bytes(), &[value.clone(), Value::Int(3)], &meter);
        }
        Ok(())
    });
    result.unwrap();
}
