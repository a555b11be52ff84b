//! Hostile and broken input ends in an error or a result, never in a panic or without an end.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use everflow_gotemplate::Meter;
use everflow_helm::chart::{ChartFile, load_archive, load_files, load_values};
use everflow_helm::json_schema::JsonSchema;
use everflow_helm::render::Sources;
use everflow_helm::template::{ReleaseOptions, template};
use everflow_helm::values::Warnings;
use everflow_helm::{Limits, release, strvals};
use everflow_json::{Map, Value, json};
use everflow_limits::Budget;
use everflow_sprig::FixedSource;
use proptest::prelude::*;

fn render(text: &str, values: &Map) -> Result<String, String> {
    let files = vec![
        ChartFile::new(
            "Chart.yaml",
            b"apiVersion: v2\nname: c\nversion: 1.0.0\n".to_vec(),
        ),
        ChartFile::new("templates/t.yaml", text.as_bytes().to_vec()),
    ];
    let mut warnings = Warnings::default();
    let chart = load_files(files, &mut warnings).unwrap();
    let options = ReleaseOptions {
        limits: Limits {
            output_bytes: 1 << 20,
            steps: 100_000,
            text_bytes: 1 << 24,
            ..Limits::default()
        },
        ..ReleaseOptions::default()
    };
    let mut sources = Sources::new(FixedSource::new(0, 0, 1));
    let budget = Budget::unlimited();
    template(
        chart,
        values,
        &options,
        &mut sources,
        &mut warnings,
        &budget,
    )
    .map(|rendered| rendered.manifest)
    .map_err(|error| error.to_string())
}

fn json_tree() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e9..1e9f64).prop_map(Value::from),
        "[a-z#/$]{0,8}".prop_map(Value::from),
    ];
    let key = prop_oneof![
        "[a-c]",
        proptest::sample::select(vec![
            "type",
            "properties",
            "items",
            "required",
            "enum",
            "$ref",
            "allOf",
            "if",
            "then",
            "pattern",
            "minimum",
            "additionalProperties",
            "$defs",
            "$schema",
            "dependentRequired",
            "const",
        ])
        .prop_map(str::to_owned),
    ];
    leaf.prop_recursive(4, 32, 5, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(key.clone(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_as_an_archive(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = load_archive(&bytes, &mut Warnings::default());
    }

    #[test]
    fn any_text_as_files(chart in "[a-z:\\[\\]{}\\-\n \"'&*!0-9.]{0,80}", values in "[a-z:\\[\\]{}\\-\n \"'&*!0-9.]{0,80}", name in "[a-z./]{1,20}") {
        let files = vec![
            ChartFile::new("Chart.yaml", format!("apiVersion: v2\nname: c\nversion: 1.0.0\n{chart}").into_bytes()),
            ChartFile::new("values.yaml", values.clone().into_bytes()),
            ChartFile::new(name, b"x".to_vec()),
        ];
        let _ = load_files(files, &mut Warnings::default());
        let _ = load_values(values.as_bytes());
    }

    #[test]
    fn any_text_as_a_flag(text in "[a-c.,=\\[\\]{}\\\\0-9 \"-]{0,40}") {
        for set in [strvals::set, strvals::set_string, strvals::set_literal, strvals::set_json_argument] {
            let mut values = Map::new();
            let _ = set(&text, &mut values, &Budget::unlimited());
        }
    }

    #[test]
    fn any_tree_as_a_schema(schema in json_tree(), values in json_tree()) {
        let budget = Budget::unlimited();
        let meter = Meter::new(&Limits::default(), &budget);
        if let Ok(schema) = JsonSchema::new(schema, &meter) {
            let _ = schema.validate(&values, &meter);
        }
    }

    #[test]
    fn any_text_as_a_record(text in "[A-Za-z0-9+/=]{0,80}") {
        let _ = release::decode(&text);
    }

    #[test]
    fn any_actions_as_a_template(parts in proptest::collection::vec(proptest::sample::select(vec![
        "{{", "}}", "{{-", "-}}", " range ", " .Values", ".a", " | toYaml", " if ", "{{ end }}", " include ",
        "\"x\"", " tpl ", " $x := ", " 1", "(", ")", " dict ", " list ", " define ", "text", "\n", " fail ",
        " until 1000000 ", " repeat 100000000 \"x\"", " merge ",
    ]), 0..14)) {
        let _ = render(&parts.concat(), &Map::new());
    }
}

#[test]
fn hostile_templates_hit_a_limit() {
    for text in [
        "{{ define \"a\" }}{{ include \"a\" . }}{{ end }}{{ include \"a\" . }}",
        "{{ define \"a\" }}{{ template \"a\" . }}{{ end }}{{ template \"a\" . }}",
        "{{ range until 100000 }}{{ range until 100000 }}{{ end }}{{ end }}",
        "{{ range until 100000 }}{{ repeat 100000 \"x\" }}{{ end }}",
        "{{ tpl .Values.self . }}",
    ] {
        let values = json!({"self": "{{ tpl .Values.self . }}"});
        let outcome = render(text, values.as_object().unwrap());
        assert!(outcome.is_err(), "{text} rendered");
    }
}

/// Go itself shows the value that `range` cannot walk; all others are named by their source.
#[test]
fn errors_do_not_show_values() {
    let values =
        json!({"password": "correct-horse-battery", "map": {"password": "correct-horse-battery"}});
    for text in [
        "{{ .Values.password.inner }}",
        "{{ add1 .Values.password.x.y }}",
        "{{ .Values.map.password.inner }}",
        "{{ index .Values.password \"a\" }}",
        "{{ include .Values.map . }}",
        "{{ required \"give a password\" nil }}",
    ] {
        let error = render(text, values.as_object().unwrap()).unwrap_err();
        assert!(!error.contains("correct-horse"), "{text}: {error}");
    }
}
