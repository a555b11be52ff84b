//! `everflow helm template` against recordings of the real one: whole charts, run as a user runs
//! them.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use everflow_corpus::Outcome;
use everflow_json::Value;

#[test]
fn charts_render_as_recorded() {
    let Some(root) = everflow_corpus::find("helm/charts") else {
        return;
    };
    let mut names: Vec<String> = std::fs::read_dir(&root)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| root.join(name).join("case.json").exists())
        .collect();
    names.sort();
    let only = std::env::var("EVERFLOW_CASE").ok();
    names.retain(|name| {
        only.as_ref()
            .is_none_or(|part| name.contains(part.as_str()))
    });

    let next = AtomicUsize::new(0);
    let outcome = Mutex::new(Outcome::default());
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = check(&root.join(name));
                    outcome.lock().unwrap().record(name, result);
                }
            });
        }
    });
    let known = match only {
        Some(_) => "",
        None => include_str!("helm_charts_known.txt"),
    };
    outcome.into_inner().unwrap().assert(known);
}

fn check(directory: &Path) -> Result<(), String> {
    let case: Value =
        everflow_json::from_slice(&std::fs::read(directory.join("case.json")).unwrap()).unwrap();
    let output = command(&case).current_dir(directory).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr =
        String::from_utf8_lossy(&output.stderr).replace(directory.to_str().unwrap(), "<CASE>");
    let want_file = directory.join("want.yaml");
    if want_file.exists() {
        let want = String::from_utf8_lossy(&std::fs::read(want_file).unwrap()).into_owned();
        return match output.status.success() {
            true => compare(&stdout, &want, &case),
            false => Err(format!("failed: {}", stderr.trim())),
        };
    }
    let want = std::fs::read_to_string(directory.join("want-error.txt")).unwrap();
    if output.status.success() {
        return Err(format!("rendered, but should fail with {}", want.trim()));
    }
    compare_errors(&stderr, &want, case["error_unstable"] == true)
}

fn command(case: &Value) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_everflow"));
    let text = |key: &str| case[key].as_str().unwrap().to_owned();
    command
        .args(["helm", "template"])
        .arg(text("release"))
        .arg(text("chart"));
    command.arg("--namespace").arg(text("namespace"));
    let strings = |key: &str| -> Vec<String> {
        case[key]
            .as_array()
            .into_iter()
            .flatten()
            .map(|item| item.as_str().unwrap().to_owned())
            .collect()
    };
    for (key, flag) in [
        ("values", "--values"),
        ("set", "--set"),
        ("set_string", "--set-string"),
        ("set_json", "--set-json"),
        ("set_file", "--set-file"),
        ("set_literal", "--set-literal"),
        ("show_only", "--show-only"),
        ("api_versions", "--api-versions"),
    ] {
        for value in strings(key) {
            command.arg(flag).arg(value);
        }
    }
    if let Some(version) = case["kube_version"].as_str() {
        command.arg("--kube-version").arg(version);
    }
    for (key, flag) in [
        ("is_upgrade", "--is-upgrade"),
        ("include_crds", "--include-crds"),
        ("skip_crds", "--skip-crds"),
        ("no_hooks", "--no-hooks"),
        ("skip_tests", "--skip-tests"),
        ("skip_schema_validation", "--skip-schema-validation"),
    ] {
        if case[key] == true {
            command.arg(flag);
        }
    }
    command.args(strings("extra_args"));
    command
}

fn compare(got: &str, want: &str, case: &Value) -> Result<(), String> {
    if got == want {
        return Ok(());
    }
    let masked: Vec<u64> = case["masked_lines"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_u64)
        .collect();
    let (got_lines, want_lines): (Vec<&str>, Vec<&str>) =
        (got.split('\n').collect(), want.split('\n').collect());
    for (index, want) in want_lines.iter().enumerate() {
        let got = got_lines.get(index).unwrap_or(&"<end>");
        if got != want && !masked.contains(&(index as u64 + 1)) {
            return Err(format!("line {}: got {got:?}, want {want:?}", index + 1));
        }
    }
    match got_lines.len() == want_lines.len() {
        true => Ok(()),
        false => Err(format!(
            "{} lines, want {}",
            got_lines.len(),
            want_lines.len()
        )),
    }
}

/// Errors agree when their lines do, less the log and the mark before the message. The order of
/// lines is helm's own chance where it says so.
fn compare_errors(got: &str, want: &str, unstable: bool) -> Result<(), String> {
    let lines = |text: &str| -> Vec<String> {
        let mut lines: Vec<String> = text
            .lines()
            .filter(|line| !line.starts_with("level=") && !line.trim().is_empty())
            .map(|line| {
                let line = line.trim_end();
                let line = line.strip_prefix("✗ ").unwrap_or(line);
                line.strip_prefix("Error: ").unwrap_or(line).to_owned()
            })
            .collect();
        if unstable {
            lines.sort();
        }
        lines
    };
    let (got, want) = (lines(got), lines(want));
    match got == want {
        true => Ok(()),
        false => Err(format!("error {got:?}, want {want:?}")),
    }
}
