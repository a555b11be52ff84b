//! The readers of YAML, in all dialects.

use std::convert::Infallible;

use everflow_corpus::hostile::{Reader, from_lines, texts};
use everflow_json::Value as Json;
use everflow_yaml::documents::{
    document_decoder, helm_manifests, helm_values, kio_reader, kustomize_documents,
    yaml_or_json_decoder, yaml_reader,
};
use everflow_yaml::walk::{Collection, Visitor, walk_yaml};
use everflow_yaml::{Dialect, Limits, Loader, emit, kyaml, sigs};

/// All of them.
pub const ALL: &[Reader] = &[
    Reader::new("sigs", sigs_json, seeds)
        .recorded(recorded)
        .tokens(TOKENS),
    Reader::new("kyaml", kyaml_json, seeds)
        .recorded(recorded)
        .tokens(TOKENS),
    Reader::new("sigs-tree", |bytes| tree(bytes, Dialect::Sigs), seeds)
        .recorded(recorded)
        .tokens(TOKENS),
    Reader::new("kyaml-tree", |bytes| tree(bytes, Dialect::Kyaml), seeds)
        .recorded(recorded)
        .tokens(TOKENS),
    Reader::new("documents", documents, streams)
        .recorded(recorded)
        .tokens(TOKENS),
    Reader::new("walk", walk, || texts(&["a: {b: [1, x, {c: d}]}\ne: f\n"]))
        .recorded(recorded)
        .tokens(TOKENS),
];

const TOKENS: &[&str] = &[
    "[",
    "{a: ",
    "- ",
    "? ",
    "&x ",
    "*x",
    "*x, ",
    "|\n ",
    "|2-\n",
    ">+\n",
    "\n---\n",
    "...\n",
    "# c\n",
    "!!binary ",
    "!!float ",
    "!<",
    "%TAG ! ",
    "<<: ",
    "<<: *x\n",
    "\t",
    "'",
    "}",
    "]",
    ": ",
    "\r",
    "\u{feff}",
    "0x",
    ".inf",
    "kind: List\nitems:\n",
];

fn seeds() -> Vec<Vec<u8>> {
    texts(&[
        "a: &x {b: [1, 2.5, yes, null, 0x1f, 2001-12-14]}\nc: *x\nd: |\n  text\n  more\ne: >-\n  folded\n",
        "# c\n- 'quoted ''x'''\n- \"esc \\u00e9 \\\n  aped\"\n- ? key\n  : value # line\n",
    ])
}

fn streams() -> Vec<Vec<u8>> {
    texts(&[
        "a: 1\n---\n# c\nb: {c: d}\n---\n{\"kind\": \"List\", \"items\": [{\"kind\": \"A\", \"apiVersion\": \"v1\"}]}\n",
    ])
}

fn recorded() -> Vec<Vec<u8>> {
    let field = |line: &str| {
        let case: Json = everflow_json::from_str(line).ok()?;
        Some(case["yaml"].as_str()?.as_bytes().to_vec())
    };
    [
        "yaml/load.jsonl",
        "yaml/multidoc.jsonl",
        "yaml/roundtrip.jsonl",
    ]
    .into_iter()
    .flat_map(|name| from_lines(name, 60, field))
    .collect()
}

fn sigs_json(bytes: &[u8]) -> bool {
    let _ = sigs::yaml_to_json_strict(bytes);
    let read = sigs::yaml_to_json(bytes);
    if let Ok(value) = &read {
        let written = emit::sigs(value);
        assert!(sigs::yaml_to_json(written.as_bytes()).is_ok(), "{written}");
    }
    read.is_ok()
}

fn kyaml_json(bytes: &[u8]) -> bool {
    let read = kyaml::yaml_to_json(bytes);
    if let Ok(value) = &read {
        let _ = emit::to_yaml(value);
        let _ = emit::yaml3(value, emit::Indent::Wide);
    }
    read.is_ok()
}

fn tree(bytes: &[u8], dialect: Dialect) -> bool {
    let Ok(documents) = Loader::new(dialect).keep_comments(true).load_all(bytes) else {
        return false;
    };
    for document in &documents {
        let _ = document.root.to_json();
        let _ = document.root.de_anchor();
        emit::kyaml(&document.root, emit::Indent::Wide);
        let _ = emit::sigs_node(&document.root);
    }
    emit::go_yaml3(&documents);
    true
}

fn documents(bytes: &[u8]) -> bool {
    yaml_reader(bytes).for_each(drop);
    for document in yaml_or_json_decoder(bytes).flatten() {
        let _ = document.into_object();
    }
    let _ = kio_reader(bytes);
    helm_manifests(bytes);
    let _ = helm_values(bytes);
    let _ = kustomize_documents(bytes);
    document_decoder(bytes).is_ok()
}

/// Goes into everything.
struct Everywhere;

impl Visitor for Everywhere {
    type Error = Infallible;

    fn enter(&mut self, path: &[String], _: bool, _: Collection) -> bool {
        path.len() < 3
    }

    fn value(&mut self, _: &[String], _: bool, value: Json) -> Result<(), Infallible> {
        drop(value);
        Ok(())
    }
}

fn walk(bytes: &[u8]) -> bool {
    let _ = everflow_yaml::walk::walk_json(bytes, &mut Everywhere);
    walk_yaml(bytes, Limits::DEFAULT, &mut Everywhere).is_ok()
}
