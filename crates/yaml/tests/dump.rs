//! Every printer against the recorded answers of the Go libraries.
#![allow(clippy::expect_used, clippy::print_stdout)]

mod writing;

use everflow_json::Value;
use everflow_yaml::emit::{self, Indent};
use everflow_yaml::gojson::{self, Numbers};
use everflow_yaml::{Dialect, Document, Loader, Node, Style, Value as Tree, sigs};
use writing::Tally;

#[test]
fn printers_agree_with_go() {
    let Some(cases) = writing::cases("dump.jsonl") else {
        return;
    };
    let mut tally = Tally::default();
    for case in &cases {
        check_case(case, &mut tally);
    }
    tally.finish("dump.jsonl", include_str!("writing/dump-known.txt"));
}

type Answer = Result<String, String>;

fn check_case(case: &Value, tally: &mut Tally) {
    let id = case["id"].as_str().expect("an id");
    let text = case["json"].as_str().expect("JSON text");
    // Each field with those that it equals when it is left out, nearest first.
    let answers: [(&[&str], Answer); 8] = [
        (&["sigs"], json_to_yaml(text)),
        (&["marshal", "sigs"], marshal(text)),
        (&["yaml3", "sigs"], yaml3(text, Indent::Compact)),
        (&["yaml3_wide", "yaml3", "sigs"], yaml3(text, Indent::Wide)),
        (
            &["kyaml_node", "yaml3", "sigs"],
            kyaml_node(text, Indent::Compact),
        ),
        (
            &["kyaml_node_wide", "kyaml_node", "yaml3", "sigs"],
            kyaml_node(text, Indent::Wide),
        ),
        (&["helm_toYaml"], helm(text, emit::to_yaml)),
        (
            &["helm_toYamlPretty", "helm_toYaml"],
            helm(text, emit::to_yaml_pretty),
        ),
    ];
    for (fields, answer) in &answers {
        let name = format!("{id} {}", fields[0]);
        match fields.iter().find_map(|field| case.get(field)) {
            Some(recorded) => tally.check(name, recorded, answer),
            // What a template prints is `sigs` less its last newline.
            None => {
                let with_newline = answer.clone().map(|text| text + "\n");
                tally.check(name, &case["sigs"], &with_newline);
            }
        }
    }
}

fn json_to_yaml(text: &str) -> Answer {
    emit::json_to_yaml(text.as_bytes()).map_err(|error| error.to_string())
}

fn go_value(text: &str) -> Result<Value, String> {
    gojson::parse(text.as_bytes(), Numbers::Floats).map_err(|error| error.to_string())
}

fn marshal(text: &str) -> Answer {
    emit::sigs_checked(&go_value(text)?).map_err(|error| error.to_string())
}

fn yaml3(text: &str, indent: Indent) -> Answer {
    Ok(emit::yaml3(&go_value(text)?, indent))
}

/// The text as a tree without its styles.
fn kyaml_node(text: &str, indent: Indent) -> Answer {
    let document = Loader::new(Dialect::Kyaml)
        .keep_comments(true)
        .load_document(text.as_bytes())
        .map_err(|error| error.to_string())?;
    let mut document: Document = document.ok_or("EOF")?;
    clear_styles(&mut document.root);
    Ok(emit::kyaml_document(&document, indent))
}

fn clear_styles(node: &mut Node) {
    node.style = Style::Plain;
    match &mut node.value {
        Tree::Sequence(items) => items.iter_mut().for_each(clear_styles),
        Tree::Mapping(mapping) => {
            for entry in &mut mapping.entries {
                clear_styles(&mut entry.key);
                clear_styles(&mut entry.value);
            }
        }
        Tree::Scalar(_) | Tree::Alias(_) => {}
    }
}

/// The text as a value of a chart, loaded as values files are: every number a float.
fn helm(text: &str, print: fn(&Value) -> String) -> Answer {
    let values = format!("{{\"v\":{text}}}");
    let mut values = sigs::yaml_to_json(values.as_bytes()).map_err(|error| {
        format!("cannot unmarshal yaml document: error converting YAML to JSON: {error}")
    })?;
    gojson::numbers_as_f64(&mut values);
    Ok(print(&values["v"]))
}
