//! Small patches that would make documents too deep for the stack.
#![allow(clippy::unwrap_used)]

use everflow_json::{Value, json};
use everflow_merge::{MergeError, json_patch};

/// On the stack of a server's thread.
fn patched(operations: Vec<Value>) -> Result<Value, MergeError> {
    let patch = Value::Array(operations);
    let work = move || json_patch::apply(&json!({"a": {}}), &patch);
    let thread = std::thread::Builder::new().stack_size(2 << 20);
    thread.spawn(work).unwrap().join().unwrap()
}

#[test]
fn copies_into_their_own_copy_are_refused_before_they_overflow_the_stack() {
    let mut operations = Vec::new();
    let mut depth = 1;
    while depth < 60_000 {
        let inside = format!("{}/a", "/a".repeat(depth));
        operations.push(json!({"op": "copy", "from": "/a", "path": inside}));
        depth *= 2;
    }
    let error = patched(operations).unwrap_err();
    assert!(matches!(error, MergeError::TooDeep { .. }), "{error}");
}

#[test]
fn additions_below_one_another_are_refused_before_they_overflow_the_stack() {
    let step: Value = (0..400).fold(json!({}), |inner, _| json!({"a": inner}));
    let operations = (0..100)
        .map(|times| json!({"op": "add", "path": "/a".repeat(times * 400 + 1), "value": step}))
        .collect();
    let error = patched(operations).unwrap_err();
    assert!(matches!(error, MergeError::TooDeep { .. }), "{error}");
}
