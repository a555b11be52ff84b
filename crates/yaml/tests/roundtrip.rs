//! Reading and printing again against the recorded answers of kyaml and kustomize.
#![allow(clippy::expect_used, clippy::print_stdout)]

mod writing;

use everflow_json::Value;
use everflow_yaml::emit::{self, Indent};
use everflow_yaml::{Dialect, Document, Loader, documents, gojson};
use writing::Tally;

#[test]
fn round_trips_agree_with_go() {
    let Some(cases) = writing::cases("roundtrip.jsonl") else {
        return;
    };
    let mut tally = Tally::default();
    for case in &cases {
        let id = case["id"].as_str().expect("an id");
        let text = case["yaml"].as_str().expect("YAML text");
        tally.check(format!("{id} rnode"), &case["rnode"], &rnode(text));
        tally.check(
            format!("{id} rnode_json"),
            &case["rnode_json"],
            &rnode_json(text),
        );
        let wanted = case.get("kio_rw").unwrap_or(&case["rnode"]);
        let rewritten = emit::kio_rewrite(text.as_bytes()).map_err(|error| error.to_string());
        tally.check(format!("{id} kio_rw"), wanted, &rewritten);
        let wanted = case.get("build").unwrap_or(&case["rnode"]);
        tally.check(format!("{id} build"), wanted, &build(text, wanted));
    }
    tally.finish(
        "roundtrip.jsonl",
        include_str!("writing/roundtrip-known.txt"),
    );
}

type Answer = Result<String, String>;

fn document(text: &str) -> Result<Document, String> {
    Loader::new(Dialect::Kyaml)
        .keep_comments(true)
        .load_document(text.as_bytes())
        .map_err(|error| error.to_string())?
        .ok_or_else(|| "EOF".to_owned())
}

fn rnode(text: &str) -> Answer {
    Ok(emit::kyaml_document(&document(text)?, Indent::Compact))
}

fn rnode_json(text: &str) -> Answer {
    let json = document(text)?.marshal_json();
    json.map(|json| gojson::to_string(&json))
        .map_err(|error| error.to_string())
}

/// What `kustomize build` prints for one resource. Its errors say where the resource came from;
/// here only the cause inside them is compared.
fn build(text: &str, wanted: &Value) -> Answer {
    let answer = built(text);
    answer.map_err(|error| match wanted["error"].as_str() {
        Some(whole) if whole.contains(&error) => whole.to_owned(),
        _ => error,
    })
}

fn built(text: &str) -> Answer {
    let documents =
        documents::kustomize_documents(text.as_bytes()).map_err(|error| error.to_string())?;
    let texts: Vec<String> = documents
        .iter()
        .map(|document| {
            let json = document
                .root
                .marshal_json()
                .map_err(|error| error.to_string())?;
            emit::sigs_checked(&json).map_err(|error| error.to_string())
        })
        .collect::<Result<_, String>>()?;
    Ok(texts.join("---\n"))
}
