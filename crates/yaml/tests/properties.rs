//! Printing and reading back arbitrary values.
#![allow(clippy::expect_used)]

use everflow_json::{Map, Number, Value};
use everflow_yaml::emit::{self, Indent};
use everflow_yaml::gojson::{self, GoType, HtmlEscape, Numbers};
use everflow_yaml::{Dialect, Loader, kyaml, sigs};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// The same cases on every run, so that a failure is never a surprise of the day.
fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 200,
        rng_seed: RngSeed::Fixed(42),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Pieces that matter to some style, glued together.
fn delicate_text() -> BoxedStrategy<String> {
    let piece = prop_oneof![
        Just(" ".to_owned()),
        Just("\n".to_owned()),
        Just("  ".to_owned()),
        Just(": ".to_owned()),
        Just(" #".to_owned()),
        Just("- ".to_owned()),
        Just("---".to_owned()),
        Just("...".to_owned()),
        Just("'".to_owned()),
        Just("\"".to_owned()),
        Just("\\".to_owned()),
        Just("\u{FEFF}".to_owned()),
        Just("😀".to_owned()),
        Just("é".to_owned()),
        Just("\r".to_owned()),
        Just("\0".to_owned()),
        Just("null".to_owned()),
        Just("yes".to_owned()),
        Just("0x1f".to_owned()),
        Just("1e3".to_owned()),
        Just("2024-01-01".to_owned()),
        "[a-z0-9.,?&*!|>%@`{}<=-]{1,12}",
        "[a-z]{30,60}",
    ];
    prop::collection::vec(piece, 0..12)
        .prop_map(|pieces| pieces.concat())
        .boxed()
}

fn value(text: BoxedStrategy<String>) -> impl Strategy<Value = Value> {
    let key = text.clone();
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(float),
        text.prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            prop::collection::vec((key.clone(), inner), 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map>())),
        ]
    })
}

/// YAML reads `-0` as the integer 0, so there is none.
fn float(float: f64) -> Value {
    Number::from_f64(float + 0.0).map_or(Value::Null, Value::Number)
}

/// Numbers as JSON text shows them: a float without a fraction looks like an integer.
fn as_printed(value: &Value) -> String {
    let mut value = value.clone();
    gojson::numbers_as_f64(&mut value);
    gojson::to_string(&value)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn sigs_text_reads_back_as_the_same_value(value in value(delicate_text())) {
        let text = emit::sigs(&value);
        let read = sigs::yaml_to_json(text.as_bytes());
        prop_assert!(read.is_ok(), "{read:?} in\n{text}");
        prop_assert_eq!(as_printed(&read.expect("checked")), as_printed(&value), "{}", text);
    }

    #[test]
    fn v3_text_reads_back_as_the_same_value(value in value(delicate_text())) {
        for indent in [Indent::Compact, Indent::Wide] {
            let text = emit::yaml3(&value, indent);
            let read = kyaml::yaml_to_json(text.as_bytes());
            prop_assert!(read.is_ok(), "{read:?} in\n{text}");
            prop_assert_eq!(as_printed(&read.expect("checked")), as_printed(&value), "{}", text);
        }
    }

    #[test]
    fn trees_read_back_as_the_same_value(value in value(delicate_text())) {
        let node = everflow_yaml::Node::from_json(&value);
        let text = emit::kyaml(&node, Indent::Compact);
        let read = kyaml::yaml_to_json(text.as_bytes());
        prop_assert!(read.is_ok(), "{read:?} in\n{text}");
        prop_assert_eq!(as_printed(&read.expect("checked")), as_printed(&value), "{}", text);
    }

    #[test]
    fn json_text_reads_back_as_the_same_value(value in value(any::<String>().boxed())) {
        let text = gojson::to_string(&value);
        let read = gojson::parse(text.as_bytes(), Numbers::Floats).expect("our own text");
        prop_assert_eq!(gojson::to_string(&read), as_printed(&value));
        let indented = gojson::indent(text.as_bytes(), "  ").expect("our own text");
        prop_assert_eq!(gojson::pretty(&value, "  ").into_bytes(), indented.clone());
        let compact = gojson::compact(&indented, HtmlEscape::On).expect("our own text");
        prop_assert_eq!(text.into_bytes(), compact);
    }

    #[test]
    fn any_text_can_be_printed(value in value(any::<String>().boxed())) {
        let _ = emit::sigs(&value);
        let _ = emit::sigs_checked(&value);
        let _ = emit::to_yaml_pretty(&value);
    }

    #[test]
    fn whatever_loads_can_be_printed(text in delicate_text()) {
        let loader = Loader::new(Dialect::Kyaml).keep_comments(true);
        if let Ok(documents) = loader.load_all(text.as_bytes()) {
            let stream = documents.iter().map(|document| (document, Indent::Wide));
            let _ = emit::kyaml_documents(stream);
            for document in &documents {
                let _ = document.root.marshal_json();
            }
        }
        let _ = emit::json_to_yaml(text.as_bytes());
    }

    #[test]
    fn random_bytes_do_not_panic_the_json_reader(bytes in prop::collection::vec(json_byte(), 0..40)) {
        let read = gojson::parse(&bytes, Numbers::Integers);
        let _ = gojson::canonical(&bytes);
        let _ = gojson::indent(&bytes, " ");
        let _ = gojson::reprint(&bytes, &GoType::Slice(Box::new(GoType::String)));
        if everflow_json::from_slice::<Value>(&bytes).is_ok() {
            prop_assert!(read.is_ok(), "{read:?}");
        }
    }
}

fn json_byte() -> impl Strategy<Value = u8> {
    prop_oneof![
        4 => prop::sample::select(b"{}[]:,\"\\truefalsn0123456789.eE+-u \n".to_vec()),
        1 => any::<u8>(),
    ]
}
