//! Random charts rendered by the real helm and by us: every byte of the manifests and every line of
//! the errors must agree; and release records read by each other. Runs only with `EVERFLOW_REAL=1`.
//! `EVERFLOW_DIFF_CASES` (templates) and `EVERFLOW_DIFF_SEED` choose how many and which.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod chart;
mod template;

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// What a run of either program gave.
#[derive(PartialEq)]
enum Run {
    Rendered(Vec<u8>),
    Failed(Vec<String>),
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

#[test]
fn random_charts_render_alike() {
    let Some(helm) = everflow_corpus::real::program("helm") else {
        return;
    };
    let wanted = number("EVERFLOW_DIFF_CASES", 5000) as usize;
    let first = number("EVERFLOW_DIFF_SEED", 1);
    let (next, done) = (AtomicU64::new(first), AtomicUsize::new(0));
    let (rendered, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let differences = Mutex::new(Vec::new());
    let root = std::env::temp_dir().join(format!("everflow-real-helm-{}", std::process::id()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while done.load(Ordering::Relaxed) < wanted {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let directory = root.join(seed.to_string());
                    let chart = chart::write(&directory, seed);
                    done.fetch_add(chart.templates, Ordering::Relaxed);
                    let (good, bad, found) = compare(&helm, &directory, &chart.flags, seed);
                    rendered.fetch_add(good, Ordering::Relaxed);
                    failed.fetch_add(bad, Ordering::Relaxed);
                    if found.is_empty() {
                        std::fs::remove_dir_all(&directory).unwrap();
                    }
                    differences.lock().unwrap().extend(found);
                }
            });
        }
    });
    let differences = differences.into_inner().unwrap();
    println!(
        "seeds {first}..{}: {} templates, {} charts rendered, {} errors, {} differences",
        next.into_inner(),
        done.into_inner(),
        rendered.into_inner(),
        failed.into_inner(),
        differences.len()
    );
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Renders the chart; a template that fails in both is compared and taken away, until the rest
/// renders.
fn compare(
    helm: &Path,
    directory: &Path,
    flags: &[String],
    seed: u64,
) -> (usize, usize, Vec<String>) {
    let mut errors = 0;
    let mut differences = Vec::new();
    for _ in 0..60 {
        let theirs = run(
            Command::new(helm).args(["template", "rel", "chart"]),
            directory,
            flags,
        );
        let ours = Command::new(env!("CARGO_BIN_EXE_everflow"))
            .args(["helm", "template", "rel", "chart"])
            .stdin(std::process::Stdio::null())
            .current_dir(directory)
            .args(flags)
            .output()
            .unwrap();
        let ours = outcome(&ours);
        let about = |text: String| {
            format!(
                "seed {seed} ({} {}): {text}",
                directory.display(),
                flags.join(" ")
            )
        };
        let failing = match (&theirs, &ours) {
            (Run::Rendered(want), Run::Rendered(got)) => {
                if want != got {
                    differences.push(about(first_difference(got, want)));
                }
                return (1, errors, differences);
            }
            // A crash of the real helm is no answer; ours must be an error.
            (Run::Failed(want), Run::Failed(got)) if has_crashed(want) => {
                errors += 1;
                failing_template(got)
            }
            (Run::Failed(want), Run::Failed(got)) => {
                errors += 1;
                if want != got {
                    differences.push(about(format!("error {got:?}, want {want:?}")));
                }
                failing_template(want)
            }
            (Run::Failed(want), Run::Rendered(_)) => {
                differences.push(about(format!("rendered, want error {want:?}")));
                failing_template(want)
            }
            (Run::Rendered(_), Run::Failed(got)) => {
                differences.push(about(format!("failed: {got:?}")));
                failing_template(got)
            }
        };
        if let Run::Failed(lines) = &theirs
            && is_about_schema(lines)
            && remove_schemas(directory)
        {
            continue;
        }
        let Some(path) = failing else { break };
        let file = directory.join(
            path.replacen("root/", "chart/", 1)
                .replace("charts/renamed", "charts/one"),
        );
        if std::fs::remove_file(&file).is_err() {
            break;
        }
    }
    (0, errors, differences)
}

fn run(command: &mut Command, directory: &Path, flags: &[String]) -> Run {
    outcome(&command.current_dir(directory).args(flags).output().unwrap())
}

fn outcome(output: &std::process::Output) -> Run {
    if output.status.success() {
        return Run::Rendered(output.stdout.clone());
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines = text
        .lines()
        .filter(|line| !line.starts_with("level=") && !line.trim().is_empty())
        .map(|line| {
            let line = line.trim_end();
            let line = line.strip_prefix("✗ ").unwrap_or(line);
            line.strip_prefix("Error: ").unwrap_or(line).to_owned()
        });
    let mut lines: Vec<String> = lines.collect();
    if is_about_schema(&lines) {
        // Go walks the properties of a schema and of an object in any order.
        for line in &mut lines {
            if let Some((before, names)) = line.split_once("additional properties ") {
                let mut names: Vec<&str> =
                    names.trim_end_matches(" not allowed").split(", ").collect();
                names.sort_unstable();
                *line = format!("{before}additional properties {}", names.join(", "));
            }
        }
        lines.sort();
    }
    Run::Failed(lines)
}

fn is_about_schema(lines: &[String]) -> bool {
    lines
        .iter()
        .any(|line| line.starts_with("values don't meet the specifications"))
}

/// Takes the schemas away, so that the templates are looked at, too. False if there are none.
fn remove_schemas(directory: &Path) -> bool {
    let parts = ["", "charts/one/", "charts/two/", "charts/one/charts/inner/"];
    let removed = parts.map(|part| {
        std::fs::remove_file(directory.join(format!("chart/{part}values.schema.json"))).is_ok()
    });
    removed.contains(&true)
}

/// The first template file that an error names.
fn has_crashed(lines: &[String]) -> bool {
    lines
        .iter()
        .any(|line| line == "fatal error: stack overflow")
}

fn failing_template(lines: &[String]) -> Option<String> {
    let text = lines.join("\n");
    let start = text.find("root/")?;
    let path = text[start..].split(|c: char| !(c.is_alphanumeric() || "/._-".contains(c)));
    path.into_iter().next().map(str::to_owned)
}

fn first_difference(got: &[u8], want: &[u8]) -> String {
    let (got, want) = (String::from_utf8_lossy(got), String::from_utf8_lossy(want));
    let (mut ours, mut theirs) = (got.lines(), want.lines());
    let mut source = "";
    loop {
        match (ours.next(), theirs.next()) {
            (Some(got), Some(want)) if got == want => {
                if got.starts_with("# Source: ") {
                    source = got;
                }
            }
            (got, want) => return format!("{source}\n  got  {got:?}\n  want {want:?}"),
        }
    }
}
