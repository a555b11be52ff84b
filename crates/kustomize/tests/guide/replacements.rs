//! Replacements and vars.

use crate::{DEPLOYMENT, MAP, builds, fails};

#[test]
fn a_field_is_copied_into_others() {
    builds(
        &[
            (
                "kustomization.yaml",
                "\
resources: [map.yaml, deployment.yaml]
replacements:
- source: {kind: ConfigMap, name: settings}
  targets:
  - select: {kind: Deployment}
    fieldPaths: [spec.template.spec.containers.*.image]
    options: {delimiter: ':', index: 0}
  - select: {kind: Deployment}
    fieldPaths: [metadata.annotations.source]
    options: {create: true}
",
            ),
            ("map.yaml", MAP),
            ("deployment.yaml", DEPLOYMENT),
        ],
        &format!(
            "{MAP}---\n{}",
            DEPLOYMENT.replace("nginx:1", "settings:1").replace(
                "  name: web\nspec",
                "  annotations:\n    source: settings\n  name: web\nspec"
            )
        ),
    );
}

#[test]
fn a_missing_field_is_an_error_unless_it_may_be_created() {
    fails(
        &[
            (
                "kustomization.yaml",
                "resources: [map.yaml]\nreplacements:\n- sourceValue: x\n  targets: [{select: {kind: ConfigMap}, fieldPaths: [data.a]}]\n",
            ),
            ("map.yaml", MAP),
        ],
        "unable to find field \"data.a\" in replacement target",
    );
    fails(
        &[
            (
                "kustomization.yaml",
                "resources: [map.yaml]\nreplacements:\n- source: {kind: Secret}\n  targets: [{select: {kind: ConfigMap}}]\n",
            ),
            ("map.yaml", MAP),
        ],
        "nothing selected by Secret.[noVer].[noGrp]/[noName].[noNs]",
    );
}

#[test]
fn rejected_objects_stay_as_they_are() {
    let two = format!(
        "{MAP}data: {{k: old}}\n---\n{}data: {{k: old}}\n",
        MAP.replace("settings", "other")
    );
    let text = crate::built(&[
        (
            "kustomization.yaml",
            "resources: [two.yaml]\nreplacements:\n- sourceValue: new\n  targets: [{select: {kind: ConfigMap}, reject: [{name: other}], fieldPaths: [data.k]}]\n",
        ),
        ("two.yaml", &two),
    ])
    .unwrap();
    assert_eq!(text.matches("k: new").count(), 1);
    assert_eq!(text.matches("k: old").count(), 1);
}

#[test]
fn values_inside_yaml_text_can_be_set() {
    builds(
        &[
            (
                "kustomization.yaml",
                "resources: [map.yaml]\nreplacements:\n- sourceValue: new\n  targets: [{select: {kind: ConfigMap}, fieldPaths: ['data.conf\\.yaml.server.host']}]\n",
            ),
            (
                "map.yaml",
                &format!(
                    "{MAP}data:\n  conf.yaml: |\n    server:\n      host: old\n      port: 1\n"
                ),
            ),
        ],
        "apiVersion: v1\ndata:\n  conf.yaml: |-\n    server:\n      host: new\n      port: 1\nkind: ConfigMap\nmetadata:\n  name: settings\n",
    );
}

#[test]
fn vars_stand_for_the_final_names() {
    builds(
        &[
            (
                "kustomization.yaml",
                "namePrefix: dev-\nresources: [pod.yaml, service.yaml]\nvars:\n- {name: HOST, objref: {apiVersion: v1, kind: Service, name: db}}\n- {name: PORT, objref: {apiVersion: v1, kind: Service, name: db}, fieldref: {fieldPath: 'spec.ports[0].port'}}\n",
            ),
            (
                "pod.yaml",
                "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: c, args: ['$(HOST):$(PORT)', '$$(HOST)', '$(NONE)']}]}\n",
            ),
            (
                "service.yaml",
                "apiVersion: v1\nkind: Service\nmetadata: {name: db}\nspec: {ports: [{port: 5432}]}\n",
            ),
        ],
        "\
apiVersion: v1
kind: Service
metadata:
  name: dev-db
spec:
  ports:
  - port: 5432
---
apiVersion: v1
kind: Pod
metadata:
  name: dev-web
spec:
  containers:
  - args:
    - dev-db:5432
    - $(HOST)
    - $(NONE)
    name: c
",
    );
}
