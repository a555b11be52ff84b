//! The readers of JSON text. What is read must be what `serde_json` reads.

use everflow_corpus::hostile::{Reader, from_lines, texts};
use everflow_json::{Map, Value, text};

/// All of them.
pub const ALL: &[Reader] = &[
    Reader::new("text", whole, seeds)
        .recorded(recorded)
        .tokens(TOKENS)
        .cases(600),
    Reader::new("text-without", without, || {
        texts(&[r#"{"a": {"b": [1, "x"]}, "c": {}}"#])
    })
    .recorded(recorded)
    .tokens(TOKENS),
];

const TOKENS: &[&str] = &[
    "[",
    "]",
    "{",
    "}",
    "{\"a\":",
    "[[",
    "\\u00e9",
    "\\ud800",
    "\\",
    "-",
    "0",
    "1e400",
    "1E-400",
    "-0",
    "0.1",
    "18446744073709551616",
    "true",
    "null",
    "{\"a\":1,\"a\":",
];

fn seeds() -> Vec<Vec<u8>> {
    texts(&[
        r#"{"a": [1, -2.5e3, "x\n\u00e9", null, true], "b": {"c": {}, "d": []}}"#,
        " [0, 18446744073709551615, -9223372036854775808] ",
        "\"long enough to be shared by all of its copies\"",
    ])
}

fn recorded() -> Vec<Vec<u8>> {
    from_lines("apiserver/protobuf/objects.jsonl", 20, |line| {
        Some(line.as_bytes().to_vec())
    })
}

fn whole(bytes: &[u8]) -> bool {
    let ours = text::read(bytes);
    let theirs: Result<Value, _> = everflow_json::from_slice(bytes);
    match (&ours, &theirs) {
        (Ok(ours), Ok(theirs)) => assert_eq!(ours, theirs),
        (Err(ours), Err(theirs)) => assert_eq!(ours.to_string(), theirs.to_string()),
        _ => panic!("{ours:?} is not {theirs:?}"),
    }
    let Ok(value) = ours else {
        return false;
    };
    let written = text::to_vec(&value);
    assert_eq!(everflow_json::to_vec(&value).unwrap(), written);
    assert_eq!(text::read(&written).unwrap(), value);
    let _: Result<Map, _> = everflow_json::from_slice(bytes);
    true
}

fn without(bytes: &[u8]) -> bool {
    let left_out = text::read_without(bytes, &["a", "b"]);
    let Ok(mut whole) = text::read(bytes) else {
        return false;
    };
    if let Some(map) = whole.get_mut("a").and_then(Value::as_object_mut) {
        map.remove("b");
    }
    // Where the quick reader gives up, nothing is left out.
    left_out
        .is_ok_and(|left_out| left_out == whole || Ok(left_out) == text::read(bytes).map_err(drop))
}
