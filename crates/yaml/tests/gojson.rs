//! Go's JSON text against the recorded answers of `encoding/json`.
#![allow(clippy::expect_used, clippy::print_stdout)]

mod writing;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use everflow_json::Value;
use everflow_yaml::gojson::{self, GoField, GoStruct, GoType, HtmlEscape, JsonError, Numbers};
use everflow_yaml::sigs;
use writing::Tally;

#[test]
fn json_text_agrees_with_go() {
    let Some(cases) = writing::cases("gofmt-json.jsonl") else {
        return;
    };
    let mut tally = Tally::default();
    for case in &cases {
        let id = case["id"].as_str().expect("an id");
        let answer = answer(case).unwrap_or_else(|| Err("not supported".to_owned()));
        tally.check(id.to_owned(), &case["want"], &answer);
    }
    tally.finish("gofmt-json.jsonl", include_str!("writing/gojson-known.txt"));
}

fn bytes(encoded: &Value) -> Vec<u8> {
    let text = encoded.as_str().expect("base64 text");
    STANDARD.decode(text).expect("valid base64")
}

fn bits(case: &Value) -> u64 {
    let text = case["bits"].as_str().expect("hexadecimal bits");
    u64::from_str_radix(text.trim_start_matches("0x"), 16).expect("hexadecimal bits")
}

fn answer(case: &Value) -> Option<Result<String, String>> {
    let op = case["op"].as_str().expect("an operation");
    let source = case.get("src_b64").map(bytes).unwrap_or_default();
    Some(match op {
        "float64" => words(gojson::format_f64(f64::from_bits(bits(case)))),
        "float32" => {
            let bits = u32::try_from(bits(case)).expect("32 bits");
            words(gojson::format_f32(f32::from_bits(bits)))
        }
        "string" => Ok(escaped(&bytes(&case["s_b64"]), HtmlEscape::On)),
        "string-noescape" => Ok(escaped(&bytes(&case["s_b64"]), HtmlEscape::Off) + "\n"),
        "bytes" => Ok(format!("\"{}\"", STANDARD.encode(bytes(&case["s_b64"])))),
        "map-keys" | "map-int-keys" => Ok(map_of_indexes(case)),
        "decode" => printed(gojson::parse_first(&source, Numbers::Floats).map(|(value, _)| value))
            .map_err(|error| decoder_words(&source, error)),
        "decode-number" => words(gojson::canonical(&source)),
        "unmarshal-int64" => words(gojson::reprint(&source, &GoType::Int64)),
        "unmarshal-struct" => words(gojson::reprint(&source, &recorded_struct())),
        "unmarshal" => printed(gojson::parse(&source, Numbers::Floats)),
        "indent" => text(gojson::indent(&source, "    ")),
        "compact" => text(gojson::compact(&source, HtmlEscape::Off)),
        "raw" => text(gojson::compact(&source, HtmlEscape::On)).map_err(|error| {
            format!("json: error calling MarshalJSON for type json.RawMessage: {error}")
        }),
        "k8s-decode" => {
            let value = sigs::yaml_to_json(&source).map_err(|error| error.to_string());
            value.map(|mut value| {
                sigs::normalize_numbers(&mut value);
                gojson::to_string(&value)
            })
        }
        _ => return None,
    })
}

/// The struct the recorder decoded into.
fn recorded_struct() -> GoType {
    let field = |name: &str, go_type, omit_empty| GoField {
        name: name.to_owned(),
        go_type,
        omit_empty,
    };
    GoType::Struct(GoStruct {
        name: String::new(),
        type_text: concat!(
            r#"struct { Name string "json:\"name\""; Count int32 "json:\"count,omitempty\""; "#,
            r#"Tags []string "json:\"tags\""; Ptr *bool "json:\"ptr,omitempty\"" }"#
        )
        .to_owned(),
        fields: vec![
            field("name", GoType::String, false),
            field("count", GoType::Int32, true),
            field("tags", GoType::Slice(Box::new(GoType::String)), false),
            field("ptr", GoType::Pointer(Box::new(GoType::Bool)), true),
        ],
    })
}

fn words(answer: Result<String, JsonError>) -> Result<String, String> {
    answer.map_err(|error| error.to_string())
}

fn escaped(bytes: &[u8], html: HtmlEscape) -> String {
    let mut out = String::new();
    gojson::write_escaped_bytes(&mut out, bytes, html);
    out
}

/// A Go map whose values are the places of the keys in the case. Keys may be no UTF-8, which a
/// `Value` cannot hold, so the text is put together here.
fn map_of_indexes(case: &Value) -> String {
    let keys = case["keys_b64"].as_array().expect("keys");
    let mut keys: Vec<(Vec<u8>, usize)> = keys.iter().map(bytes).zip(0..).collect();
    keys.sort();
    let fields: Vec<String> = keys
        .iter()
        .map(|(key, index)| format!("{}:{index}", escaped(key, HtmlEscape::On)))
        .collect();
    format!("{{{}}}", fields.join(","))
}

fn printed(value: Result<Value, JsonError>) -> Result<String, String> {
    words(value.map(|value| gojson::to_string(&value)))
}

fn text(bytes: Result<Vec<u8>, JsonError>) -> Result<String, String> {
    bytes
        .map(|bytes| String::from_utf8(bytes).expect("UTF-8"))
        .map_err(|error| error.to_string())
}

/// A decoder reads from a stream and says so when the stream ends early.
fn decoder_words(source: &[u8], error: String) -> String {
    if error != JsonError::UnexpectedEnd.to_string() {
        error
    } else if source.trim_ascii().is_empty() {
        "EOF".to_owned()
    } else {
        "unexpected EOF".to_owned()
    }
}

#[test]
fn pretty_text_is_what_indenting_the_compact_text_gives() {
    let value = everflow_json::json!({"b": [1, {"c": []}, "<"], "a": {}});
    let compact = gojson::to_string(&value);
    let indented = gojson::indent(compact.as_bytes(), "    ").expect("valid JSON");
    assert_eq!(gojson::pretty(&value, "    ").as_bytes(), indented);
}
