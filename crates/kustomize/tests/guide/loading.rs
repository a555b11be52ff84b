//! Which files a kustomization may read, and what it says when it may not.

use everflow_kustomize::{LoadRestriction, Options, Plugins, build};
use everflow_limits::Budget;

use crate::{MAP, built_with, fails, view};

#[test]
fn files_outside_of_the_root_are_refused() {
    let files = [
        ("kustomization.yaml", "resources: [../other/map.yaml]\n"),
        ("other/map.yaml", MAP),
    ];
    fails(
        &files,
        "security; file '/other/map.yaml' is not in or below '/app'",
    );
    let options = Options {
        load_restriction: LoadRestriction::None,
        ..Options::default()
    };
    assert_eq!(built_with(&files, &options).as_deref(), Ok(MAP));
}

#[test]
fn links_out_of_the_root_are_refused() {
    let mut view = view(&[
        ("kustomization.yaml", "resources: [map.yaml]\n"),
        ("other/map.yaml", MAP),
    ]);
    view.link("/app/map.yaml", "../other/map.yaml");
    let error = build(
        &view,
        "/app",
        &Options::default(),
        Plugins::default(),
        &Budget::unlimited(),
    )
    .unwrap_err();
    assert_eq!(error.reason(), "RestrictedPath");
    assert!(error.to_string().contains("'/app/map.yaml'"));
}

#[test]
fn bases_may_not_include_themselves() {
    fails(
        &[
            ("kustomization.yaml", "resources: [../base]\n"),
            ("base/kustomization.yaml", "resources: [../app]\n"),
        ],
        "cycle detected: candidate root '/app' contains visited root '/app'",
    );
    fails(
        &[("kustomization.yaml", "resources: [.]\n")],
        "cycle detected: candidate root '/app' contains visited root '/app'",
    );
}

#[test]
fn a_missing_file_is_named() {
    fails(
        &[("kustomization.yaml", "resources: [none.yaml]\n")],
        "evalsymlink failure on '/app/none.yaml' : lstat /app/none.yaml: no such file or directory",
    );
    fails(
        &[("app/other.txt", "")],
        "unable to find one of 'kustomization.yaml', 'kustomization.yml' or 'Kustomization' in directory '/app'",
    );
}

#[test]
fn unknown_fields_and_wrong_types_are_named() {
    fails(
        &[("kustomization.yaml", "nameprefixes: x\n")],
        "invalid Kustomization: json: unknown field \"nameprefixes\"",
    );
    fails(
        &[("kustomization.yaml", "resources: x\n")],
        "cannot unmarshal string into Go struct field Kustomization.resources of type []string",
    );
    fails(
        &[("kustomization.yaml", "apiVersion: v1\nresources: []\n")],
        "apiVersion for Kustomization should be kustomize.config.k8s.io/v1beta1",
    );
}

#[test]
fn lists_and_json_are_resources_too() {
    let list = r#"{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}]}"#;
    crate::builds(
        &[
            ("kustomization.yaml", "resources: [list.json]\n"),
            ("list.json", list),
        ],
        MAP,
    );
}
