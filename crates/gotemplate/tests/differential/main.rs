//! Random templates and data rendered by Go's text/template and by us: every byte of output and of
//! every error must agree. Needs Go and runs only with `EVERFLOW_REAL=1`.
//! `EVERFLOW_DIFF_CASES` and `EVERFLOW_DIFF_SEED` choose how many and which.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod data;
mod generate;
mod mutate;
mod typed;
mod words;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

pub use everflow_corpus::Random;
use everflow_gotemplate::{Functions, Limits, Meter, MissingKey, Templates, Value};
use everflow_json::{Value as Json, json};
use everflow_limits::Budget;

use data::hex;
use generate::Generator;
use mutate::mutate;

struct Case {
    templates: Vec<(String, Vec<u8>)>,
    missing: &'static str,
    delimiters: (&'static str, &'static str),
    data: Value,
    request: Json,
}

fn generate(seed: u64) -> Case {
    let random = &mut Random(seed);
    let delimiters = match random.below(20) {
        0 => ("<<", ">>"),
        1 => ("[[", "]]"),
        _ => ("{{", "}}"),
    };
    let mut templates: Vec<(String, Vec<u8>)> = Vec::new();
    let mut callable = vec!["absent".to_owned()];
    for name in ["third", "second"] {
        if random.below(2) == 0 {
            let text = Generator::new(random, delimiters, callable.clone()).template();
            let text = match random.below(3) {
                0 => format!(
                    "{0} define {name:?} {1}{text}{0}end{1}",
                    delimiters.0, delimiters.1
                ),
                _ => text,
            };
            let file = if text.contains("define") {
                "helpers"
            } else {
                name
            };
            templates.push((file.to_owned(), text.into_bytes()));
            callable.push(name.to_owned());
        }
    }
    let main = Generator::new(random, delimiters, callable).template();
    let main = match random.below(5) {
        0 if random.below(2) == 0 => mutate(random, &main),
        _ => main.into_bytes(),
    };
    templates.push(("main".to_owned(), main));
    let missing = *random.pick(&["default", "zero", "zero", "error"]);
    let (data, spec) = data::root(random);
    let texts: Vec<[String; 2]> = templates
        .iter()
        .map(|(name, text)| [name.clone(), hex(text)])
        .collect();
    let request = json!({
        "templates": texts,
        "missing": missing,
        "left": delimiters.0,
        "right": delimiters.1,
        "data": spec,
    });
    Case {
        templates,
        missing,
        delimiters,
        data,
        request,
    }
}

/// Our answer: the output, or the error text.
fn ours(case: &Case, functions: &Arc<Functions>) -> Result<Vec<u8>, String> {
    let mut set = Templates::new("set", Arc::clone(functions));
    set.set_missing_key(match case.missing {
        "zero" => MissingKey::Zero,
        "error" => MissingKey::Error,
        _ => MissingKey::Invalid,
    });
    set.set_delimiters(case.delimiters.0, case.delimiters.1);
    let limits = Limits {
        steps: 100_000,
        output_bytes: 1 << 20,
        ..Limits::default()
    };
    let budget = Budget::unlimited();
    let meter = Meter::new(&limits, &budget);
    for (name, text) in &case.templates {
        set.parse(name, text, &meter)
            .map_err(|error| error.to_string())?;
    }
    set.execute("main", &case.data, &mut (), &meter)
        .map_err(|error| error.to_string())
}

fn unhex(text: &str) -> Vec<u8> {
    text.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// Takes out addresses, which differ from run to run.
fn without_addresses(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let mut out = String::new();
    let mut rest = text.as_ref();
    while let Some(at) = rest.find("0x").into_iter().chain(rest.find("0X")).min() {
        out.push_str(&rest[..at]);
        let digits = rest[at + 2..]
            .chars()
            .take_while(char::is_ascii_hexdigit)
            .count();
        match digits {
            6.. => out.push_str("ADDRESS"),
            _ => out.push_str(&rest[at..at + 2 + digits]),
        }
        rest = &rest[at + 2 + digits..];
    }
    out.push_str(rest);
    out
}

/// Takes out numbers of at least that many digits: other verbs print addresses in other bases, and
/// `len` counts their digits.
fn without_numbers(text: &str, least: usize) -> String {
    let mut out = String::new();
    for run in text.split_inclusive(|c: char| !c.is_ascii_hexdigit()) {
        if run == " " {
            continue;
        }
        match run.len() > least {
            true => out.push('#'),
            false => out.push_str(run),
        }
    }
    out
}

fn build_go(dir: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../real/gotemplate-diff");
    let program = dir.join("gotemplate-diff");
    let status = Command::new("go")
        .args(["build", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(source)
        .status()
        .expect("go runs");
    assert!(status.success(), "the Go side does not build");
    program
}

fn number(name: &str, default: u64) -> u64 {
    let given = std::env::var(name).ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn random_templates_render_as_in_go() {
    if std::env::var_os("EVERFLOW_REAL").is_none() {
        eprintln!("skipped: random templates in Go's own engine (set EVERFLOW_REAL=1)");
        return;
    }
    let (count, seed) = (
        number("EVERFLOW_DIFF_CASES", 5000),
        number("EVERFLOW_DIFF_SEED", 1),
    );
    let dir = std::env::temp_dir().join(format!("gotemplate-diff-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let program = build_go(&dir);
    let functions = data::functions();
    // Templates that run (nearly) for ever are not sent to Go.
    let endless = |answer: &Result<Vec<u8>, String>| match answer {
        Err(error) => error.contains("exceeded the limit"),
        Ok(_) => false,
    };
    let cases: Vec<(Case, Result<Vec<u8>, String>)> = (0..count)
        .map(|index| generate(seed.wrapping_mul(1_000_003).wrapping_add(index)))
        .map(|case| {
            let answer = ours(&case, &functions);
            (case, answer)
        })
        .filter(|(_, answer)| !endless(answer))
        .collect();
    let input = dir.join("input.jsonl");
    let mut file = std::io::BufWriter::new(std::fs::File::create(&input).unwrap());
    for (case, _) in &cases {
        writeln!(file, "{}", case.request).unwrap();
    }
    drop(file);
    let output = Command::new(program)
        .stdin(Stdio::from(std::fs::File::open(&input).unwrap()))
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the Go side failed: {stderr}");
    let answers = String::from_utf8(output.stdout).unwrap();
    let (mut rendered, mut failed, mut panicked) = (0, 0, 0);
    let mut differences = Vec::new();
    for ((case, ours), answer) in cases.iter().zip(answers.lines()) {
        let answer: Json = everflow_json::from_str(answer).unwrap();
        let ours = ours.clone();
        if answer["panic"].is_string() {
            panicked += 1;
            continue;
        }
        let (want, got) = match answer["err"].as_str() {
            Some(error) => {
                failed += 1;
                let got = ours.map(|out| format!("OUTPUT {}", String::from_utf8_lossy(&out)));
                (unhex(error), got.unwrap_or_else(|error| error).into_bytes())
            }
            None => {
                rendered += 1;
                let got = ours.unwrap_or_else(|error| format!("ERROR {error}").into_bytes());
                (unhex(answer["out"].as_str().unwrap()), got)
            }
        };
        let (want, got) = (without_addresses(&want), without_addresses(&got));
        let counts = case.templates.iter().any(|(_, text)| {
            let text = String::from_utf8_lossy(text);
            text.contains("len (") && text.contains("print")
        });
        let least = if counts { 1 } else { 5 };
        if want != got && without_numbers(&want, least) != without_numbers(&got, least) {
            let texts: Vec<String> = case
                .templates
                .iter()
                .map(|(name, text)| format!("{name}: {:?}", String::from_utf8_lossy(text)))
                .collect();
            differences.push(format!(
                "{} missing={}\n  want {want:?}\n  got  {got:?}\n",
                texts.join("\n"),
                case.missing
            ));
        }
    }
    std::fs::remove_dir_all(&dir).ok();
    differences.sort_by_key(String::len);
    eprintln!("{rendered} rendered, {failed} errors, {panicked} panics in Go");
    let shown: Vec<String> = differences.iter().take(25).cloned().collect();
    assert!(
        differences.is_empty(),
        "{} of {count} differ\n{}",
        differences.len(),
        shown.join("\n")
    );
}
