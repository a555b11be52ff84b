//! Random calls of the functions, answered by the real sprig and by us: every byte of output and
//! of every error must agree. Needs Go and runs only with `EVERFLOW_REAL=1`.
//! `EVERFLOW_DIFF_CASES` and `EVERFLOW_DIFF_SEED` choose how many and which.
#![allow(clippy::unwrap_used)]

mod generate;
mod pools;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

pub use everflow_corpus::Random;
use everflow_gotemplate::{Functions, Limits, Meter, MissingKey, Numbers, Templates, Value};
use everflow_json::{Value as Json, json};
use everflow_limits::Budget;
use everflow_sprig::{FixedSource, Source, register};

fn data() -> Json {
    json!({
        "s": "héllo Wörld", "e": "", "i": 42, "f": 3.75, "z": 0, "t": true, "n": null,
        "big": 1e21, "neg": -7, "l": ["b", "a", 1, null, [1, 2], {"k": "v"}, 2.5, true],
        "m": {"a": 1, "b": "two", "c": {"d": [1, 2], "e": {}}, "n": null, "f": false},
        "multi": "line1\nline2: x\n\n  line4\n",
    })
}

fn ours(functions: &Arc<Functions>, template: &str) -> Result<Vec<u8>, String> {
    let mut templates = Templates::new("t", Arc::clone(functions));
    templates.set_missing_key(MissingKey::Zero);
    let budget = Budget::unlimited();
    let meter = Meter::new(&Limits::default(), &budget);
    templates
        .parse("t", template, &meter)
        .map_err(|error| error.to_string())?;
    let data = Value::from_json(&data(), Numbers::Float64, &meter).unwrap();
    let mut state = FixedSource::new(0, 0, 1);
    templates
        .execute("t", &data, &mut state, &meter)
        .map_err(|error| error.to_string())
}

fn build_go(directory: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../real/sprig-diff");
    let program = directory.join("sprig-diff");
    let status = Command::new("go")
        .args(["build", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(source)
        .status()
        .unwrap();
    assert!(status.success(), "the Go side does not build");
    program
}

fn number(name: &str, default: u64) -> u64 {
    let given = std::env::var(name).ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2)
        .map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap())
        .collect()
}

#[test]
fn random_calls_answer_as_the_real_functions_do() {
    if std::env::var_os("EVERFLOW_REAL").is_none() {
        println!("skipped: random calls of the real sprig (set EVERFLOW_REAL=1)");
        return;
    }
    let (count, seed) = (
        number("EVERFLOW_DIFF_CASES", 5000),
        number("EVERFLOW_DIFF_SEED", 1),
    );
    let mut table = Functions::new();
    register(&mut table, |context| {
        context
            .state::<FixedSource>()
            .map(|source| source as &mut dyn Source)
    });
    let table = Arc::new(table);
    let directory = std::env::temp_dir().join(format!("sprig-diff-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let program = build_go(&directory);
    let templates: Vec<String> = (0..count)
        .map(|index| {
            let mut random = Random(seed.wrapping_mul(1_000_003).wrapping_add(index));
            generate::template(&mut random, &table)
        })
        .collect();
    let input = directory.join("input.jsonl");
    let mut file = std::io::BufWriter::new(std::fs::File::create(&input).unwrap());
    for template in &templates {
        writeln!(file, "{}", json!({"template": template, "data": data()})).unwrap();
    }
    drop(file);
    let output = Command::new(program)
        .stdin(Stdio::from(std::fs::File::open(&input).unwrap()))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    std::fs::remove_dir_all(&directory).unwrap();
    let answers = String::from_utf8(output.stdout).unwrap();
    let mut wrong = Vec::new();
    for (template, answer) in templates.iter().zip(answers.lines()) {
        let answer: Json = everflow_json::from_str(answer).unwrap();
        let theirs = match answer["err"].as_str() {
            Some(error) => Err(error.to_owned()),
            None => Ok(unhex(answer["out"].as_str().unwrap())),
        };
        let ours = ours(&table, template);
        if ours != theirs {
            let show = |result: &Result<Vec<u8>, String>| match result {
                Ok(text) => format!("{:?}", String::from_utf8_lossy(text)),
                Err(error) => format!("error {error:?}"),
            };
            wrong.push(format!(
                "{template}\n  ours   {}\n  theirs {}",
                show(&ours),
                show(&theirs)
            ));
        }
    }
    let shown = wrong
        .iter()
        .take(60)
        .cloned()
        .collect::<Vec<_>>()
        .join("\n");
    assert!(
        wrong.is_empty(),
        "{} of {count} differ:\n{shown}",
        wrong.len()
    );
    println!("{count} random calls agree");
}
