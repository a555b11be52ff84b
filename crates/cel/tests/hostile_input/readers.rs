//! The reader of expressions, what checks them and what evaluates them.

use everflow_cel::check::Declarations;
use everflow_cel::kubernetes::Quantity;
use everflow_cel::rules::{Rules, check_definition, declarations};
use everflow_cel::time::{Duration, Timestamp};
use everflow_cel::{Program, Value, Variables};
use everflow_corpus::hostile::{Reader, texts};
use everflow_json::{Value as Json, json};
use everflow_schema::Schema;

/// All of them.
pub const ALL: &[Reader] = &[
    Reader::new("expression", expression, seeds)
        .tokens(TOKENS)
        .cases(400),
    Reader::new("rule", rule, || {
        texts(&[
            "self.a.size() > 0 && self.l.all(x, x != '')",
            "self.n >= oldSelf.n",
        ])
    })
    .tokens(TOKENS),
    Reader::new("rules", rules, || texts(&[RULES])).tokens(&[
        "self.",
        "oldSelf",
        "\"messageExpression\": \"self.a\",",
        "{\"rule\": \"1==1\"},",
        "[",
        "{\"a\":",
    ]),
    Reader::new("text-types", text_types, || {
        texts(&["1.5Gi", "-500m", "1e3", "1h2m", "2026-01-01T00:00:00Z"])
    })
    .tokens(&[
        "9",
        "99999999999999999999",
        ".",
        "e",
        "Ki",
        "m",
        "-",
        "E9",
        "Z",
        ":",
    ]),
];

const TOKENS: &[&str] = &[
    "(",
    "[",
    "{",
    "-",
    "!",
    "a.",
    "a[",
    "x ? ",
    " : ",
    "[1].map(x, ",
    "[1].all(x, ",
    "has(a.b)",
    "object.",
    "self.",
    "&&",
    "||",
    " + ",
    "'a'",
    "r'''",
    "b'\\xff'",
    "\\u{",
    "1u",
    "0x",
    "1e999",
    "9223372036854775807",
    ".orValue(1)",
    "optional.of(",
    ".?a",
    "?",
    "dyn(",
    "'%s'.format([",
    "'%.99999f'.format([1.0])",
    "lists.range(",
    ".replace('', 'ab')",
    ".split('')",
    ".join(",
    ".sum()",
    "timestamp('",
    "duration('",
    "ip('::1')",
    "cidr('10.0.0.0/8')",
    "quantity('1')",
    "url('https://a')",
    ".matches('(a*)*')",
    ".find('a')",
    "semver('1.0.0')",
    "@",
    "{'a': ",
    "[].",
    ".flatten()",
    ".sort()",
    ".distinct()",
    "type(",
    "math.greatest(",
    "sets.contains(",
    ".indexOf('a')",
    ".charAt(",
];

fn seeds() -> Vec<Vec<u8>> {
    texts(&[
        "object.spec.replicas >= 2 && has(object.status) ? object.metadata.name.startsWith('a') : [1, 2.5, 3u].all(x, x > 0)",
        "{'a': [1], 'b': b'x'}.exists(k, k == 'a') || duration('1h') > duration('1m') || quantity('1Gi').isGreaterThan(quantity('1M'))",
        "'%s %d'.format(['a', 1]).replace('a', 'b').split(' ').join('-').matches('^b')",
    ])
}

fn object() -> Json {
    json!({
        "metadata": {"name": "abc", "labels": {"a": "b"}},
        "spec": {"replicas": 3, "list": [1, "x", null, 2.5], "text": "x".repeat(100)},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn expression(bytes: &[u8]) -> bool {
    let Ok(program) = Program::compile(&String::from_utf8_lossy(bytes)) else {
        return false;
    };
    let _ = program.fold_constants();
    let object = Value::from_json(&object());
    let variables = Variables::new()
        .with("object", object.clone())
        .with("self", object);
    let limited = program.with_step_limit(100_000);
    if let (Ok(value), _) = limited.evaluate_counting(&variables) {
        let _ = (value.to_key(), value.equals(&value), value.compare(&value));
        return true;
    }
    false
}

fn schema() -> Schema {
    Schema::from_structural(&json!({"type": "object", "properties": {
        "a": {"type": "string", "maxLength": 10},
        "n": {"type": "integer"},
        "l": {"type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 5}},
        "m": {"type": "object", "maxProperties": 3, "additionalProperties": {"type": "number"}},
        "i": {"x-kubernetes-int-or-string": true},
    }}))
    .unwrap()
}

fn rule(bytes: &[u8]) -> bool {
    let mut declared: Declarations = declarations(&schema()).unwrap();
    let own = declared
        .variables
        .iter()
        .find(|(name, _)| name == "self")
        .cloned();
    declared
        .variables
        .extend(own.map(|(_, kind)| ("oldSelf".to_owned(), kind)));
    Program::compile_checked(&String::from_utf8_lossy(bytes), &declared).is_ok()
}

const RULES: &str = r#"[{"type": "object", "x-kubernetes-validations": [{"rule": "self.a == oldSelf.a", "message": "m"}], "properties": {"a": {"type": "string", "maxLength": 9, "x-kubernetes-validations": [{"rule": "self.size() < 5", "messageExpression": "'too long: ' + self"}]}, "l": {"type": "array", "maxItems": 3, "items": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 0"}]}}}}, {"a": "abc", "l": [1, 2]}]"#;

/// A schema with rules and an object.
fn rules(bytes: &[u8]) -> bool {
    let Ok(both) = everflow_json::from_slice::<Json>(bytes) else {
        return false;
    };
    let (Some(schema), Some(object)) = (both.get(0), both.get(1)) else {
        return false;
    };
    let Ok(schema) = Schema::from_structural(schema) else {
        return false;
    };
    let _ = check_definition(&schema, "spec", false);
    let rules = Rules::compile(&schema);
    let _ = rules.validate(&schema, object, None);
    rules
        .validate(&schema, object, Some(object))
        .errors
        .is_empty()
}

fn text_types(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let taken = [
        Quantity::parse(&text).is_some(),
        Duration::parse(&text).is_some(),
        Timestamp::parse(&text).is_some(),
    ];
    let _ = everflow_cel::escape(&text);
    taken.contains(&true)
}
