//! Random objects, made from the schema of a definition: most of them right, many a little wrong.

use everflow_json::{Map, Value, json};

/// A small generator of numbers that repeats itself.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit.max(1)
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

/// Texts that match a pattern, and texts that nearly do.
fn texts(pattern: &str) -> (&'static [&'static str], &'static [&'static str]) {
    const DURATIONS: (&[&str], &[&str]) = (
        &["1m", "30s", "1h30m", "1.5h", "500ms", "1m0s"],
        &["", "10", "1d", "-1m", "1 m", "1us", "forever", "1m "],
    );
    const SHORT: (&[&str], &[&str]) = (&["1m", "30s", "90s", "500ms"], &["1h", "", "5", "1m1h"]);
    const URLS: (&[&str], &[&str]) = (
        &["http://x.y", "https://x.y/z"],
        &["", "ftp://x.y", "x.y", "HTTP://x", "git@x.y:z"],
    );
    match pattern {
        pattern if pattern.contains("(ms|s|m|h)") => DURATIONS,
        pattern if pattern.contains("(ms|s|m)") => SHORT,
        pattern if pattern.starts_with("^oci") => (&["oci://x.y/z"], &["http://x", "oci:/x", ""]),
        pattern if pattern.contains("oci") => (&["oci://x.y/z", "https://x.y"], URLS.1),
        pattern if pattern.contains("ssh") => (&["ssh://git@x.y/z", "http://x"], URLS.1),
        pattern if pattern.contains("http") => URLS,
        pattern if pattern.contains("A-Za-z0-9_,:") => {
            (&["Succeeded", "A_b,c:d"], &["", "1x", "a b", "x:"])
        }
        pattern if pattern.contains("[-A-Za-z0-9_.]*") => {
            (&["Ready", "x.io/Thing", "a-b"], &["", "a b", "-", "x/y/z"])
        }
        pattern if pattern.contains(".+_-") => (&["sha256:abc", "a+b:c=_-"], &["abc", "X:1", ":"]),
        pattern if pattern.contains("0-9]{1,5}") => (&["a.b[0].c", r"a\.b"], &["a[x]", "a b", ""]),
        pattern if pattern.contains(r"\-._a-zA-Z0-9") => (&["values.yaml", "a"], &["a b", "", "/"]),
        other => panic!("no texts for {other}"),
    }
}

fn text_of_length(length: u64) -> Value {
    Value::String("x".repeat(length as usize).into())
}

/// A value that the schema allows, or nearly one.
pub fn value(random: &mut Random, schema: &Value, fill: usize, wrong: usize) -> Value {
    if random.chance(wrong) {
        let others = [
            Value::Null,
            json!(true),
            json!(7),
            json!(-1),
            json!(1.5),
            json!("text"),
            json!(""),
            json!([]),
            json!({}),
            json!(["x"]),
            json!({"unknown": 1}),
        ];
        return random.pick(&others).clone();
    }
    let bound = |name: &str| schema.get(name).and_then(Value::as_u64);
    if let Some(choices) = schema.get("enum").and_then(Value::as_array) {
        return random.pick(choices).clone();
    }
    match schema["type"].as_str() {
        Some("object") => object(random, schema, fill, wrong),
        Some("array") => {
            let least = bound("minItems").unwrap_or(0) as usize;
            let count = match random.chance(wrong) {
                true => 0,
                false => least + random.below(3),
            };
            (0..count)
                .map(|_| value(random, &schema["items"], fill, wrong))
                .collect()
        }
        Some("boolean") => Value::Bool(random.chance(50)),
        Some("integer") => json!(random.below(5)),
        Some("string") => text(random, schema, wrong),
        _ => json!({"a": {"b": [1, "x", null]}, "c": 1.5}),
    }
}

fn text(random: &mut Random, schema: &Value, wrong: usize) -> Value {
    let bound = |name: &str| schema.get(name).and_then(Value::as_u64);
    if let Some(pattern) = schema.get("pattern").and_then(Value::as_str) {
        let (right, nearly) = texts(pattern);
        let texts = match random.chance(wrong * 2) {
            true => nearly,
            false => right,
        };
        return Value::from(*random.pick(texts));
    }
    if schema.get("format") == Some(&json!("date-time")) {
        let right = ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.6+02:00"];
        let nearly = ["yesterday", "2026-01-02", ""];
        return match random.chance(wrong * 2) {
            true => Value::from(*random.pick(&nearly)),
            false => Value::from(*random.pick(&right)),
        };
    }
    match (bound("minLength"), bound("maxLength")) {
        (_, Some(most)) if random.chance(10) => text_of_length(most),
        (_, Some(most)) if random.chance(wrong * 2) => text_of_length(most + 1),
        (Some(_), _) if random.chance(wrong * 2) => json!(""),
        (None, _) if random.chance(5) => json!(""),
        _ => Value::from(*random.pick(&["a", "name", "x-y.z", "main", "true", "1.0.0"])),
    }
}

fn object(random: &mut Random, schema: &Value, fill: usize, wrong: usize) -> Value {
    let mut map = Map::new();
    if let Some(values) = schema.get("additionalProperties") {
        for name in ["a", "b.c/d", "e"] {
            if random.chance(40) {
                map.insert(name.into(), value(random, values, fill, wrong));
            }
        }
    }
    let required = schema.get("required").and_then(Value::as_array);
    let empty = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.unwrap_or(&empty) {
        let is_required = required.is_some_and(|names| names.contains(&json!(name)));
        let is_there = match is_required {
            true => !random.chance(wrong),
            false => random.chance(fill),
        };
        if is_there {
            // Deep parts are filled less, so that objects stay small.
            map.insert(name.clone(), value(random, property, fill * 3 / 4, wrong));
        }
    }
    if random.chance(wrong) {
        map.insert("unknown".into(), json!({"x": 1}));
    }
    Value::Object(map)
}
