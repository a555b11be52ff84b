//! Random values and random YAML given to the Go libraries and to us: every byte of output and of
//! every error must agree, but for a handful of odd errors. Needs Go and runs with `EVERFLOW_REAL=1`.
//! `EVERFLOW_DIFF_CASES` and `EVERFLOW_DIFF_SEED` choose how many and which.
#![allow(clippy::expect_used, clippy::print_stdout)]

use everflow_json::{Map, Value, json};
use everflow_yaml::emit::{self, Indent};
use everflow_yaml::{Dialect, Document, Error, Loader, gojson, sigs};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Pieces of strings: everything that some style or some resolver treats in its own way.
const PIECES: &[&str] = &[
    " ",
    "  ",
    "\n",
    "\n\n",
    ":",
    ": ",
    " #",
    "#",
    "- ",
    "-",
    "---",
    "...",
    "'",
    "\"",
    "\\",
    "\u{feff}",
    "😀",
    "é",
    "\r",
    "\0",
    "\u{7}",
    "\t",
    "\u{85}",
    "\u{2028}",
    "\u{2029}",
    "\u{a0}",
    "\u{7f}",
    "\u{9f}",
    "\u{fffe}",
    "\u{e000}",
    "null",
    "yes",
    "no",
    "y",
    "on",
    "true",
    "~",
    "0x1f",
    "0o7",
    "017",
    "08",
    "1e3",
    "1_000",
    "1:30",
    "1:60",
    "-1:2",
    "0b1",
    "-0b1",
    "0b-1",
    ".5",
    "5.",
    ".inf",
    "-.Inf",
    ".nan",
    "+",
    "=",
    "<<",
    "!",
    "!!str",
    "&a",
    "*a",
    "[",
    "]",
    "{",
    "}",
    ",",
    "?",
    "|",
    ">",
    "%",
    "@",
    "`",
    "2024-01-01",
    "2024-1-2T3:4:5Z",
    "2024-01-01 10:11:12",
    "2024-02-30",
    "abc",
    "word",
    "a",
    "B",
    "long-long-long-long-long-long-word",
    "key",
    "x1",
    "x10",
    "x2",
];

/// Lines of documents; each comes at some indent.
const LINES: &[&str] = &[
    "",
    "# comment",
    "- x",
    "- y # line",
    "- {a: 1, b: [c, d]} # flow",
    "- k: v",
    "- - n",
    "-",
    "- |",
    "- >-",
    "- &x 1",
    "- *x",
    "e: [1, 2,\n 3] # t",
    "f: {a: b, # in\n c: d}",
    "g: |",
    "g: >",
    "h: 'a\n\n b'",
    "i: \"x\\ny\"",
    "j: plain\n  continued",
    "k: ''",
    "l: !!binary aGk=",
    "\"q\": 'v' # z",
    "? m",
    "? n\n: o",
    "text",
    "  more",
    "last # no",
    "---",
    "a: &x v",
    "b: *x",
    "c: !!int 3",
    "d: <<",
    "<<: {z: 1}",
    "a: 2024-01-01",
    "b: yes # line",
    "c: ~\n# foot\n",
];

const KEYS: &[&str] = &["a:", "b: # line", "c: &x", "d: !!map", "\"e\":\n"];

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 11) % bound as u64).expect("below the bound")
    }

    fn pick<'l>(&mut self, list: &[&'l str]) -> &'l str {
        list[self.below(list.len())]
    }

    fn text(&mut self) -> String {
        let pieces = match self.below(10) {
            0 => 0,
            1..=4 => 1,
            5..=8 => 1 + self.below(6),
            _ => 10 + self.below(40),
        };
        (0..pieces)
            .map(|_| match self.below(3) {
                0 => "word ",
                _ => self.pick(PIECES),
            })
            .collect()
    }

    fn value(&mut self, depth: usize) -> Value {
        let kinds = if depth > 4 { 7 } else { 11 };
        match self.below(kinds) {
            0 => Value::Null,
            1 => Value::Bool(self.below(2) == 0),
            2 => json!(self.below(2_000_000)),
            3 => {
                let scale = [1.0, 7.0, 1e3, 1e9, 1e-5, 1e-15, -1e-18][self.below(7)];
                json!(self.below(2_000_000) as f64 / scale)
            }
            4..=6 => Value::String(self.text().into()),
            7 | 8 => (0..self.below(4)).map(|_| self.value(depth + 1)).collect(),
            _ => {
                let mut fields = Map::new();
                for _ in 0..self.below(5) {
                    let key = self.text();
                    fields.insert(key.into(), self.value(depth + 1));
                }
                Value::Object(fields)
            }
        }
    }

    fn document(&mut self) -> String {
        let mut text = String::new();
        let mut indent = 0;
        for _ in 0..1 + self.below(8) {
            let line = match self.below(6) {
                0 => {
                    indent *= self.below(2);
                    continue;
                }
                1 | 2 => self.pick(KEYS),
                3 if self.below(3) == 0 => self.pick(PIECES),
                _ => self.pick(LINES),
            };
            text.push_str(&" ".repeat(indent));
            text.push_str(line);
            text.push('\n');
            if KEYS.contains(&line) {
                indent += 2;
            }
        }
        text
    }
}

struct Case {
    value: Value,
    yaml: String,
}

#[test]
fn random_inputs_agree_with_go() {
    if std::env::var("EVERFLOW_REAL").as_deref() != Ok("1") {
        println!("skipped: random inputs to Go's own libraries (set EVERFLOW_REAL=1)");
        return;
    }
    let setting = |name: &str, default: u64| {
        let value = std::env::var(name).ok();
        value.and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let mut random = Random(setting("EVERFLOW_DIFF_SEED", 1).wrapping_mul(7919) + 12345);
    let cases: Vec<Case> = (0..setting("EVERFLOW_DIFF_CASES", 20_000))
        .map(|_| Case {
            value: random.value(0),
            yaml: random.document(),
        })
        .collect();
    let answers = go_answers(&cases);
    assert_eq!(answers.lines().count(), cases.len(), "answers are missing");
    let mut mismatches: BTreeMap<String, usize> = BTreeMap::new();
    for (case, line) in cases.iter().zip(answers.lines()) {
        let go: Value = everflow_json::from_str(line).expect("an answer");
        for (name, ours) in our_answers(case) {
            if go[name].as_str() != Some(&ours) {
                let seen = mismatches.entry(name.to_owned()).or_default();
                *seen += 1;
                if *seen <= 3 {
                    println!("{name}\n  value {}\n  yaml  {:?}", case.value, case.yaml);
                    println!("  go    {}\n  ours  {ours:?}", go[name]);
                }
            }
        }
    }
    println!("{} cases, mismatches {mismatches:?}", cases.len());
    // Left are errors of texts with two faults, where the other one is named.
    let total: usize = mismatches.values().sum();
    assert!(total * 1000 <= cases.len(), "{total} mismatches");
}

fn our_answers(case: &Case) -> Vec<(&'static str, String)> {
    let mut floats = case.value.clone();
    gojson::numbers_as_f64(&mut floats);
    let input = case.yaml.as_bytes();
    let json_text = case.value.to_string();
    let json = |read: Result<Value, Error>| words(read.map(|value| gojson::to_string(&value)));
    vec![
        ("json", gojson::to_string(&floats)),
        ("marshal", words(emit::sigs_checked(&floats))),
        (
            "json_to_yaml",
            words(emit::json_to_yaml(json_text.as_bytes())),
        ),
        ("yaml3", emit::yaml3(&floats, Indent::Compact)),
        ("yaml3_wide", emit::yaml3(&floats, Indent::Wide)),
        ("yaml_to_json", json(sigs::yaml_to_json(input))),
        (
            "rnode",
            with_document(input, |document| {
                Ok(emit::kyaml_document(document, Indent::Compact))
            }),
        ),
        (
            "rnode_json",
            with_document(input, |document| {
                document.marshal_json().map(|json| gojson::to_string(&json))
            }),
        ),
        ("kio", words(emit::kio_rewrite(input))),
    ]
}

fn words(answer: Result<String, Error>) -> String {
    answer.unwrap_or_else(|error| format!("error: {error}"))
}

fn with_document(input: &[u8], print: impl Fn(&Document) -> Result<String, Error>) -> String {
    let loader = Loader::new(Dialect::Kyaml).keep_comments(true);
    match loader.load_document(input) {
        Ok(Some(document)) => words(print(&document)),
        Ok(None) => "error: EOF".to_owned(),
        Err(error) => format!("error: {error}"),
    }
}

fn go_answers(cases: &[Case]) -> String {
    let program = build_peer();
    let mut requests = String::new();
    for case in cases {
        let request = json!({"json": case.value.to_string(), "yaml": case.yaml});
        requests.push_str(&request.to_string());
        requests.push('\n');
    }
    let mut peer = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the peer starts");
    let mut input = peer.stdin.take().expect("a pipe");
    let writer = std::thread::spawn(move || input.write_all(requests.as_bytes()));
    let output = peer.wait_with_output().expect("the peer answers");
    writer
        .join()
        .expect("no panic")
        .expect("all cases are sent");
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn build_peer() -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../real/yaml-diff");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("yaml-diff");
    let status = Command::new("go")
        .args(["build", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(source)
        .status()
        .expect("Go is installed");
    assert!(status.success(), "the peer does not build");
    program
}
