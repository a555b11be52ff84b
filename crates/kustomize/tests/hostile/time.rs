//! Work that would take for ever: it is counted, and ends when it is told to.

use std::time::{Duration, Instant};

use everflow_kustomize::{Error, Limits, MemoryView, Options, Plugins, build};
use everflow_limits::{Budget, Exceeded, Stop};

use crate::{MAP, alone, built, view};

/// Directories that each include two others, `levels` deep, with objects at the bottom.
fn doubling(levels: usize, objects: &str) -> MemoryView {
    let mut files = MemoryView::new();
    let mut insert = |path: String, text: String| files.insert(&path, text.into_bytes());
    for level in 0..levels {
        for side in ["a", "b"] {
            let next = level + 1;
            let text = match next == levels {
                true => "resources: [objects.yaml]\n".to_owned(),
                false => format!("resources: [../a{next}, ../b{next}]\n"),
            };
            insert(
                format!("/{side}{level}/kustomization.yaml"),
                format!("{text}namePrefix: {side}{level}-\n"),
            );
            insert(format!("/{side}{level}/objects.yaml"), objects.to_owned());
        }
    }
    insert(
        "/app/kustomization.yaml".to_owned(),
        "resources: [../a0, ../b0]\n".to_owned(),
    );
    files
}

fn count_of(error: &Error) -> (u64, &'static str) {
    match error.exceeded() {
        Some(Exceeded::Count { limit, flag, .. }) => (*limit, flag),
        _ => panic!("{error}"),
    }
}

#[test]
fn bases_that_double_are_counted() {
    let _alone = alone();
    let started = Instant::now();
    let error = built(&doubling(30, ""), &Budget::unlimited()).unwrap_err();
    assert_eq!(
        count_of(&error),
        (Limits::default().files, "--max-build-files")
    );
    let text = error.to_string();
    assert!(text.contains("kustomization.yaml: more than"), "{text}");
    assert!(text.len() < 300, "{text}");
    let objects: String = (0..500)
        .map(|number| format!("---\n{MAP}").replace("settings", &format!("m{number}")))
        .collect();
    let error = built(&doubling(10, &objects), &Budget::unlimited()).unwrap_err();
    assert_eq!(
        count_of(&error),
        (Limits::default().objects, "--max-build-objects")
    );
    assert!(
        started.elapsed() < Duration::from_secs(20),
        "{:?}",
        started.elapsed()
    );
}

#[test]
fn limits_are_options() {
    let _alone = alone();
    let files = [
        (
            "kustomization.yaml",
            "resources: [../b/base]\nconfigMapGenerator: [{name: a}, {name: b}]\n",
        ),
        ("b/base/kustomization.yaml", "resources: [m.yaml]\n"),
        ("b/base/m.yaml", MAP),
    ];
    let with = |limits: Limits| {
        let options = Options {
            limits,
            ..Options::default()
        };
        let budget = Budget::unlimited();
        build(&view(&files), "/app", &options, Plugins::default(), &budget)
    };
    let fits = Limits {
        objects: 3,
        files: 4,
    };
    assert_eq!(with(fits).unwrap().objects.len(), 3);
    let error = with(Limits { objects: 2, ..fits }).unwrap_err();
    assert_eq!(count_of(&error), (2, "--max-build-objects"));
    assert!(
        error.to_string().starts_with("/app/kustomization.yaml: "),
        "{error}"
    );
    let error = with(Limits { files: 3, ..fits }).unwrap_err();
    assert_eq!(count_of(&error), (3, "--max-build-files"));
}

/// Builds with a flag that is raised while it runs: it must end soon, and by that.
#[track_caller]
fn ends_when_told(name: &str, files: &MemoryView) {
    let stop = Stop::new();
    let budget = Budget::new(stop.clone(), u64::MAX);
    let timer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        stop.raise();
        Instant::now()
    });
    let options = Options {
        limits: Limits {
            objects: u64::MAX,
            files: u64::MAX,
        },
        ..Options::default()
    };
    let built = build(files, "/app", &options, Plugins::default(), &budget);
    let ended = Instant::now();
    let result = built.and_then(|output| output.to_yaml_within(&budget));
    let raised = timer.join().unwrap();
    let took = ended.saturating_duration_since(raised);
    assert!(took < Duration::from_secs(1), "{name}: {took:?}");
    match result {
        Err(error) => assert_eq!(
            error.exceeded(),
            Some(&Exceeded::Stopped),
            "{name}: {error}"
        ),
        Ok(text) => panic!("{name}: built {} bytes before it was told", text.len()),
    }
}

fn app(kustomization: String, objects: String) -> MemoryView {
    view(&[
        (
            "kustomization.yaml",
            format!("resources: [objects.yaml]\n{kustomization}"),
        ),
        ("objects.yaml", objects),
    ])
}

fn numbered(count: usize, item: impl Fn(usize) -> String) -> String {
    (0..count).map(item).collect::<Vec<_>>().join(", ")
}

#[test]
fn a_raised_flag_ends_builds() {
    let _alone = alone();
    ends_when_told("bases", &doubling(30, ""));
    let many = |count: usize| -> String {
        (0..count)
            .map(|number| format!("---\n{MAP}  namespace: n{number}\n"))
            .collect()
    };
    // Every property refers to every other.
    let properties = numbered(20, |number| format!("p{number}: {{$ref: k{number}}}"));
    let definitions: String = (0..20)
        .map(|number| format!("k{number}: {{schema: {{properties: {{kind: {{}}, apiVersion: {{}}, metadata: {{}}, {properties}}}}}}}\n"))
        .collect();
    ends_when_told(
        "definitions",
        &view(&[
            (
                "kustomization.yaml",
                "resources: [m.yaml]\ncrds: [crds.yaml]\n".to_owned(),
            ),
            ("m.yaml", MAP.to_owned()),
            ("crds.yaml", definitions),
        ]),
    );
    let containers = numbered(20_000, |number| format!("{{name: c{number}}}"));
    let pod = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {{containers: [{containers}]}}\n"
    );
    let patch = pod.replace("name: c", "image: i, name: c");
    ends_when_told(
        "containers",
        &view(&[
            (
                "kustomization.yaml",
                "resources: [o.yaml]\npatches: [{path: p.yaml}]\n".to_owned(),
            ),
            ("o.yaml", pod),
            ("p.yaml", patch),
        ]),
    );
    let keys = numbered(60_000, |number| format!("k{number}: old"));
    let map = format!("{MAP}data: {{{keys}}}\n");
    ends_when_told(
        "keys",
        &view(&[
            (
                "kustomization.yaml",
                "resources: [o.yaml]\npatches: [{path: p.yaml}]\n".to_owned(),
            ),
            ("o.yaml", map.clone()),
            ("p.yaml", map.replace(": old", ": new")),
        ]),
    );
    let specs = numbered(60_000, |number| format!("{{path: f{number}}}"));
    ends_when_told(
        "configurations",
        &view(&[
            (
                "kustomization.yaml",
                "resources: [m.yaml]\nconfigurations: [c.yaml]\n".to_owned(),
            ),
            ("m.yaml", MAP.to_owned()),
            ("c.yaml", format!("namePrefix: [{specs}]\n")),
        ]),
    );
    ends_when_told(
        "labels",
        &app(
            format!(
                "labels: [{}]\n",
                numbered(5_000, |n| format!("{{pairs: {{l{n}: x}}}}"))
            ),
            many(5_000),
        ),
    );
    ends_when_told(
        "replacements",
        &app(
            format!(
                "replacements: [{}]\n",
                numbered(5_000, |n| format!(
                    "{{sourceValue: x{n}, targets: [{{select: {{kind: ConfigMap}}, fieldPaths: [data.k], options: {{create: true}}}}]}}"
                ))
            ),
            many(5_000),
        ),
    );
    ends_when_told(
        "expressions",
        &app(
            format!(
                "patches: [{}]\n",
                numbered(200, |n| format!(
                    "{{target: {{name: '{}.*x{n}'}}, patch: '[{{\"op\": \"remove\", \"path\": \"/data\"}}]'}}",
                    "[ab]*a[ab]{100}"
                ))
            ),
            (0..20_000)
                .map(|n| {
                    format!("---\n{MAP}").replace("settings", &format!("{}{n}", "ab".repeat(100)))
                })
                .collect(),
        ),
    );
    let lists = |levels: usize| {
        let item =
            format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: m}}, data: {{{keys}}}}}");
        format!(
            "{}{item}{}",
            "{apiVersion: v1, kind: XList, items: [".repeat(levels),
            "]}".repeat(levels)
        )
    };
    ends_when_told("lists", &app(String::new(), lists(400)));
    let names = numbered(30_000, |_| "{secretRef: {name: settings}}".to_owned());
    ends_when_told(
        "names",
        &app(
            "namePrefix: x-\n".to_owned(),
            format!(
                "apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {{containers: [{{envFrom: [{names}]}}]}}\n{}",
                (0..5_000)
                    .map(|n| format!(
                        "---\napiVersion: v1\nkind: K{n}\nmetadata: {{name: settings}}\n"
                    ))
                    .collect::<String>()
            ),
        ),
    );
}
