//! Renders every recorded case of helm's functions in an engine set up as helm's is.

#![allow(clippy::unwrap_used)]

mod engine;
mod errors;

use std::collections::BTreeMap;

use everflow_corpus::Outcome;
use everflow_json::Value as Json;

/// Cases that differ, one per line with the reason.
const KNOWN: &str = include_str!("known-differences.txt");

fn compare(
    case: &Json,
    rendered: &Result<BTreeMap<String, Vec<u8>>, String>,
) -> Result<(), String> {
    let show = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let files = match (rendered, case["want_error"].as_str()) {
        (Err(got), Some(wanted)) if got.trim_end() == wanted.trim_end() => return Ok(()),
        (Err(got), Some(wanted)) => {
            return Err(format!("error\n   {got:?}, wanted\n   {wanted:?}"));
        }
        (Err(got), None) => return Err(format!("error {got:?}, wanted {}", wanted(case))),
        (Ok(files), Some(wanted)) => {
            let got = files
                .get("t/templates/case.yaml")
                .map(|b| show(b))
                .unwrap_or_default();
            return Err(format!("got {got:?}, wanted the error {wanted:?}"));
        }
        (Ok(files), None) => files,
    };
    if let Some(all) = case["want_all"].as_object() {
        for (name, wanted) in all {
            let got = files.get(name.as_str()).map(|b| show(b));
            if got.as_deref() != wanted.as_str() {
                return Err(format!("{name}: got {got:?}, wanted {wanted}"));
            }
        }
        return Ok(());
    }
    let got = files
        .get("t/templates/case.yaml")
        .cloned()
        .unwrap_or_default();
    if let Some(pattern) = case["want_pattern"].as_str() {
        let pattern = regex::Regex::new(pattern).map_err(|error| error.to_string())?;
        return match pattern.is_match(&show(&got)) {
            true => Ok(()),
            false => Err(format!(
                "got {:?}, wanted the pattern {pattern}",
                show(&got)
            )),
        };
    }
    let same = match case["want_base64"].as_str() {
        Some(encoded) => {
            use base64::Engine as _;
            base64::engine::general_purpose::STANDARD
                .decode(encoded)
                .unwrap()
                == got
        }
        None => case["want"].as_str().map(str::as_bytes) == Some(&got),
    };
    match same {
        true => Ok(()),
        false => Err(format!(
            "got\n   {:?}, wanted\n   {}",
            show(&got),
            wanted(case)
        )),
    }
}

fn wanted(case: &Json) -> String {
    for key in ["want", "want_base64", "want_pattern", "want_all"] {
        if !case[key].is_null() {
            return case[key].to_string();
        }
    }
    "nothing".to_owned()
}

#[test]
fn recorded_functions() {
    let Some(directory) = everflow_corpus::find("helm/functions") else {
        return;
    };
    let mut files: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "jsonl")
        })
        .collect();
    files.sort();
    let only = std::env::var("EVERFLOW_ONLY").ok();
    let mut cases = Vec::new();
    for path in files {
        let subject = path.file_stem().unwrap().to_string_lossy().into_owned();
        for line in std::fs::read_to_string(&path).unwrap().lines() {
            let case: Json = everflow_json::from_str(line).unwrap();
            let id = format!("{subject}/{}", case["id"].as_str().unwrap());
            if only
                .as_ref()
                .is_none_or(|only| id.starts_with(only.as_str()))
            {
                cases.push((id, case));
            }
        }
    }
    let mut outcome = Outcome::default();
    for (id, result) in run_all(&cases) {
        if let (Err(difference), Some(_)) = (&result, std::env::var_os("EVERFLOW_SHOW")) {
            println!("{id}\n   {difference}");
        }
        outcome.record(id, result);
    }
    if only.is_none() {
        match outcome.check(KNOWN) {
            Ok(summary) => println!("{summary}"),
            Err(wrong) => panic!("{wrong}"),
        }
    }
}

/// Renders the cases on a few threads with large stacks.
fn run_all(cases: &[(String, Json)]) -> Vec<(String, Result<(), String>)> {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let work = || {
        let mut results = Vec::new();
        while let Some((id, case)) =
            cases.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
        {
            results.push((id.clone(), compare(case, &engine::render(case))));
        }
        results
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let builder = std::thread::Builder::new().stack_size(engine::STACK);
                builder.spawn_scoped(scope, work).unwrap()
            })
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    })
}
