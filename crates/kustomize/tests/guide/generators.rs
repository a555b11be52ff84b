//! ConfigMaps and Secrets from literals and files.

use crate::{builds, fails};

#[test]
fn generated_names_end_in_a_hash_and_references_follow() {
    builds(
        &[
            (
                "kustomization.yaml",
                "configMapGenerator: [{name: settings, literals: [a=1, 'b=\"two\"']}]\nresources: [pod.yaml]\n",
            ),
            (
                "pod.yaml",
                "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {volumes: [{name: v, configMap: {name: settings}}]}\n",
            ),
        ],
        "\
apiVersion: v1
data:
  a: \"1\"
  b: two
kind: ConfigMap
metadata:
  name: settings-5m9tg7g54f
---
apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  volumes:
  - configMap:
      name: settings-5m9tg7g54f
    name: v
",
    );
}

#[test]
fn files_and_env_files_are_read() {
    builds(
        &[
            (
                "kustomization.yaml",
                "secretGenerator:\n- name: s\n  files: [key=data.txt]\n  envs: [app.env]\n  options: {disableNameSuffixHash: true}\n",
            ),
            ("data.txt", "hello"),
            ("app.env", "# comment\nUSER=admin\n"),
        ],
        "apiVersion: v1\ndata:\n  USER: YWRtaW4=\n  key: aGVsbG8=\nkind: Secret\nmetadata:\n  name: s\ntype: Opaque\n",
    );
}

#[test]
fn overlays_merge_and_replace_what_bases_generate() {
    let overlay = |behavior: &str| {
        let files = [
            (
                "base/kustomization.yaml",
                "generatorOptions: {disableNameSuffixHash: true}\nconfigMapGenerator: [{name: c, literals: [a=1, b=2]}]\n"
                    .to_owned(),
            ),
            (
                "kustomization.yaml",
                format!("resources: [../base]\nconfigMapGenerator: [{{name: c, behavior: {behavior}, literals: [b=3]}}]\n"),
            ),
        ];
        let files: Vec<(&str, &str)> = files.iter().map(|(p, t)| (*p, t.as_str())).collect();
        crate::built(&files).unwrap()
    };
    let wanted = |data: &str| {
        format!("apiVersion: v1\ndata:\n{data}kind: ConfigMap\nmetadata:\n  name: c\n")
    };
    assert_eq!(overlay("merge"), wanted("  a: \"1\"\n  b: \"3\"\n"));
    assert_eq!(overlay("replace"), wanted("  b: \"3\"\n"));
}

#[test]
fn a_generated_object_may_not_be_there_already() {
    fails(
        &[(
            "kustomization.yaml",
            "configMapGenerator: [{name: c, literals: [a=1]}, {name: c, literals: [b=2]}]\n",
        )],
        "behavior must be merge or replace",
    );
    fails(
        &[(
            "kustomization.yaml",
            "configMapGenerator: [{name: c, behavior: merge, literals: [a=1]}]\n",
        )],
        "does not exist; cannot merge or replace",
    );
}

#[test]
fn binary_files_become_binary_data() {
    use everflow_kustomize::{MemoryView, Options, Plugins, build};
    use everflow_limits::Budget;
    let mut view = MemoryView::new();
    view.insert(
        "/app/kustomization.yaml",
        &b"configMapGenerator: [{name: c, files: [x.bin], options: {disableNameSuffixHash: true}}]\n"[..],
    );
    view.insert("/app/x.bin", &[0xff, 0xfe][..]);
    let output = build(
        &view,
        "/app",
        &Options::default(),
        Plugins::default(),
        &Budget::unlimited(),
    )
    .unwrap();
    assert_eq!(
        output.to_yaml().unwrap(),
        "apiVersion: v1\nbinaryData:\n  x.bin: //4=\nkind: ConfigMap\nmetadata:\n  name: c\n"
    );
}
