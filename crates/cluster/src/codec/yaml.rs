//! YAML request bodies and answers.

use super::json::{DEPTH_LIMIT, GO_DEPTH_LIMIT, Json};

/// Reads the first document of a YAML body. Also lists duplicate keys as warnings.
pub fn parse(body: &[u8]) -> Result<(Json, Vec<String>), String> {
    let (tree, warnings) = parse_deep(body)?;
    match tree.fits(DEPTH_LIMIT) {
        true => Ok((tree, warnings)),
        false => Err(format!("yaml: exceeded max depth of {DEPTH_LIMIT}")),
    }
}

/// As [`parse`], with [`Json::Unrepresentable`] for what nests too deep instead of an error.
pub fn parse_open(body: &[u8]) -> Result<(Json, Vec<String>), String> {
    let (tree, warnings) = parse_deep(body)?;
    match tree.fits(DEPTH_LIMIT) {
        true => Ok((tree, warnings)),
        false => Ok((tree.cut(DEPTH_LIMIT), warnings)),
    }
}

fn parse_deep(body: &[u8]) -> Result<(Json, Vec<String>), String> {
    if let Some(tree) = json_fast_path(body) {
        return Ok((tree, Vec::new()));
    }
    parse_any(body).map_err(|error| go_depth_error(body).unwrap_or(error))
}

/// What nests deeper than our reader goes may also be too deep for Go's, which says so in words of its own. Going as
/// deep takes a larger stack than that of a request's thread.
fn go_depth_error(body: &[u8]) -> Option<String> {
    const STACK: usize = 128 << 20;
    let brackets = body.iter().filter(|byte| matches!(byte, b'[' | b'{'));
    if brackets.count() <= GO_DEPTH_LIMIT {
        return None;
    }
    let limits = everflow_yaml::Limits::GO;
    std::thread::scope(|scope| {
        let read = || everflow_yaml::sigs::to_json(first_document(body), false, limits).err();
        let thread = std::thread::Builder::new().stack_size(STACK);
        let error = thread.spawn_scoped(scope, read).ok()?.join().ok()??;
        Some(error.to_string()).filter(|text| text.contains("exceeded max depth"))
    })
}

fn parse_any(body: &[u8]) -> Result<(Json, Vec<String>), String> {
    let first = first_document(body);
    let strict = match everflow_yaml::sigs::yaml_to_json_strict(first) {
        Ok(value) => return Ok((Json::from_value(&value), Vec::new())),
        Err(error) => error.to_string(),
    };
    let value = everflow_yaml::sigs::yaml_to_json(first).map_err(|error| error.to_string())?;
    let warnings = strict
        .lines()
        .map(str::trim)
        .filter(|line| line.contains("already set in map"))
        .map(str::to_owned);
    Ok((Json::from_value(&value), warnings.collect()))
}

/// How deep and how long the keys of a document may be for both readers to agree on it.
const SIMPLE_DEPTH: usize = 100;
const SIMPLE_KEY: usize = 512;

/// Most clients send JSON, which is YAML, too. Read as JSON it is read much faster; whatever the two could see
/// differently is left to YAML: escapes of characters, tabs, numbers that are not whole, duplicate keys, deep nesting.
fn json_fast_path(body: &[u8]) -> Option<Json> {
    let is_plain = body.first() == Some(&b'{')
        && !body.contains(&b'\t')
        && !body.windows(2).any(|pair| pair == b"\\u");
    if !is_plain {
        return None;
    }
    let tree = super::json::parse(body).ok()?;
    (is_simple(&tree, 0) && !tree.has_duplicates()).then_some(tree)
}

fn is_simple(tree: &Json, depth: usize) -> bool {
    match tree {
        Json::Number(number) => number.is_i64(),
        Json::Array(items) => {
            depth < SIMPLE_DEPTH && items.iter().all(|item| is_simple(item, depth + 1))
        }
        Json::Object(entries) => {
            depth < SIMPLE_DEPTH
                && entries
                    .iter()
                    .all(|(key, value)| key.len() <= SIMPLE_KEY && is_simple(value, depth + 1))
        }
        Json::String(text) => text.chars().all(|c| c == '\n' || !c.is_control()),
        Json::Null | Json::Bool(_) => true,
        Json::Unrepresentable(_) => false,
    }
}

/// Everything up to the second document separator.
fn first_document(body: &[u8]) -> &[u8] {
    let Ok(text) = std::str::from_utf8(body) else {
        return body;
    };
    let mut offset = 0;
    let mut content = false;
    for line in text.split_inclusive('\n') {
        let bare = line.trim_end();
        if bare == "---" || bare.starts_with("--- ") {
            if content {
                return &body[..offset];
            }
        } else if !bare.trim().is_empty() && !bare.starts_with('#') {
            content = true;
        }
        offset += line.len();
    }
    body
}

/// Prints a value as YAML.
pub fn print(value: &everflow_json::Value) -> String {
    everflow_yaml::emit::sigs(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// JSON text with what the two readers could see differently among it.
    fn json_text() -> impl Strategy<Value = String> {
        let text = prop_oneof![
            "[ -~]{0,12}",
            "(yes|no|null|~|0x1F|1_000|1e3|-|: |# |é|\\\\n|\\\\u0041|\t){0,3}",
        ];
        let leaf = prop_oneof![
            text.prop_map(|text| format!("\"{}\"", text.replace('"', "'"))),
            any::<i64>().prop_map(|number| number.to_string()),
            any::<f64>().prop_map(|number| format!("{number:e}")),
            Just("true".to_owned()),
            Just("null".to_owned()),
        ];
        let value = leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4)
                    .prop_map(|items| format!("[{}]", items.join(", "))),
                prop::collection::vec(("[a-c]{1,2}", inner), 0..4).prop_map(|fields| {
                    let fields: Vec<String> = fields
                        .iter()
                        .map(|(key, value)| format!("\"{key}\":{value}"))
                        .collect();
                    format!("{{{}}}", fields.join(",\n "))
                }),
            ]
        });
        prop::collection::vec(("[a-d]{1,2}", value), 0..4).prop_map(|fields| {
            let fields: Vec<String> = fields
                .iter()
                .map(|(key, value)| format!("\"{key}\": {value}"))
                .collect();
            format!("{{{}}}", fields.join(", "))
        })
    }

    proptest! {
        #[test]
        fn fast_path_reads_what_the_yaml_reader_reads(body in json_text()) {
            if let Some(fast) = json_fast_path(body.as_bytes()) {
                let slow = everflow_yaml::sigs::yaml_to_json(body.as_bytes());
                prop_assert_eq!(Some(fast.to_value()), slow.ok());
            }
        }
    }

    #[test]
    fn json_reads_the_same_either_way() {
        for body in [
            r#"{"a": 1, "b": [true, null, "yes", "0x10", "1_000", "a: b # c"], "c": {"d": "\n\"\\"}}"#,
            "{\n  \"a\": {\n    \"b\": [\n      {}\n    ]\n  }\n}\n",
        ] {
            let fast = json_fast_path(body.as_bytes()).unwrap();
            let slow = everflow_yaml::sigs::yaml_to_json(body.as_bytes()).unwrap();
            assert_eq!(fast.to_value(), slow, "{body}");
        }
        for body in [
            r#"{"a": 1.0}"#,
            r#"{"a": 1, "a": 2}"#,
            r#"{"a": "\u00e9"}"#,
            "{a: 1}",
            "{\"a\":\t1}",
            "---\n{}",
        ] {
            assert!(json_fast_path(body.as_bytes()).is_none(), "{body}");
        }
    }
}
