//! Measures how fast YAML is read and written: `bench_yaml generate DIR`, then
//! `bench_yaml run MODE FILE`. `bench/yaml.sh` runs it beside the Go libraries.
//!
//! Each mode prints the megabytes of YAML per second of processor time and the peak of memory, so a
//! mode needs a process of its own.
#![allow(clippy::print_stdout, clippy::expect_used)]

use everflow_yaml::documents::{KioReader, yaml_or_json_decoder};
use everflow_yaml::emit::{self, Indent};
use everflow_yaml::{Dialect, Loader, gojson, kyaml, sigs};
use std::fmt::Write as _;
use std::hint::black_box;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["generate", directory] => generate(directory),
        ["run", mode, file] => run(mode, file),
        _ => println!("usage: bench_yaml generate DIR | run MODE FILE"),
    }
}

/// Times every mode is repeated.
const ROUNDS: usize = 5;

fn run(mode: &str, file: &str) {
    let input = std::fs::read(file).expect("the file can be read");
    let load = || sigs::yaml_to_json(&input).expect("YAML");
    let all = || yaml_or_json_decoder(&input).map(|document| document.expect("YAML"));
    match mode {
        "load-sigs" => measure(mode, input.len(), load),
        "load-tree-sigs" => {
            let loader = Loader::new(Dialect::Sigs);
            measure(mode, input.len(), || loader.load(&input).expect("YAML"));
        }
        "load-v3" => measure(mode, input.len(), || {
            kyaml::yaml_to_json(&input).expect("YAML")
        }),
        "load-kyaml" => measure(mode, input.len(), || kyaml::load(&input).expect("YAML")),
        "load-decoder" => measure(mode, input.len(), || {
            for document in all() {
                black_box(document);
            }
        }),
        "load-kio" => measure(mode, input.len(), || {
            let reader = KioReader::default().de_anchor(true);
            reader.read(&input).expect("YAML").documents
        }),
        "dump-sigs" => {
            let json = gojson::to_string(&load());
            measure(mode, input.len(), || {
                emit::json_to_yaml(json.as_bytes()).expect("JSON")
            });
        }
        "marshal-sigs" => {
            let value = load();
            measure(mode, input.len(), || emit::sigs(&value));
        }
        "dump-v3" => {
            let value = load();
            measure(mode, input.len(), || emit::yaml3(&value, Indent::Compact));
        }
        "dump-kyaml" => {
            let node = kyaml::load(&input).expect("YAML");
            measure(mode, input.len(), || emit::kyaml(&node, Indent::Compact));
        }
        "dump-sigs-each" => {
            let texts: Vec<String> = all()
                .filter_map(|document| document.into_object().expect("JSON"))
                .map(|value| gojson::to_string(&value))
                .collect();
            measure(mode, input.len(), || {
                let yaml = texts.iter().map(|json| emit::json_to_yaml(json.as_bytes()));
                yaml.map(|yaml| yaml.expect("JSON").len()).sum::<usize>()
            });
        }
        "dump-kio" => {
            let reader = KioReader::default().de_anchor(true);
            let documents = reader.read(&input).expect("YAML").documents;
            measure(mode, input.len(), || {
                emit::kyaml_documents(documents.iter().map(|document| (document, Indent::Compact)))
            });
        }
        _ => println!("unknown mode {mode}"),
    }
}

fn measure<T>(mode: &str, bytes: usize, mut work: impl FnMut() -> T) {
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let start = processor_seconds();
        black_box(work());
        best = best.min(processor_seconds() - start);
    }
    let speed = bytes as f64 / 1e6 / best;
    println!("{mode} {speed:.1} {:.0}", peak_megabytes());
}

/// Processor time of this thread; there is only one.
fn processor_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|field| field.parse().ok());
    nanoseconds.unwrap_or(0.0) / 1e9
}

fn peak_megabytes() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
    kilobytes.unwrap_or(0.0) / 1024.0
}

const WORDS: [&str; 25] = [
    "the",
    "field",
    "describes",
    "which",
    "resource",
    "is",
    "used",
    "when",
    "controller",
    "sets",
    "status",
    "of",
    "an",
    "object",
    "and",
    "must",
    "not",
    "be",
    "changed",
    "after",
    "creation",
    "unless",
    "policy",
    "allows",
    "it",
];

struct Generator {
    state: u64,
    text: String,
    fields: usize,
}

impl Generator {
    fn new(seed: u64) -> Self {
        Generator {
            state: seed,
            text: String::new(),
            fields: 0,
        }
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) % limit
    }

    fn sentence(&mut self, words: u64) -> String {
        let words: Vec<&str> = (0..words).map(|_| WORDS[self.below(25) as usize]).collect();
        words.join(" ")
    }

    fn line(&mut self, indent: usize, text: &str) {
        let _ = writeln!(self.text, "{:indent$}{text}", "");
    }

    fn properties(&mut self, indent: usize, depth: usize) {
        for _ in 0..4 + self.below(8) {
            self.fields += 1;
            let name = format!("field{}:", self.fields);
            self.line(indent, &name);
            let words = 8 + self.below(20);
            let description = format!("description: {}", self.sentence(words));
            let inner = indent + 2;
            match self.below(10) {
                0..3 if depth < 8 => {
                    self.line(inner, &description);
                    self.line(inner, "type: object");
                    self.line(inner, "properties:");
                    self.properties(inner + 2, depth + 1);
                }
                3 | 4 => {
                    self.line(inner, &description);
                    self.line(inner, "enum:");
                    for value in ["- Always", "- IfNotPresent", "- Never"] {
                        self.line(inner, value);
                    }
                    self.line(inner, "type: string");
                }
                5 | 6 => {
                    self.line(inner, &description);
                    self.line(inner, "format: int32");
                    let maximum = format!("maximum: {}", self.below(100_000));
                    self.line(inner, &maximum);
                    self.line(inner, "type: integer");
                }
                7 => {
                    self.line(inner, "description: |-");
                    for _ in 0..2 {
                        let words = 8 + self.below(8);
                        let sentence = self.sentence(words);
                        self.line(inner + 2, &sentence);
                    }
                    self.line(inner, "type: string");
                }
                _ => {
                    self.line(inner, &description);
                    self.line(inner, "items:");
                    self.line(inner + 2, "type: string");
                    self.line(inner, "type: array");
                }
            }
        }
    }
}

fn crd(size: usize) -> String {
    let mut generator = Generator::new(42);
    generator.text.push_str(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  \
         name: things.example.com\nspec:\n  group: example.com\n  names:\n    kind: Thing\n    \
         plural: things\n  scope: Namespaced\n  versions:\n  - name: v1\n    schema:\n      \
         openAPIV3Schema:\n        type: object\n        properties:\n",
    );
    while generator.text.len() < size {
        generator.properties(10, 0);
    }
    generator.text
}

fn config_maps(size: usize) -> String {
    let mut generator = Generator::new(43);
    let mut number = 0;
    while generator.text.len() < size {
        number += 1;
        let head = format!(
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: config-{number}\n  \
             namespace: team-{}\n  labels:\n    app.kubernetes.io/name: app-{}\n    \
             tier: backend\ndata:\n  key1: value-{}\n  key2: \"{}\"\n  script: |\n    {}\n    {}\n",
            generator.below(50),
            generator.below(900),
            generator.below(100_000),
            generator.below(2),
            generator.sentence(7),
            generator.sentence(7),
        );
        generator.text.push_str(&head);
    }
    generator.text
}

fn generate(directory: &str) {
    const SIZE: usize = 5_000_000;
    let path = |name: &str| std::path::Path::new(directory).join(name);
    std::fs::write(path("crd.yaml"), crd(SIZE)).expect("the file can be written");
    std::fs::write(path("many.yaml"), config_maps(SIZE)).expect("the file can be written");
}
