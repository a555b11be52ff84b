//! Every recorded case of the real `kustomize build`: YAML byte for byte, errors by cause.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use everflow_corpus::Outcome;
use everflow_json::Value;
use everflow_kustomize::{
    Limits, LoadRestriction, MemoryView, Options, Plugins, Release, Reorder, build,
};
use everflow_limits::{Budget, Stop};

#[test]
fn recorded_builds() {
    let Some(root) = everflow_corpus::find("kustomize") else {
        return;
    };
    let index: Vec<Value> = read_json(&root.join("index.json"))
        .as_array()
        .cloned()
        .unwrap_or_default();
    assert!(index.len() >= 593);
    let only = std::env::var("CASE").ok();
    let mut outcome = Outcome::default();
    for case in &index {
        let name = case["name"].as_str().unwrap_or_default();
        if only
            .as_ref()
            .is_some_and(|only| !name.contains(only.as_str()))
        {
            continue;
        }
        let release = match case["tool"].as_str() {
            Some("master") => Release::Next,
            _ => Release::V5_8,
        };
        let varies = case["nondeterministic"].is_string();
        let case = Case::load(&root.join("cases").join(name), release, varies);
        outcome.record(name, case.check());
        if let Some(result) = case.check_default_order() {
            outcome.record(format!("{name} (default order)"), result);
        }
    }
    if only.is_none() {
        outcome.assert(include_str!("known_differences.txt"));
    } else {
        outcome.assert("");
    }
}

/// The defaults are far above what anything recorded needs: the largest recording reads 1/500 of the
/// objects and files, and takes a fiftieth of the memory.
#[test]
fn recorded_builds_are_far_below_the_limits() {
    let Some(root) = everflow_corpus::find("kustomize") else {
        return;
    };
    let share = 10 << 20;
    for case in read_json(&root.join("index.json")).as_array().unwrap() {
        let name = case["name"].as_str().unwrap_or_default();
        let case = Case::load(&root.join("cases").join(name), Release::V5_8, false);
        let options = Options {
            limits: Limits {
                objects: Limits::default().objects / 500,
                files: Limits::default().files / 500,
            },
            ..case.options
        };
        let budget = Budget::new(Stop::new(), share);
        let built = build(
            &case.view,
            &case.directory,
            &options,
            Plugins::default(),
            &budget,
        );
        let text = built.and_then(|output| output.to_yaml_within(&budget));
        if let Err(error) = text {
            assert_eq!(error.exceeded(), None, "{name}: {error}");
        }
    }
}

fn read_json(path: &Path) -> Value {
    everflow_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

struct Case {
    view: MemoryView,
    directory: String,
    options: Options,
    want: Result<String, String>,
    want_default_order: Option<String>,
    /// The real tool names one of several objects at random.
    varies: bool,
}

impl Case {
    fn load(path: &Path, release: Release, varies: bool) -> Case {
        let settings = read_json(&path.join("case.json"));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let read = |name: &str| std::fs::read_to_string(path.join(name)).ok();
        let mut view = MemoryView::new();
        add_files(&mut view, &path.join("input"), "");
        Case {
            view,
            directory: format!("/{}", text(&settings["dir"])),
            options: Options {
                load_restriction: match settings["options"]["loadRestrictor"].as_str() {
                    Some("none") => LoadRestriction::None,
                    _ => LoadRestriction::RootOnly,
                },
                reorder: match settings["options"]["reorder"].as_str() {
                    Some("none") => Reorder::None,
                    _ => Reorder::Legacy,
                },
                managed_by_label: settings["options"]["managedByLabel"] == true,
                release,
                enable_helm: false,
                lenient: false,
                without_remote: false,
                limits: Limits::default(),
            },
            want: match read("want.yaml") {
                Some(yaml) => Ok(yaml),
                None => Err(read("want-error.txt").unwrap_or_default()),
            },
            want_default_order: read("want-cli-default.yaml"),
            varies,
        }
    }

    fn build(&self, options: &Options) -> Result<String, String> {
        build(
            &self.view,
            &self.directory,
            options,
            Plugins::default(),
            &Budget::unlimited(),
        )
        .and_then(|output| output.to_yaml())
        .map_err(|error| error.to_string())
    }

    fn check(&self) -> Result<(), String> {
        match (&self.want, self.build(&self.options)) {
            (Ok(want), Ok(got)) => same_text(want, &got),
            (Err(want), Err(got)) => same_cause(want, &got, self.varies),
            (Ok(_), Err(got)) => Err(format!("fails: {got}")),
            (Err(want), Ok(_)) => Err(format!("builds, but wanted: {want}")),
        }
    }

    fn check_default_order(&self) -> Option<Result<(), String>> {
        let want = self.want_default_order.as_ref()?;
        let options = Options {
            reorder: Reorder::Legacy,
            ..self.options.clone()
        };
        Some(match self.build(&options) {
            Ok(got) => same_text(want, &got),
            Err(got) => Err(format!("fails: {got}")),
        })
    }
}

fn add_files(view: &mut MemoryView, directory: &Path, prefix: &str) {
    view.add_directory(&format!("/{prefix}"));
    let Ok(entries) = std::fs::read_dir(directory) else {
        return;
    };
    for entry in entries {
        let entry = entry.unwrap();
        let path = format!("{prefix}/{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            add_files(view, &entry.path(), &path);
        } else {
            view.insert(&path, std::fs::read(entry.path()).unwrap());
        }
    }
}

fn same_text(want: &str, got: &str) -> Result<(), String> {
    if want == got {
        return Ok(());
    }
    let difference = want
        .lines()
        .zip(got.lines())
        .enumerate()
        .find(|(_, (want, got))| want != got);
    Err(match difference {
        Some((line, (want, got))) => {
            format!("line {}: wanted {want:?}, got {got:?}", line + 1)
        }
        None => format!("{} bytes wanted, {} got", want.len(), got.len()),
    })
}

/// The same cause: what stands in quotes in the first line of the real text (files, fields, names)
/// and the last clause of that line are in ours.
fn same_cause(want: &str, got: &str, varies: bool) -> Result<(), String> {
    let first = want.lines().next().unwrap_or_default();
    // Go's pointers and dumps of structs say nothing.
    let first = first.replace("&{0xPTR <nil>}", "");
    let first = match first.find("map[string]interface {}") {
        Some(0) => first.rsplit(": ").next().unwrap_or_default().to_owned(),
        _ => first,
    };
    let clause = first.rsplit(": ").next().unwrap_or_default().trim();
    let mut wanted: Vec<&str> = vec![clause.trim_matches(['"', '\'', '`'])];
    if !varies {
        wanted.extend(first.split('\'').skip(1).step_by(2));
    }
    match wanted.iter().find(|part| !got.contains(**part)) {
        None => Ok(()),
        Some(part) => Err(format!(
            "{part:?} is missing\n  wanted {want}\n  got    {got}"
        )),
    }
}
