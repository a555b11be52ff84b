//! Odd trees in which a comparison with the real kustomize once found a difference.

use crate::{MAP, builds, fails};

#[test]
fn labels_copied_by_a_replacement_are_not_tied_to_the_labels_of_their_source() {
    let two = format!("{MAP}---\n{}", MAP.replace("settings", "other"));
    let text = crate::built(&[
        ("base/kustomization.yaml", "commonLabels: {a: x, b: z}\nresources: [two.yaml]\n"),
        ("base/two.yaml", &two),
        (
            "kustomization.yaml",
            "resources: [../base]\nreplacements:\n- source: {kind: ConfigMap, name: settings, fieldPath: metadata.labels}\n  targets: [{select: {name: other}, fieldPaths: [spec.copy], options: {create: true}}]\npatches:\n- patch: |-\n    apiVersion: v1\n    kind: ConfigMap\n    metadata: {name: other, labels: {a: changed}}\n",
        ),
    ])
    .unwrap();
    assert!(
        text.contains("spec:\n  copy:\n    a: x\n    b: z\n"),
        "{text}"
    );
    assert!(text.contains("    a: changed\n    b: z\n"), "{text}");
}

#[test]
fn looking_for_vars_takes_folded_text_as_it_is() {
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata:\n  key: >\n    folded\n      more\n    text\n";
    let wanted = |gap: &str| {
        format!(
            "apiVersion: v1\ndata:\n  key: |\n    folded\n{gap}      more\n    text\nkind: ConfigMap\nmetadata:\n  name: settings\n"
        )
    };
    builds(
        &[
            ("kustomization.yaml", "resources: [map.yaml]\n"),
            ("map.yaml", map),
        ],
        &wanted("\n"),
    );
    builds(
        &[
            (
                "kustomization.yaml",
                "resources: [map.yaml]\nconfigurations: [config.yaml]\nvars: [{name: V, objref: {apiVersion: v1, kind: ConfigMap, name: settings}}]\n",
            ),
            (
                "config.yaml",
                "varReference: [{kind: ConfigMap, path: data/key}]\n",
            ),
            ("map.yaml", map),
        ],
        &wanted(""),
    );
}

#[test]
fn local_config_that_shares_its_identity_with_another_object_is_a_conflict() {
    fails(
        &[
            (
                "kustomization.yaml",
                "resources: [two.yaml]\npatches:\n- target: {kind: ConfigMap}\n  patch: '[{\"op\": \"replace\", \"path\": \"/metadata/name\", \"value\": \"one\"}]'\n",
            ),
            (
                "two.yaml",
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {config.kubernetes.io/local-config: 'true'}}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n",
            ),
        ],
        "may not add resource with an already registered id: ConfigMap.v1.[noGrp]/one.[noNs]",
    );
}

#[test]
fn fields_cannot_be_created_in_a_map_that_was_left_empty() {
    fails(
        &[
            (
                "kustomization.yaml",
                "resources: [map.yaml]\nreplacements:\n- sourceValue: x\n  targets: [{select: {kind: ConfigMap}, fieldPaths: [metadata.labels.app], options: {create: true}}]\n",
            ),
            (
                "map.yaml",
                "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  labels:\n",
            ),
        ],
        "unable to find or create field \"metadata.labels.app\" in replacement target: wrong node kind: expected MappingNode but got ",
    );
}

#[test]
fn an_image_that_was_changed_takes_the_type_of_the_next_text() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: nginx}]}\n";
    let image = |images: &str| {
        let kustomization = format!(
            "resources: [pod.yaml]\n{images}replacements:\n- sourceValue: '7'\n  targets: [{{select: {{kind: Pod}}, fieldPaths: [spec.containers.0.image]}}]\n"
        );
        let text =
            crate::built(&[("kustomization.yaml", &kustomization), ("pod.yaml", pod)]).unwrap();
        text.lines()
            .find(|line| line.contains("image"))
            .unwrap()
            .trim()
            .to_owned()
    };
    assert_eq!(image(""), "- image: \"7\"");
    assert_eq!(image("images: [{name: nginx, newTag: x}]\n"), "- image: 7");
}

#[test]
fn annotations_are_written_anew_and_lose_their_folds() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\n  annotations:\n    note: >\n      first\n       indented\n";
    builds(
        &[
            ("kustomization.yaml", "resources: [map.yaml]\n"),
            ("map.yaml", text),
        ],
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  annotations:\n    note: |\n      first\n       indented\n  name: settings\n",
    );
}

#[test]
fn paths_of_field_specs_have_no_wildcards_or_indexes() {
    let with_path = |path: &str| {
        let config = format!("varReference: [{{kind: ConfigMap, path: '{path}'}}]\n");
        crate::built(&[
            (
                "kustomization.yaml",
                "resources: [map.yaml]\nconfigurations: [config.yaml]\nvars: [{name: V, objref: {apiVersion: v1, kind: ConfigMap, name: settings}}]\n",
            ),
            ("config.yaml", &config),
            ("map.yaml", &format!("{MAP}data:\n  key: $(V)\n")),
        ])
    };
    let error = |path: &str| with_path(path).unwrap_err();
    assert!(error("data/*").ends_with("fieldName: *: wildcard is not supported in PathGetter"));
    assert!(error("data/-1").ends_with("fieldName: -1: array index -1 cannot be negative"));
    assert!(error("data/0").contains("fieldName: 0: wrong node kind: expected SequenceNode"));
    assert!(error("data/[a=b]").contains("wrong node kind: expected SequenceNode"));
    assert!(with_path("data/ key ").unwrap().contains("key: settings"));
}

#[test]
fn two_local_configs_cannot_come_to_share_an_identity() {
    let two = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {config.kubernetes.io/local-config: 'true'}}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, annotations: {config.kubernetes.io/local-config: 'true'}}\n";
    let rename = "patches:\n- target: {kind: ConfigMap}\n  patch: '[{\"op\": \"replace\", \"path\": \"/metadata/name\", \"value\": \"one\"}]'\n";
    fails(
        &[
            (
                "kustomization.yaml",
                &format!("resources: [two.yaml]\n{rename}"),
            ),
            ("two.yaml", two),
        ],
        "id ConfigMap.v1.[noGrp]/one.[noNs] not found in removal",
    );
}

#[test]
fn copies_of_annotations_show_what_patches_were_allowed_to_do() {
    let text = crate::built(&[
        (
            "kustomization.yaml",
            "resources: [map.yaml]\npatches:\n- patch: '{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, labels: {a: b}}}'\n  options: {allowNameChange: true}\n- target: {kind: ConfigMap}\n  patch: '[{\"op\": \"copy\", \"from\": \"/metadata\", \"path\": \"/copy\"}]'\n",
        ),
        ("map.yaml", MAP),
    ])
    .unwrap();
    assert!(
        text.contains("    internal.config.kubernetes.io/allowNameChange: enabled\n"),
        "{text}"
    );
}

#[test]
fn a_field_spec_of_a_component_can_push_out_the_general_one() {
    let text = crate::built(&[
        (
            "kustomization.yaml",
            "namePrefix: a-\nresources: [map.yaml]\ncomponents: [../component]\n",
        ),
        ("map.yaml", MAP),
        (
            "component/kustomization.yaml",
            "kind: Component\napiVersion: kustomize.config.k8s.io/v1alpha1\nnamePrefix: x-\nconfigurations: [config.yaml]\n",
        ),
        (
            "component/config.yaml",
            "namePrefix: [{path: metadata/name, kind: Widget}]\n",
        ),
    ]);
    assert!(text.unwrap().ends_with("  name: x-settings\n"));
}

#[test]
fn numbers_that_kustomize_wrote_are_text_where_vars_may_stand() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: nginx}]}\n";
    let image = |vars: &str| {
        let kustomization = format!(
            "resources: [pod.yaml]\nimages: [{{name: nginx, newName: '8'}}]\nconfigurations: [config.yaml]\n{vars}"
        );
        let config = "varReference: [{kind: Pod, path: spec/containers/image}]\n";
        let text = crate::built(&[
            ("kustomization.yaml", &kustomization),
            ("config.yaml", config),
            ("pod.yaml", pod),
        ])
        .unwrap();
        let line = text.lines().find(|line| line.contains("image"));
        line.unwrap().trim().to_owned()
    };
    assert_eq!(image(""), "- image: 8");
    assert_eq!(
        image("vars: [{name: V, objref: {kind: Pod, name: p, apiVersion: v1}}]\n"),
        "- image: \"8\""
    );
}

#[test]
fn a_replacement_that_changes_its_own_source_copies_the_change() {
    builds(
        &[
            (
                "kustomization.yaml",
                "resources: [map.yaml]\nreplacements:\n- source: {kind: ConfigMap, name: settings, fieldPath: data}\n  targets:\n  - select: {kind: ConfigMap}\n    fieldPaths: [data.a, copy]\n    options: {create: true}\n",
            ),
            ("map.yaml", &format!("{MAP}data: {{a: x, b: y}}\n")),
        ],
        "apiVersion: v1\ncopy:\n  a: \"\"\n  b: \"y\"\ndata:\n  a: \"\"\n  b: \"y\"\nkind: ConfigMap\nmetadata:\n  name: settings\n",
    );
}
