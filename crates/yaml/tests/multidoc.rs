//! How streams of documents are cut, against the recorded answers of the Go libraries.
#![allow(clippy::expect_used, clippy::print_stdout)]

#[path = "writing/mod.rs"]
mod corpus;
mod reading;

use corpus::{Tally, cases};
use everflow_json::{Value, json};
use everflow_yaml::documents::{
    document_decoder, helm_manifests, helm_values, kio_reader, kustomize_documents,
    yaml_or_json_decoder, yaml_reader,
};
use everflow_yaml::emit::{self, Indent};
use everflow_yaml::{Document, Error, gojson};

#[test]
fn streams_agree_with_go() {
    let Some(cases) = cases("multidoc.jsonl") else {
        return;
    };
    let mut tally = Tally::default();
    for case in &cases {
        let id = case["id"].as_str().unwrap_or_default();
        let input = reading::input(case);
        let mut check = |field: &str, answer: Value| {
            let recorded = json!({ "text": reading::readable(&case[field]).to_string() });
            tally.check(format!("{id}/{field}"), &recorded, &Ok(answer.to_string()));
        };
        check(
            "yamlreader",
            delivered(yaml_reader(&input).map(|doc| doc.map(|d| lossy(&d)))),
        );
        check(
            "decoder",
            delivered(yaml_or_json_decoder(&input).map(|doc| {
                doc.map(|doc| doc.raw().map_or("<none>".to_owned(), |raw| lossy(&raw)))
            })),
        );
        check(
            "docdecoder",
            match document_decoder(&input) {
                Ok(docs) => delivered(docs.into_iter().map(|doc| Ok(lossy(doc)))),
                Err(error) => delivered(std::iter::once(Err(error))),
            },
        );
        check("kio", kio(&input));
        check("kustomize", printed(kustomize_documents(&input)));
        let manifests = helm_manifests(&input);
        check(
            "helm",
            delivered(manifests.into_iter().map(|doc| Ok(lossy(doc)))),
        );
        check(
            "helm_values",
            match helm_values(&input) {
                Ok(values) => json!({ "json": gojson::to_string(&values) }),
                Err(error) => json!({ "error": error.to_string() }),
            },
        );
    }
    tally.finish("multidoc.jsonl", include_str!("reading/multidoc-known.txt"));
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The documents up to the first error, and the error.
fn delivered(documents: impl Iterator<Item = Result<String, Error>>) -> Value {
    let mut docs = Vec::new();
    for document in documents {
        match document {
            Ok(text) => docs.push(text),
            Err(error) => return json!({ "docs": docs, "error": error.to_string() }),
        }
    }
    json!({ "docs": docs })
}

fn printed(documents: Result<Vec<Document>, Error>) -> Value {
    match documents {
        Ok(documents) => delivered(documents.iter().map(|document| Ok(print(document)))),
        Err(error) => json!({ "docs": [], "error": error.to_string() }),
    }
}

fn print(document: &Document) -> String {
    emit::kyaml_documents(std::iter::once((document, Indent::Compact)))
}

fn kio(input: &[u8]) -> Value {
    match kio_reader(input) {
        Ok(read) => {
            let mut answer = printed(Ok(read.documents));
            if let Some(wrapping) = read.wrapping {
                answer["wrap"] = format!("{} {}", wrapping.api_version, wrapping.kind).into();
            }
            answer
        }
        Err(error) => printed(Err(error)),
    }
}
