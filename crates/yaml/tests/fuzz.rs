//! No input may crash a reader, keep it busy or fill the memory: random bytes, text made of what
//! matters to YAML, and mutated cases of the corpus, a fixed number of each.
#![allow(clippy::expect_used, clippy::print_stdout)]

#[allow(dead_code)]
#[path = "writing/mod.rs"]
mod corpus;
mod reading;

use everflow_yaml::documents::{
    document_decoder, helm_manifests, helm_values, kio_reader, kustomize_documents,
    yaml_or_json_decoder, yaml_reader,
};
use everflow_yaml::{Dialect, Error, Limit, Limits, Loader, emit, kyaml, sigs};
use proptest::prelude::*;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Far more than any input of a few hundred bytes needs, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reads the input in every way there is.
fn read_in_every_way(input: &[u8]) {
    let start = Instant::now();
    let _ = sigs::yaml_to_json(input);
    let _ = sigs::yaml_to_json_strict(input);
    let _ = kyaml::yaml_to_json(input);
    for dialect in [Dialect::Sigs, Dialect::Kyaml] {
        if let Ok(documents) = Loader::new(dialect).keep_comments(true).load_all(input) {
            for document in &documents {
                let _ = document.root.to_json();
                let _ = document.root.de_anchor();
                emit::kyaml(&document.root, emit::Indent::Wide);
            }
        }
    }
    yaml_reader(input).for_each(drop);
    for document in yaml_or_json_decoder(input).flatten() {
        let _ = document.into_object();
    }
    let _ = document_decoder(input);
    let _ = kio_reader(input);
    let _ = kustomize_documents(input);
    helm_manifests(input);
    let _ = helm_values(input);
    assert!(start.elapsed() < PATIENCE, "too slow: {input:?}");
}

/// Pieces of text with a meaning in YAML.
fn yaml_text() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a",
        "b",
        ": ",
        ":",
        "- ",
        "-",
        "\n",
        "\n  ",
        "\n    ",
        "  ",
        " ",
        "\t",
        "[",
        "]",
        "{",
        "}",
        ",",
        "? ",
        "&x ",
        "*x",
        "!!str ",
        "!t ",
        "! ",
        "'",
        "\"",
        "\\n",
        "\\",
        "|",
        ">",
        "|2-\n",
        ">+\n",
        "# c",
        "#",
        "---",
        "---\n",
        "\n---\n",
        "...\n",
        "<<: ",
        "<<",
        "1",
        "0x1",
        "1.5",
        "yes",
        "null",
        "~",
        ".inf",
        "2024-01-01",
        "%YAML 1.1\n",
        "%TAG ! tag:x,\n",
        "\r\n",
        "\r",
        "\u{85}",
        "\u{2028}",
        "é",
        "\u{1F600}",
        "\u{FEFF}",
        "kind: List\nitems:\n",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// One change to an input.
#[derive(Clone, Debug)]
enum Mutation {
    Delete(usize, usize),
    Insert(usize, Vec<u8>),
    Replace(usize, u8),
    Repeat(usize, usize),
    Truncate(usize),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let bytes = b":-?[]{},#&*!|>'\"%@` \t\n\r\\ab01.~<=";
    let byte = prop_oneof![
        4 => prop::sample::select(bytes.to_vec()),
        1 => any::<u8>(),
    ];
    let text = prop::collection::vec(byte.clone(), 1..6);
    prop_oneof![
        (any::<usize>(), 1..8usize).prop_map(|(at, length)| Mutation::Delete(at, length)),
        (any::<usize>(), text).prop_map(|(at, text)| Mutation::Insert(at, text)),
        (any::<usize>(), byte).prop_map(|(at, byte)| Mutation::Replace(at, byte)),
        (any::<usize>(), 1..40usize).prop_map(|(at, length)| Mutation::Repeat(at, length)),
        any::<usize>().prop_map(Mutation::Truncate),
    ]
}

fn mutate(input: &mut Vec<u8>, mutation: Mutation) {
    let place = |at: usize| at % (input.len() + 1);
    match mutation {
        Mutation::Delete(at, length) => {
            let at = place(at);
            let end = (at + length).min(input.len());
            input.drain(at..end);
        }
        Mutation::Insert(at, text) => {
            let at = place(at);
            input.splice(at..at, text);
        }
        Mutation::Replace(at, byte) => {
            let at = place(at);
            if let Some(old) = input.get_mut(at) {
                *old = byte;
            }
        }
        Mutation::Repeat(at, length) => {
            let at = place(at);
            let end = (at + length).min(input.len());
            let piece = input[at..end].to_vec();
            input.splice(end..end, piece);
        }
        Mutation::Truncate(at) => {
            let at = place(at);
            input.truncate(at);
        }
    }
}

/// The inputs of the corpus that are of ordinary size.
fn corpus_inputs() -> &'static [Vec<u8>] {
    static INPUTS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    INPUTS.get_or_init(|| {
        ["load.jsonl", "multidoc.jsonl", "roundtrip.jsonl"]
            .into_iter()
            .filter_map(corpus::cases)
            .flatten()
            .map(|case| reading::input(&case))
            .filter(|input| input.len() < 2000)
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, rng_seed: proptest::test_runner::RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_are_read_or_refused(input in prop::collection::vec(any::<u8>(), 0..300)) {
        read_in_every_way(&input);
    }

    #[test]
    fn yaml_like_text_is_read_or_refused(input in yaml_text()) {
        read_in_every_way(input.as_bytes());
    }

    #[test]
    fn mutated_documents_are_read_or_refused(
        which in any::<prop::sample::Index>(),
        mutations in prop::collection::vec(mutation(), 1..6),
    ) {
        let inputs = corpus_inputs();
        prop_assume!(!inputs.is_empty());
        let mut input = which.get(inputs).clone();
        for mutation in mutations {
            mutate(&mut input, mutation);
        }
        read_in_every_way(&input);
    }
}

fn refused(result: Result<impl Sized, Error>) -> Error {
    result.err().expect("an error")
}

#[test]
fn deep_nesting_is_refused_on_a_small_stack() {
    let check = || {
        for (open, close) in [("[", "]"), ("{a: ", "}"), ("- ", ""), ("? ", "")] {
            let input = format!("{}1{}\n", open.repeat(9_000), close.repeat(9_000));
            let limit = Limit::Nesting(Limits::DEFAULT.nesting);
            for error in [
                refused(sigs::yaml_to_json(input.as_bytes())),
                refused(kyaml::yaml_to_json(input.as_bytes())),
                refused(kyaml::load(input.as_bytes())),
            ] {
                assert!(matches!(error, Error::Limit { limit: found, .. } if found == limit));
            }
        }
        let wide = format!("{}1{}", "[".repeat(1000), "]".repeat(1000));
        assert!(sigs::yaml_to_json(wide.as_bytes()).is_ok());
    };
    let small = std::thread::Builder::new().stack_size(2 << 20);
    small
        .spawn(check)
        .expect("a thread")
        .join()
        .expect("no overflow");
}

#[test]
fn a_billion_laughs_are_refused() {
    let mut input = String::from("a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n");
    for level in 1..12 {
        let alias = format!("*a{}", level - 1);
        let items = [alias.as_str(); 9].join(", ");
        input.push_str(&format!("a{level}: &a{level} [{items}]\n"));
    }
    let start = Instant::now();
    let problem = "yaml: document contains excessive aliasing";
    assert_eq!(
        refused(sigs::yaml_to_json(input.as_bytes())).to_string(),
        problem
    );
    assert_eq!(
        refused(kyaml::yaml_to_json(input.as_bytes())).to_string(),
        problem
    );
    let node = kyaml::load(input.as_bytes()).expect("aliases are kept");
    assert!(matches!(
        refused(node.de_anchor()),
        Error::Limit {
            limit: Limit::Expansion(_),
            ..
        }
    ));
    assert!(start.elapsed() < PATIENCE);
}

#[test]
fn too_much_input_is_refused() {
    let limits = Limits {
        size: 10,
        ..Limits::DEFAULT
    };
    let loader = Loader::new(Dialect::Sigs).limits(limits).file("big.yaml");
    assert!(loader.load(b"0123456789").is_ok());
    let error = refused(loader.load(b"01234567890"));
    assert_eq!(
        error.to_string(),
        "big.yaml: yaml: input is larger than 10 bytes"
    );
    assert_eq!(error.reason(), "LimitExceeded");
}

/// Work that grows with the square of the input would show here.
#[test]
fn long_inputs_take_time_in_proportion() {
    let inputs = [
        "a: 1\n".repeat(20_000),
        "[".to_owned() + &"a, ".repeat(50_000) + "]",
        "{".to_owned() + &"? a : b, ".repeat(20_000) + "}",
        "&a x: *a\n".repeat(20_000),
        "# comment\n".repeat(50_000),
        "- # comment\n".repeat(30_000),
        "\n".repeat(200_000),
        "a\n".repeat(100_000),
        "---\n".repeat(50_000),
        "\"".to_owned() + &"\\n \n".repeat(50_000),
        "é: 'ü'\n".repeat(30_000),
        "? [".repeat(500) + &"a ".repeat(100_000),
        "a: |\n".to_owned() + &"  x\n\n".repeat(50_000),
    ];
    for input in inputs {
        let start = Instant::now();
        let _ = sigs::yaml_to_json(input.as_bytes());
        let _ = kyaml::load(input.as_bytes());
        let _ = kyaml::yaml_to_json(input.as_bytes());
        let head: String = input.chars().take(20).collect();
        assert!(
            start.elapsed() < PATIENCE,
            "{head:?} took {:?}",
            start.elapsed()
        );
    }
}
