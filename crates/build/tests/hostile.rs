//! Sources and specs that are meant to hurt: an error that says what there is too much of, where, and what to
//! do, in bounded memory and time.
#![allow(clippy::unwrap_used)]

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use everflow_api::kustomization::Kustomization;
use everflow_api::object::Object;
use everflow_build::{Built, Error, Keys, Request, build, places};
use everflow_json::{Value, json};
use everflow_kustomize::{Cache, Limits, MemoryView};
use everflow_limits::{Budget, Exceeded, Stop};
use peak_alloc::PeakAlloc;
use proptest::prelude::*;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// How much a build may use here.
const SHARE: usize = 16 << 20;
/// What estimates may be wrong by: texts and lists grow by doubling.
const SLACK: usize = 3;

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n";

/// Memory and time are measured for the whole process: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn object(spec: &Value) -> Object<Kustomization> {
    let mut whole = json!({
        "interval": "10m",
        "prune": true,
        "sourceRef": {"kind": "GitRepository", "name": "src"},
    });
    for (field, value) in spec.as_object().unwrap() {
        whole[field.as_str()] = value.clone();
    }
    Object::read(&json!({"metadata": {"namespace": "team", "name": "app"}, "spec": whole})).unwrap()
}

fn tree(files: &[(&str, String)]) -> MemoryView {
    let files = files.iter();
    files
        .map(|(path, text)| (*path, text.as_bytes().to_vec()))
        .collect()
}

/// Builds with little memory. That it takes much more than it may is a failure.
fn within_share(spec: &Value, files: &MemoryView) -> Result<Built, Error> {
    let object = object(spec);
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let budget = Budget::new(Stop::new(), SHARE as u64);
    let cache = Cache::new(1 << 20);
    let mut keys = Keys::new();
    let key = b"AGE-SECRET-KEY-1ZCRAPNUP0GEU4YN7UNE4YUYQEKHC8KPTU59QK95X3MPEUHT62SEQMNZY63";
    keys.add("age.agekey", key).unwrap();
    let mut request = Request::new(&object, files, &budget);
    request.cache = Some(&cache);
    request.keys = &keys;
    let result = build(&request);
    let peak = MEMORY.peak_usage().saturating_sub(before);
    assert!(
        peak <= SLACK * SHARE,
        "{} MB, {:?}",
        peak >> 20,
        result.map(|built| built.size)
    );
    result
}

#[track_caller]
fn outgrows(spec: &Value, files: &[(&str, String)], message: &str) {
    let error = within_share(spec, &tree(files)).unwrap_err();
    let limit = SHARE as u64;
    let text = error.to_string();
    assert_eq!(
        error.exceeded(),
        Some(&Exceeded::Memory { limit }),
        "{text}"
    );
    assert!(text.starts_with(message), "{text}");
    assert!(
        text.ends_with("make it smaller, or raise --max-work-memory"),
        "{text}"
    );
    assert!(!text.contains("everflow-source"), "{text}");
    assert_eq!(error.reason(), "BuildFailed");
}

#[test]
fn variables_that_make_objects_large_are_refused() {
    let _alone = alone();
    let long = "x".repeat(900_000);
    for text in [
        "${a}".repeat(20_000),
        format!("${{a//x/{}}}", "y".repeat(100_000)),
        "${a//x/${a//x/yyyyyyyy}}".to_owned(),
    ] {
        outgrows(
            &json!({"postBuild": {"substitute": {"a": long}}}),
            &[("/map.yaml", format!("{MAP}data: {{k: \"{text}\"}}\n"))],
            "post build failed: ConfigMap.v1.[noGrp]/settings: ",
        );
    }
    let fits = json!({"postBuild": {"substitute": {"a": "b"}}});
    let files = tree(&[("/map.yaml", format!("{MAP}data: {{k: \"${{a}}\"}}\n"))]);
    assert_eq!(
        within_share(&fits, &files).unwrap().contents.objects()[0]["data"]["k"],
        "b"
    );
}

#[test]
fn kustomizations_that_grow_are_refused_with_their_file() {
    let _alone = alone();
    let double = "{source: {kind: ConfigMap, fieldPath: data.k}, targets: [{select: {kind: ConfigMap}, fieldPaths: [data.k], options: {delimiter: '-', index: 99}}]}";
    outgrows(
        &json!({"path": "apps"}),
        &[
            (
                "/apps/kustomization.yaml",
                format!(
                    "resources: [map.yaml]\nreplacements: [{}]\n",
                    vec![double; 40].join(", ")
                ),
            ),
            ("/apps/map.yaml", format!("{MAP}data: {{k: abc}}\n")),
        ],
        "kustomize build failed: apps/kustomization.yaml: replacement of data.k in ConfigMap",
    );
    outgrows(
        &json!({"path": "apps"}),
        &[(
            "/apps/map.yaml",
            format!("{MAP}data: [{}]\n", vec!["1"; 300_000].join(",")),
        )],
        "failed to generate kustomization.yaml: apps/map.yaml: ",
    );
}

#[test]
fn a_long_field_path_is_refused_with_its_file() {
    let _alone = alone();
    let path = vec!["b"; 20_000].join(".");
    let file = format!(
        "resources: [map.yaml]\nreplacements: [{{source: {{kind: ConfigMap}}, targets: [{{select: {{kind: ConfigMap}}, fieldPaths: [{path}], options: {{create: true}}}}]}}]\n"
    );
    let files = tree(&[("/kustomization.yaml", file), ("/map.yaml", MAP.to_owned())]);
    let error = within_share(&json!({}), &files).unwrap_err();
    assert!(matches!(
        error.exceeded(),
        Some(Exceeded::Depth { limit: 1_000, .. })
    ));
    let text = error.to_string();
    assert!(
        text.contains("kustomization.yaml: Kustomization.replacements.targets.fieldPaths"),
        "{text}"
    );
}

#[test]
fn metadata_for_many_objects_is_refused() {
    let _alone = alone();
    let maps: String = (0..1_000)
        .map(|number| format!("---\n{MAP}").replace("settings", &format!("m{number}")))
        .collect();
    outgrows(
        &json!({"commonMetadata": {"annotations": {"a": "x".repeat(100_000)}}}),
        &[("/maps.yaml", maps)],
        "kustomize build failed: .: ",
    );
}

#[test]
fn objects_and_files_are_counted() {
    let _alone = alone();
    let items = ["{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}"; 11].join(", ");
    let files = [
        (
            "/set.yaml",
            format!("apiVersion: a/v1\nkind: Set\nmetadata: {{name: set}}\nitems: [{items}]\n"),
        ),
        ("/d/map.yaml", MAP.to_owned()),
    ];
    let files = tree(&files);
    let object = object(&json!({}));
    let with = |limits: Limits| {
        let budget = Budget::unlimited();
        let mut request = Request::new(&object, &files, &budget);
        request.limits = limits;
        build(&request)
            .map(|built| built.contents.objects().len())
            .map_err(|error| error.to_string())
    };
    let fits = Limits {
        objects: 12,
        files: 10,
    };
    assert_eq!(with(fits), Ok(12));
    let error = with(Limits {
        objects: 11,
        ..fits
    })
    .unwrap_err();
    assert!(
        error.contains(
            "more than 11 objects in one build: make it smaller, or raise --max-build-objects"
        ),
        "{error}"
    );
    let error = with(Limits { files: 2, ..fits }).unwrap_err();
    assert!(
        error.starts_with("failed to generate kustomization.yaml: set.yaml: more than 2 files"),
        "{error}"
    );
    assert!(error.ends_with("raise --max-build-files"), "{error}");
}

#[test]
fn places_are_not_looked_for_when_the_budget_is_used_up() {
    let _alone = alone();
    let files = tree(&[("/map.yaml", MAP.to_owned())]);
    let object = object(&json!({}));
    let wanted = [(
        "v1".to_owned(),
        "ConfigMap".to_owned(),
        "settings".to_owned(),
    )];
    let budget = Budget::unlimited();
    let found = places(&Request::new(&object, &files, &budget), &wanted);
    assert!(found[0].is_some());
    let stop = Stop::new();
    stop.raise();
    let budget = Budget::new(stop, u64::MAX);
    assert_eq!(
        places(&Request::new(&object, &files, &budget), &wanted),
        [None]
    );
}

#[test]
fn a_raised_flag_ends_a_build() {
    let _alone = alone();
    // As many rounds as there are variables, each over all of the text.
    let text: String = (0..20_000)
        .map(|number| format!("${{v{number}}}"))
        .collect();
    let files = tree(&[("/map.yaml", format!("{MAP}data: {{k: \"{text}\"}}\n"))]);
    let object = object(&json!({"postBuild": {"substitute": {"a": "b"}}}));
    let stop = Stop::new();
    let budget = Budget::new(stop.clone(), u64::MAX);
    let mut request = Request::new(&object, &files, &budget);
    request.placeholders = true;
    let timer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        stop.raise();
        Instant::now()
    });
    let error = build(&request).unwrap_err();
    let took = timer.join().unwrap().elapsed();
    assert_eq!(error.exceeded(), Some(&Exceeded::Stopped), "{error}");
    assert!(took < Duration::from_secs(1), "{took:?}");
}

fn line() -> impl Strategy<Value = String> {
    let lines = vec![
        "resources: [map.yaml]",
        "resources: [.]",
        "namePrefix: ${a}",
        "data: {k: '${a//b/${a}}'}",
        "  k: ${unset:-x}",
        "  k: ${unset}",
        "items: [{}, 1, {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}]",
        "kind: List",
        "kind: Secret",
        "sops: {mac: ENC[x], lastmodified: '2025-01-01T00:00:00Z', age: [{enc: x}]}",
        "data: {k: eyJzb3BzIjogeyJtYWMiOiAiRU5DWyJ9fQ==}",
        "---",
        "&a",
        "*a",
        "\u{0}",
        "[",
        "metadata: null",
        "metadata: {name: a, namespace: b, labels: {x: 1}}",
        "secretGenerator: [{name: s, files: [map.yaml]}]",
        "patches: [{path: map.yaml}]",
        "components: [../c]",
        "buildMetadata: [originAnnotations]",
    ];
    prop::sample::select(lines).prop_map(str::to_owned)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, rng_seed: proptest::test_runner::RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn any_source_builds_or_fails_within_bounds(
        file in prop::collection::vec(line(), 0..6),
        map in prop::collection::vec(line(), 0..6),
        (has_file, times) in (any::<bool>(), prop_oneof![Just(1_usize), 1..500_usize]),
        value in "[b${}]{0,20}",
        decrypts in any::<bool>(),
    ) {
        let _alone = alone();
        let map = format!("{MAP}{}\n", map.join("\n")).repeat(times);
        let mut files = vec![("/map.yaml", map)];
        if has_file {
            files.push(("/kustomization.yaml", file.join("\n")));
        }
        let mut spec = json!({"postBuild": {"substitute": {"a": value}}, "targetNamespace": "n1"});
        if decrypts {
            spec["decryption"] = json!({"provider": "sops"});
        }
        let started = Instant::now();
        let _ = within_share(&spec, &tree(&files));
        prop_assert!(started.elapsed() < Duration::from_secs(10));
    }
}
