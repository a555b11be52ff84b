//! The recorded template cases that need the language and Go's own functions only.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use everflow_gotemplate::{
    Error, Functions, GoType, Limits, Map, Meter, MissingKey, NamedType, Numbers, Templates, Value,
};
use everflow_json::Value as Json;
use everflow_limits::Budget;

/// What helm passes as `.Values`.
static VALUES: NamedType = NamedType {
    name: "common.Values",
    underlying: GoType::ANY_MAP,
    methods: &[],
};

fn corpus() -> Option<PathBuf> {
    let relative = "helm/functions";
    if let Ok(root) = std::env::var("EVERFLOW_CORPUS") {
        return Some(PathBuf::from(root).join(relative));
    }
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .map(|dir| dir.join("shared/corpus").join(relative))
        .find(|dir| dir.is_dir())
}

enum Outcome {
    Pass,
    /// The case calls a function of another crate.
    Skip,
    Fail(String),
}

/// Functions and objects that this crate does not have.
struct Foreign {
    functions: BTreeSet<String>,
}

impl Foreign {
    fn is_needed_by(&self, case: &Json, templates: &BTreeMap<String, String>) -> bool {
        let all: String = templates.values().cloned().collect();
        // sprig's slice hides Go's.
        let objects = [
            ".Chart",
            ".Files",
            ".Capabilities",
            ".Release",
            ".Template",
            ".Subcharts",
            ".AsMap",
            ".Table",
            ".YAML",
            ".Encode",
            ".PathValue",
            "slice",
        ];
        let options = &case["options"];
        objects.iter().any(|name| all.contains(name))
            || !options["lint"].is_null()
            || !options["set"].is_null()
            || !case["want_pattern"].is_null()
            || !case["values_yaml"].is_null()
    }

    fn is_missing_function(&self, error: &Error) -> bool {
        let Error::Parse { message, .. } = error else {
            return false;
        };
        let name = message
            .strip_prefix("function \"")
            .and_then(|rest| rest.strip_suffix("\" not defined"));
        name.is_some_and(|name| self.functions.contains(name))
    }
}

fn text(error: &Error) -> String {
    match error {
        Error::Parse { name, line, .. } => {
            let full = error.to_string();
            let last = full.rsplit(": ").next().unwrap_or("");
            format!("parse error at ({name}:{line}): {last}")
        }
        Error::Exec { message, .. } if message.starts_with("error calling") => error.to_string(),
        Error::Exec {
            name,
            location,
            context,
            message,
            ..
        } => format!("{location}\n  executing {name:?} at <{context}>:\n    {message}"),
        other => other.to_string(),
    }
}

fn run(case: &Json, foreign: &Foreign) -> Outcome {
    let mut sources = BTreeMap::new();
    if let Some(template) = case["template"].as_str() {
        sources.insert("case.yaml".to_owned(), template.to_owned());
    }
    for (name, source) in case["templates"].as_object().into_iter().flatten() {
        sources.insert(name.to_string(), source.as_str().unwrap_or("").to_owned());
    }
    if foreign.is_needed_by(case, &sources) {
        return Outcome::Skip;
    }
    let result = render(case, &sources);
    match result {
        Err(error) if foreign.is_missing_function(&error) => Outcome::Skip,
        Err(error) => {
            let got = text(&error);
            let want = case["want_error"].as_str().unwrap_or("<an output>");
            match got.trim_end() == want.trim_end() {
                true => Outcome::Pass,
                false => Outcome::Fail(format!("error {got:?}, want {want:?}")),
            }
        }
        Ok(output) => {
            let output = String::from_utf8_lossy(&output).replace("<no value>", "");
            let want = case["want"].as_str().unwrap_or("<an error>");
            match output == want {
                true => Outcome::Pass,
                false => Outcome::Fail(format!("{output:?}, want {want:?} {}", case["want_error"])),
            }
        }
    }
}

fn render(case: &Json, sources: &BTreeMap<String, String>) -> Result<Vec<u8>, Error> {
    let budget = Budget::unlimited();
    let meter = Meter::new(&Limits::default(), &budget);
    let mut templates = Templates::new("gotpl", Arc::new(Functions::new()));
    templates.set_missing_key(match case["options"]["strict"].as_bool() {
        Some(true) => MissingKey::Error,
        _ => MissingKey::Zero,
    });
    // The last definition wins; helm parses the deepest and alphabetically last first.
    let mut names: Vec<&String> = sources.keys().collect();
    names.sort_by_key(|name| (name.matches('/').count(), (*name).clone()));
    for name in names.into_iter().rev() {
        templates.parse(&format!("t/templates/{name}"), &sources[name], &meter)?;
    }
    let values = Value::from_json(&case["values"], Numbers::Float64, &meter).unwrap_or_default();
    let entries = values.as_map().map(Map::snapshot).unwrap_or_default();
    let values = Map::typed(GoType::Named(&VALUES), entries.into_iter().collect());
    let data = Value::map([("Values", Value::Map(values))]);
    templates.execute("t/templates/case.yaml", &data, &mut (), &meter)
}

#[test]
fn recorded_cases_of_the_language() {
    let Some(dir) = corpus() else {
        eprintln!("skipped: no corpus of helm functions");
        return;
    };
    let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
    let listed: Json = everflow_json::from_str(&read("funcmap.json")).unwrap();
    let functions = listed.as_array().unwrap().iter();
    let foreign = Foreign {
        functions: functions
            .map(|f| f["name"].as_str().unwrap().to_owned())
            .collect(),
    };
    let mut files: Vec<String> = std::fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".jsonl"))
        .collect();
    files.sort();
    let (mut passed, mut failures) = (0, Vec::new());
    for file in &files {
        for line in read(file).lines() {
            let case: Json = everflow_json::from_str(line).unwrap();
            match run(&case, &foreign) {
                Outcome::Pass => passed += 1,
                Outcome::Skip => {}
                Outcome::Fail(why) => {
                    failures.push(format!(
                        "{file} {}: {} -> {why}",
                        case["id"], case["template"]
                    ));
                }
            }
        }
    }
    let shown = failures.iter().take(40).cloned().collect::<Vec<_>>();
    assert!(
        failures.is_empty(),
        "{} of {} cases differ:\n{}",
        failures.len(),
        passed + failures.len(),
        shown.join("\n")
    );
    assert!(passed > 2500, "only {passed} cases were found");
    println!("{passed} cases");
}
