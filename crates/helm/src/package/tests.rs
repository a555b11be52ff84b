use everflow_json::json;

use super::*;
use crate::chart::{ChartFile, ChartLimits, load_files};
use crate::values::Warnings;

fn chart(files: &[(&str, &str)]) -> Chart {
    let files = files
        .iter()
        .map(|(name, text)| ChartFile::new(*name, text.as_bytes().to_vec()))
        .collect();
    load_files(files, &mut Warnings::default()).unwrap()
}

fn texts(chart: &Chart) -> Vec<(String, String)> {
    package_files(chart, &Budget::unlimited())
        .unwrap()
        .into_iter()
        .map(|(name, data)| (name, String::from_utf8(data.to_vec()).unwrap()))
        .collect()
}

const PARENT: &str = "# comment\nversion: 1.0.0\nname: app\napiVersion: v2\ndependencies:\n- {name: lib, version: 1.x, repository: 'file://../lib', alias: other}\n- {name: kept, version: 1.x, repository: 'http://x'}\n";

#[test]
fn archives_hold_files_in_helms_order() {
    let chart = chart(&[
        (".helmignore", "x"),
        (
            "Chart.lock",
            "digest: d\ngenerated: \"2026-01-01T00:00:00.10Z\"\ndependencies:\n- name: lib\n  repository: file://../lib\n  version: 1.0.0\n",
        ),
        ("Chart.yaml", PARENT),
        ("charts/kept/Chart.yaml", "name: kept\nversion: 1.0.0\n"),
        ("charts/kept/values.yaml", "a: 1\n"),
        ("templates/a.yaml", "t"),
        ("values.schema.json", "{}"),
        ("values.yaml", "b: 1\n"),
    ]);
    let files = texts(&chart);
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "app/Chart.yaml",
            "app/Chart.lock",
            "app/values.yaml",
            "app/values.schema.json",
            "app/templates/a.yaml",
            "app/.helmignore",
            "app/charts/kept/Chart.yaml",
            "app/charts/kept/values.yaml",
        ]
    );
    assert_eq!(
        files[0].1,
        "apiVersion: v2\ndependencies:\n- alias: other\n  name: lib\n  repository: file://../lib\n  version: 1.x\n- name: kept\n  repository: http://x\n  version: 1.x\nname: app\nversion: 1.0.0\n"
    );
    assert_eq!(
        files[1].1,
        "dependencies:\n- name: lib\n  repository: file://../lib\n  version: 1.0.0\ndigest: d\ngenerated: \"2026-01-01T00:00:00.1Z\"\n"
    );
}

#[test]
fn missing_dependencies_are_those_that_the_lock_names() {
    let files = [("Chart.yaml", PARENT)];
    let unlocked = missing_dependencies(&chart(&files)).unwrap();
    assert_eq!(unlocked.keys().collect::<Vec<_>>(), ["kept", "other"]);
    let locked = chart(&[
        files[0],
        (
            "Chart.lock",
            "dependencies:\n- {name: lib, version: 1.2.3}\n",
        ),
    ]);
    let missing = missing_dependencies(&locked).unwrap();
    assert_eq!(missing["lib"].version, "1.2.3");
    let complete = chart(&[
        files[0],
        ("charts/a/Chart.yaml", "name: a\nversion: 1.0.0\n"),
        ("charts/b/Chart.yaml", "name: b\nversion: 1.0.0\n"),
    ]);
    assert!(missing_dependencies(&complete).unwrap().is_empty());
    let broken = chart(&[files[0], ("Chart.lock", "dependencies: x\n")]);
    assert!(missing_dependencies(&broken).is_err());
}

#[test]
fn values_files_replace_the_default_values() {
    let free = Budget::unlimited();
    let mut chart = chart(&[
        ("Chart.yaml", "name: a\nversion: 1.0.0\n"),
        ("values.yaml", "a: 1\nm: {x: base, z: base}\n"),
    ]);
    let text = |text: &str| ValuesFile::Text(text.as_bytes().into());
    let missing = || ValuesFile::Missing(ValuesFilesError::Missing("c".to_owned()));
    let files = vec![
        ("a".to_owned(), text("a: 1\nm: {x: base, z: base}\n")),
        ("b".to_owned(), text("m: {x: prod}\n")),
        ("c".to_owned(), missing()),
    ];
    assert_eq!(
        merge_values_files(files.clone(), false, &free)
            .unwrap_err()
            .to_string(),
        "no values file found at path 'c'"
    );
    let (merged, used) = merge_values_files(files, true, &free).unwrap();
    assert_eq!(used, ["a", "b"]);
    assert!(overwrite_values(&mut chart, merged.clone(), &free).unwrap());
    assert!(!overwrite_values(&mut chart, merged, &free).unwrap());
    assert_eq!(chart.values["m"], json!({"x": "prod", "z": "base"}));
    assert_eq!(texts(&chart)[1].1, "a: 1\nm:\n  x: prod\n  z: base\n");
    let list = vec![("l".to_owned(), text("- a\n"))];
    assert!(merge_values_files(list, true, &free).unwrap_err().to_string().starts_with(
        "unmarshaling values from 'l' failed: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array"
    ));
}

#[test]
fn metadata_is_checked_and_versions_get_build_metadata() {
    let free = Budget::unlimited();
    let error = |text: &str| {
        metadata_of_files(text.as_bytes(), None, &free)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        error("a: [\n"),
        "cannot load 'Chart.yaml': error converting YAML to JSON: yaml: line 1: did not find expected node content"
    );
    assert_eq!(
        error("name: a\nversion: nope\n"),
        "validation: chart.metadata.version \"nope\" is invalid"
    );
    let metadata = metadata_of_files(
        b"name: a\nversion: 1.0.0\n",
        Some(b"dependencies: [{name: b, version: 1.0.0}]\n"),
        &free,
    )
    .unwrap();
    assert_eq!(metadata.dependencies.len(), 1);
    assert_eq!(with_build_metadata("1.0.0+old", "3").unwrap(), "1.0.0+3");
    assert_eq!(
        with_build_metadata("1.0.0", "abc.3").unwrap(),
        "1.0.0+abc.3"
    );
    assert!(with_build_metadata("x", "3").is_err());
    assert!(with_build_metadata("1.0.0", "a b").is_err());
    assert!(metadata_of_archive(b"no archive", ChartLimits::default(), 100, &free).is_err());
}
