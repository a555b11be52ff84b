//! The readers of protobuf bodies and of custom resource definitions.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everflow_corpus::hostile::{Reader, from_lines, texts};
use everflow_json::{Value, json};
use everflow_schema::crd::{check_definition, check_definition_update, set_definition_defaults};
use everflow_schema::structural::{
    Prune, Validator, apply_defaults, check_embedded, check_lists, is_known_format, is_settled,
    matches_format, prune, prune_nulls, rules,
};
use everflow_schema::{Schema, names, protobuf};

/// All of them.
pub const ALL: &[Reader] = &[
    Reader::new("protobuf", body, || vec![config_map()])
        .recorded(bodies)
        .tokens(&[
            "k8s\0",
            "\n\u{c}\n\u{2}v1",
            "\u{12}",
            "\u{1a}",
            "JSON",
            "\u{7f}\u{7f}\u{7f}\u{7f}\u{f}",
            "{\"a\":",
        ])
        .cases(600),
    Reader::new("definition", definition, || texts(&[DEFINITION]))
        .recorded(definitions)
        .tokens(SCHEMA),
    Reader::new("custom-resource", custom_resource, || texts(&[RESOURCE])).tokens(SCHEMA),
    Reader::new("pattern", pattern, || {
        texts(&["^[a-z]([-a-z0-9]{0,61}\\d)?$\nabc-9", "\\p{L}+\\z\né"])
    })
    .tokens(&[
        "(",
        "[",
        "{1000}",
        "*",
        "(?i)",
        "\\p{",
        "\\Q",
        "[[:alpha:]]",
        "|",
        "(a{50}){50}",
    ]),
    Reader::new("format", format, || {
        texts(&[
            "2026-01-01T00:00:00Z",
            "10.0.0.0/8",
            "https://a/b?c#d",
            "5h",
            "a@b.c",
            "::1",
        ])
    })
    .tokens(&[
        ":",
        "::",
        "@",
        "/128",
        "%zz",
        "1h",
        "9999999999",
        "[",
        "xn--",
    ]),
];

const SCHEMA: &[&str] = &[
    "{\"type\":\"object\",\"properties\":{\"a\":",
    "{\"items\":",
    "{\"allOf\":[",
    "{\"not\":",
    "\"x-kubernetes-preserve-unknown-fields\":true,",
    "\"x-kubernetes-embedded-resource\":true,",
    "\"x-kubernetes-int-or-string\":true,",
    "\"pattern\":\"(a{99}){99}\",",
    "\"default\":{},",
    "\"additionalProperties\":{",
    "\"nullable\":true,",
    "\"$ref\":\"#\",",
    "null",
    "[",
    "1e308",
    "\"multipleOf\":0,",
    "\"x-kubernetes-list-type\":\"map\",\"x-kubernetes-list-map-keys\":[\"a\"],",
    "\"format\":\"date-time\",",
];

const DEFINITION: &str = r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"}, "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}}, "additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ".spec.a"}], "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string", "pattern": "^[a-z]+$", "default": "x"}, "l": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}}}, "x-kubernetes-validations": [{"rule": "self.a != ''"}]}}}}}]}}"#;
const RESOURCE: &str = r#"[{"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "minLength": 1, "enum": ["x", "y"], "pattern": "^[xy]$"}, "n": {"type": "integer", "minimum": 0, "multipleOf": 2, "default": 2}, "l": {"type": "array", "maxItems": 3, "x-kubernetes-list-type": "set", "items": {"type": "string", "format": "date-time"}}, "m": {"type": "object", "additionalProperties": {"type": "number"}}, "t": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}, "i": {"x-kubernetes-int-or-string": true}}}, {"a": "x", "n": 4, "l": ["2026-01-01T00:00:00Z"], "m": {"k": 1.5}, "t": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}, "i": "5"}]"#;

fn config_map() -> Vec<u8> {
    protobuf::encode(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"b": "c"}})).unwrap()
}

fn bodies() -> Vec<Vec<u8>> {
    from_lines("apiserver/protobuf/objects.jsonl", 60, |line| {
        let case: Value = everflow_json::from_str(line).ok()?;
        STANDARD.decode(case["protobuf_base64"].as_str()?).ok()
    })
}

fn definitions() -> Vec<Vec<u8>> {
    let directory = everflow_corpus::find("apiserver/fixtures/crds");
    let files = directory.and_then(|directory| std::fs::read_dir(directory).ok());
    let mut paths: Vec<_> = files
        .into_iter()
        .flatten()
        .flatten()
        .map(|file| file.path())
        .collect();
    paths.sort();
    paths
        .into_iter()
        .take(2)
        .filter_map(|path| std::fs::read(path).ok())
        .collect()
}

fn body(bytes: &[u8]) -> bool {
    // With and without the envelope, which random bytes never have.
    let wrapped = protobuf::Envelope::write("v1", "Pod", bytes);
    let _ = protobuf::decode(&wrapped);
    let Ok(object) = protobuf::decode(bytes) else {
        return false;
    };
    let again = protobuf::encode(&object).map(|body| protobuf::decode(&body));
    assert!(
        !matches!(again, Ok(Err(_))),
        "{object} is written so that it cannot be read"
    );
    true
}

fn definition(bytes: &[u8]) -> bool {
    let Ok(mut definition) = everflow_json::from_slice::<Value>(bytes) else {
        return false;
    };
    let old = definition.clone();
    set_definition_defaults(&mut definition);
    let checked = check_definition(&definition);
    let _ = check_definition_update(&definition, &old);
    checked.errors.is_empty()
}

/// A schema and an object.
fn custom_resource(bytes: &[u8]) -> bool {
    let Ok(both) = everflow_json::from_slice::<Value>(bytes) else {
        return false;
    };
    let (Some(schema), Some(object)) = (both.get(0), both.get(1)) else {
        return false;
    };
    let _ = Schema::for_custom_resource(schema);
    let Ok(schema) = Schema::from_structural(schema) else {
        return false;
    };
    let mut value = object.clone();
    let _ = prune(
        &mut value,
        schema.view(),
        Prune {
            resource_root: true,
        },
    );
    prune_nulls(&mut value, schema.view());
    apply_defaults(&mut value, schema.view());
    let _ = (
        is_settled(&value, schema.view()),
        check_lists(&value, schema.view()),
    );
    let _ = check_embedded(&value, schema.view(), &|_, _| Vec::new());
    let _ = rules(schema.view());
    let validator = Validator::new(schema);
    let _ = validator.validate_update(&value, object);
    validator.validate(&value).is_empty()
}

fn pattern(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let (pattern, sample) = text.split_once('\n').unwrap_or((&text, ""));
    everflow_schema::structural::Pattern::new(pattern).is_ok_and(|pattern| pattern.is_match(sample))
}

fn format(bytes: &[u8]) -> bool {
    const FORMATS: [&str; 16] = [
        "date-time",
        "date",
        "cidr",
        "ipv4",
        "ipv6",
        "uri",
        "email",
        "hostname",
        "duration",
        "mac",
        "uuid",
        "byte",
        "isbn",
        "creditcard",
        "hexcolor",
        "k8s-short-name",
    ];
    let text = String::from_utf8_lossy(bytes);
    let _ = names::dns_1123_subdomain_problems(&text);
    let _ = (names::kind_problem(&text), is_known_format(&text));
    FORMATS
        .iter()
        .filter(|format| matches_format(format, &text))
        .count()
        > 0
}
