//! Random templates with Helm's functions, rendered by the engine of the real helm and by ours: every
//! byte of output must agree, and an error must be one on both sides, at the same place.
//!
//! Runs only with `EVERFLOW_REAL=1`; `EVERFLOW_DIFF_CASES` and `EVERFLOW_DIFF_SEED` choose how many
//! and which.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod generate;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

pub use everflow_corpus::Random;
use everflow_gotemplate::{Functions, Limits, Meter, Numbers, Value};
use everflow_helm::chart::{Chart, ChartFile};
use everflow_helm::objects::Capabilities;
use everflow_helm::render::{RenderInput, Sources, render};
use everflow_helm::values::Warnings;
use everflow_json::{Value as Json, json};
use everflow_limits::Budget;
use everflow_sprig::FixedSource;

use generate::Generator;

const HELPER: &str =
    "{{ define \"helper\" }}[{{ . | toString | trunc 20 }}|{{ kindOf . }}|{{ typeOf . }}]{{ end }}";

struct Case {
    template: String,
    values: Json,
}

fn ours(case: &Case) -> Result<Vec<u8>, String> {
    let mut chart = Chart::default();
    chart.metadata.name = "t".to_owned();
    chart.metadata.api_version = "v2".to_owned();
    chart.metadata.version = "1.2.3".to_owned();
    chart.metadata.app_version = "4.5.6".to_owned();
    chart.metadata.description = "random".to_owned();
    chart.metadata.kind = "application".to_owned();
    chart.templates = vec![
        ChartFile::new("templates/_helper.tpl", HELPER.as_bytes()),
        ChartFile::new("templates/case.yaml", case.template.as_bytes()),
    ];
    let budget = Budget::unlimited();
    let meter = Meter::new(&Limits::default(), &budget);
    let values = Value::from_json(&case.values, Numbers::Float64, &meter).unwrap();
    let release = Value::map([
        ("Name", Value::string("rel")),
        ("Namespace", Value::string("ns")),
        ("IsUpgrade", Value::Bool(false)),
        ("IsInstall", Value::Bool(true)),
        ("Revision", Value::Int(1)),
        ("Service", Value::string("Helm")),
    ]);
    let input = RenderInput {
        chart: &chart,
        values: values.as_map().unwrap(),
        release,
        capabilities: Capabilities::default().to_template_value(),
        strict: false,
        lint: false,
        meter: &meter,
    };
    let mut sources = Sources::new(FixedSource::new(1_700_000_000, 0, 1));
    match render(&input, &mut sources, &mut Warnings::default()) {
        Ok(files) => {
            let case = files
                .into_iter()
                .find(|(name, _)| name.ends_with("case.yaml"));
            Ok(case.map(|(_, text)| text).unwrap_or_default())
        }
        Err(error) => Err(error.to_string()),
    }
}

fn unhex(text: &str) -> Vec<u8> {
    text.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn number(name: &str, default: u64) -> u64 {
    let given = std::env::var(name).ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The real engine's answers.
fn theirs(cases: &[Case]) -> Vec<Json> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../real/helm-peer.sh");
    let built = Command::new(script).output().expect("the script runs");
    let complaint = String::from_utf8_lossy(&built.stderr);
    assert!(
        built.status.success(),
        "the peer does not build: {complaint}"
    );
    let program = String::from_utf8(built.stdout).unwrap();
    let path = std::env::temp_dir().join(format!("helm-diff-{}.jsonl", std::process::id()));
    let mut file = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
    for case in cases {
        let templates = json!({"_helper.tpl": HELPER, "case.yaml": case.template});
        writeln!(
            file,
            "{}",
            json!({"templates": templates, "values": case.values})
        )
        .unwrap();
    }
    drop(file);
    let output = Command::new(program.trim())
        .env("TZ", "UTC")
        .stdin(Stdio::from(std::fs::File::open(&path).unwrap()))
        .output()
        .unwrap();
    std::fs::remove_file(&path).ok();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the peer failed: {complaint}");
    let answers = String::from_utf8(output.stdout).unwrap();
    let answers = answers
        .lines()
        .map(|line| everflow_json::from_str(line).unwrap());
    answers.collect()
}

/// Where an error happened: everything up to the message.
fn place(error: &str) -> &str {
    let end = error.find(" at <").or_else(|| error.find("): "));
    &error[..end.unwrap_or(error.len())]
}

#[test]
fn random_templates_render_as_in_helm() {
    if std::env::var_os("EVERFLOW_REAL").is_none() {
        eprintln!("skipped: random templates in the real helm (set EVERFLOW_REAL=1)");
        return;
    }
    let (count, seed) = (
        number("EVERFLOW_DIFF_CASES", 5000),
        number("EVERFLOW_DIFF_SEED", 1),
    );
    let mut functions = Functions::new();
    everflow_sprig::register(&mut functions, |_| None);
    let functions = generate::usable(&functions);
    let cases: Vec<Case> = (0..count)
        .map(|index| {
            let random = &mut Random(seed.wrapping_mul(1_000_003).wrapping_add(index));
            Case {
                values: generate::values(random),
                template: Generator::new(random, &functions).template(),
            }
        })
        .collect();
    let answers = theirs(&cases);
    let (mut rendered, mut failed, mut texts) = (0, 0, 0);
    let mut differences = Vec::new();
    for (case, answer) in cases.iter().zip(&answers) {
        let ours = ours(case);
        let (want, got) = match answer["err"].as_str() {
            Some(error) => {
                failed += 1;
                let want = String::from_utf8_lossy(&unhex(error)).into_owned();
                let got = ours.map(|out| format!("OUTPUT {}", String::from_utf8_lossy(&out)));
                let got = got.unwrap_or_else(|error| error);
                texts += usize::from(want == got);
                (
                    place(&want).to_owned() + "\n" + &want,
                    place(&got).to_owned() + "\n" + &got,
                )
            }
            None => {
                rendered += 1;
                let want = unhex(answer["out"].as_str().unwrap());
                let got = ours.unwrap_or_else(|error| format!("ERROR {error}").into_bytes());
                (
                    String::from_utf8_lossy(&want).into_owned(),
                    String::from_utf8_lossy(&got).into_owned(),
                )
            }
        };
        let agrees = match answer["err"].is_string() {
            true => want.lines().next() == got.lines().next(),
            false => want == got,
        };
        if !agrees && !answer["panic"].is_string() {
            differences.push(format!(
                "{:?}\n  values {}\n  want {want:?}\n  got  {got:?}\n",
                case.template, case.values
            ));
        }
    }
    differences.sort_by_key(String::len);
    eprintln!("{rendered} rendered, {failed} errors ({texts} with the same text)");
    let shown: Vec<String> = differences.iter().take(25).cloned().collect();
    assert!(
        differences.is_empty(),
        "{} of {count} differ\n{}",
        differences.len(),
        shown.join("\n")
    );
}
