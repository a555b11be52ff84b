//! `gofmt` against recorded answers of Go's fmt and strconv.
//!
//! The data comes from `real/gotemplate-diff` (`go run . fmt`).
#![allow(clippy::unwrap_used)]

use everflow_gotemplate::gofmt::{FloatSize, format_float, sprintf};
use everflow_gotemplate::{GoStr, GoType, Limits, List, Map, Meter, Value};
use everflow_json::Value as Json;
use everflow_limits::Budget;

fn unhex(text: &str) -> Vec<u8> {
    text.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn text(spec: &Json) -> Vec<u8> {
    unhex(spec["v"].as_str().unwrap_or(""))
}

fn number<T: std::str::FromStr>(spec: &Json) -> T {
    spec["v"].as_str().unwrap().parse().ok().unwrap()
}

fn items(spec: &Json) -> impl Iterator<Item = &Json> {
    spec["i"].as_array().into_iter().flatten()
}

fn map(spec: &Json, go_type: GoType) -> Value {
    let map = Map::typed(go_type, Default::default());
    for (key, value) in spec["m"].as_object().into_iter().flatten() {
        map.insert(unhex(key), build(value)).unwrap();
    }
    Value::Map(map)
}

fn build(spec: &Json) -> Value {
    match spec["k"].as_str().unwrap() {
        "nil" => Value::Nil,
        "bool" => Value::Bool(spec["v"] == "true"),
        "int" => Value::Int(number(spec)),
        "int8" => Value::Int8(number(spec)),
        "int32" => Value::Int32(number(spec)),
        "int64" => Value::Int64(number(spec)),
        "uint" => Value::Uint(number(spec)),
        "uint8" => Value::Uint8(number(spec)),
        "uint64" => Value::Uint64(number(spec)),
        "float32" => Value::Float32(number(spec)),
        "float64" => Value::Float64(number(spec)),
        "string" => Value::String(GoStr::from_vec(text(spec))),
        "bytes" => Value::bytes(&text(spec)),
        "list" => Value::list(items(spec).map(build).collect()),
        "nillist" => Value::List(List::nil(GoType::ANY_SLICE)),
        "nilmap" => Value::Map(Map::nil(GoType::ANY_MAP)),
        "strings" => Value::strings(items(spec).map(text)),
        "ints" => {
            let numbers = items(spec).map(|item| Value::Int(number(item))).collect();
            Value::List(List::typed(GoType::INT_SLICE, numbers))
        }
        "map" => map(spec, GoType::ANY_MAP),
        "stringmap" => map(spec, GoType::STRING_MAP),
        other => panic!("unknown kind {other}"),
    }
}

#[test]
fn recorded_answers_of_fmt_and_strconv() {
    let data = include_str!("data/fmt.jsonl");
    let budget = Budget::unlimited();
    let meter = Meter::new(&Limits::default(), &budget);
    let mut failures = Vec::new();
    let mut count = 0;
    for line in data.lines() {
        count += 1;
        let case: Json = everflow_json::from_str(line).unwrap();
        let (got, want) = if case[0] == "float" {
            let value = f64::from_bits(case[1].as_str().unwrap().parse().unwrap());
            let precision = case[3].as_i64().and_then(|p| usize::try_from(p).ok());
            let size = match case[4].as_u64() {
                Some(32) => FloatSize::F32,
                _ => FloatSize::F64,
            };
            let format = case[2].as_str().unwrap().as_bytes()[0];
            let got = format_float(value, format, precision, size);
            (got, case[5].as_str().unwrap().to_owned())
        } else {
            let format = unhex(case[0].as_str().unwrap());
            let args: Vec<Value> = case[1]
                .as_array()
                .into_iter()
                .flatten()
                .map(build)
                .collect();
            let got = sprintf(&format, &args, &meter).unwrap();
            let want = GoStr::from_vec(unhex(case[2].as_str().unwrap()));
            match got == want {
                true => (String::new(), String::new()),
                false => (
                    format!(
                        "{} of {args:?} -> {got:?}",
                        String::from_utf8_lossy(&format)
                    ),
                    format!("{want:?}"),
                ),
            }
        };
        if got != want {
            failures.push(format!("{line}\n  got {got}\n want {want}"));
        }
    }
    assert!(count > 3000, "only {count} cases");
    let shown: Vec<String> = failures.iter().take(30).cloned().collect();
    assert!(
        failures.is_empty(),
        "{} of {count} differ\n{}",
        failures.len(),
        shown.join("\n")
    );
}
