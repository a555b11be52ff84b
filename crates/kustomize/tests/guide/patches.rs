//! Patches of both kinds.

use crate::{DEPLOYMENT, MAP, builds, fails};

fn patched(patches: &str, wanted_spec: &str) {
    builds(
        &[
            (
                "kustomization.yaml",
                &format!("resources: [deployment.yaml]\n{patches}"),
            ),
            ("deployment.yaml", DEPLOYMENT),
        ],
        &format!("apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n{wanted_spec}"),
    );
}

#[test]
fn a_strategic_merge_patch_finds_its_target_by_name_and_containers_by_name() {
    patched(
        "\
patches:
- patch: |-
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: web}
    spec: {template: {spec: {containers: [{name: web, args: [-v]}, {name: side, image: s}]}}}
",
        "\
spec:
  template:
    spec:
      containers:
      - args:
        - -v
        image: nginx:1
        name: web
      - image: s
        name: side
",
    );
}

#[test]
fn a_json_patch_needs_a_target() {
    patched(
        "\
patches:
- target: {kind: Deployment}
  patch: |-
    - {op: replace, path: /spec/template/spec/containers/0/image, value: new}
",
        "spec:\n  template:\n    spec:\n      containers:\n      - image: new\n        name: web\n",
    );
    fails(
        &[
            (
                "kustomization.yaml",
                "resources: [map.yaml]\npatches: [{patch: '[{\"op\": \"remove\", \"path\": \"/data\"}]'}]\n",
            ),
            ("map.yaml", MAP),
        ],
        "must specify a target for JSON patch",
    );
}

#[test]
fn targets_are_regular_expressions_over_whole_names() {
    let three = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: ab}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n";
    builds(
        &[
            (
                "kustomization.yaml",
                "resources: [three.yaml]\npatches:\n- target: {name: 'a.?'}\n  patch: '[{\"op\": \"add\", \"path\": \"/data\", \"value\": {\"k\": \"v\"}}]'\n",
            ),
            ("three.yaml", three),
        ],
        "\
apiVersion: v1
data:
  k: v
kind: ConfigMap
metadata:
  name: a
---
apiVersion: v1
data:
  k: v
kind: ConfigMap
metadata:
  name: ab
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: b
",
    );
}

#[test]
fn patches_delete_objects_and_fields() {
    patched(
        "patches:\n- patch: |-\n    apiVersion: apps/v1\n    kind: Deployment\n    metadata: {name: web}\n    spec: {template: null}\n",
        "spec: {}\n",
    );
    builds(
        &[
            (
                "kustomization.yaml",
                "resources: [map.yaml]\npatches:\n- patch: |-\n    apiVersion: v1\n    kind: ConfigMap\n    metadata: {name: settings}\n    $patch: delete\n",
            ),
            ("map.yaml", MAP),
        ],
        "",
    );
}

#[test]
fn a_patch_without_a_target_is_an_error() {
    fails(
        &[
            (
                "kustomization.yaml",
                "resources: [map.yaml]\npatches:\n- patch: |-\n    apiVersion: v1\n    kind: ConfigMap\n    metadata: {name: none}\n",
            ),
            ("map.yaml", MAP),
        ],
        "no resource matches strategic merge patch \"ConfigMap.v1.[noGrp]/none.[noNs]\"",
    );
}

#[test]
fn a_patch_may_rename_only_when_allowed() {
    let patch = |options: &str| {
        format!(
            "resources: [map.yaml]\npatches:\n- target: {{kind: ConfigMap}}\n{options}  patch: |-\n    apiVersion: v1\n    kind: ConfigMap\n    metadata: {{name: renamed}}\n"
        )
    };
    builds(
        &[("kustomization.yaml", &patch("")), ("map.yaml", MAP)],
        MAP,
    );
    builds(
        &[
            (
                "kustomization.yaml",
                &patch("  options: {allowNameChange: true}\n"),
            ),
            ("map.yaml", MAP),
        ],
        &MAP.replace("settings", "renamed"),
    );
}

#[test]
fn a_number_over_a_quoted_value_becomes_a_string() {
    builds(
        &[
            (
                "kustomization.yaml",
                "resources: [w.yaml]\npatches:\n- patch: |-\n    apiVersion: example.com/v1\n    kind: Widget\n    metadata: {name: w}\n    spec: {a: 5, b: 6}\n",
            ),
            (
                "w.yaml",
                "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nspec: {a: \"1\", b: 2}\n",
            ),
        ],
        "apiVersion: example.com/v1\nkind: Widget\nmetadata:\n  name: w\nspec:\n  a: \"5\"\n  b: 6\n",
    );
}

#[test]
fn a_label_set_by_the_base_is_one_value_in_all_places() {
    builds(
        &[
            (
                "base/kustomization.yaml",
                "commonLabels: {app: x}\nresources: [service.yaml]\n",
            ),
            (
                "base/service.yaml",
                "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}]}\n",
            ),
            (
                "kustomization.yaml",
                "resources: [../base]\npatches:\n- patch: |-\n    apiVersion: v1\n    kind: Service\n    metadata: {name: web, labels: {app: y}}\n",
            ),
        ],
        "apiVersion: v1\nkind: Service\nmetadata:\n  labels:\n    app: \"y\"\n  name: web\nspec:\n  ports:\n  - port: 80\n  selector:\n    app: \"y\"\n",
    );
}
