//! Bases and components.

use crate::{MAP, builds, fails};

const COMPONENT: &str = "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n";

#[test]
fn a_component_changes_what_includes_it() {
    builds(
        &[
            (
                "kustomization.yaml",
                "resources: [map.yaml]\ncomponents: [../extra]\nnamePrefix: dev-\n",
            ),
            ("map.yaml", MAP),
            (
                "extra/kustomization.yaml",
                &format!("{COMPONENT}commonAnnotations: {{extra: 'yes'}}\nnameSuffix: -x\n"),
            ),
        ],
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  annotations:\n    extra: \"yes\"\n  name: dev-settings-x\n",
    );
}

#[test]
fn bases_and_components_are_not_the_same() {
    fails(
        &[
            ("kustomization.yaml", "resources: [../extra]\n"),
            (
                "extra/kustomization.yaml",
                COMPONENT.trim_end().to_owned().leak(),
            ),
        ],
        "couldn't make target for path '/extra': kustomization.yaml is empty",
    );
    fails(
        &[
            ("kustomization.yaml", "resources: [../extra]\n"),
            (
                "extra/kustomization.yaml",
                &format!("{COMPONENT}namePrefix: a\n"),
            ),
        ],
        "expected kind != 'Component' for path '/extra'",
    );
    fails(
        &[
            ("kustomization.yaml", "components: [../extra]\n"),
            ("extra/kustomization.yaml", "namePrefix: a\n"),
        ],
        "expected kind 'Component' for path '/extra' but got 'Kustomization'",
    );
}

#[test]
fn one_base_can_be_included_twice_under_two_names() {
    builds(
        &[
            ("kustomization.yaml", "resources: [../a, ../b]\n"),
            (
                "a/kustomization.yaml",
                "namePrefix: a-\nresources: [../base]\n",
            ),
            (
                "b/kustomization.yaml",
                "namePrefix: b-\nresources: [../base]\n",
            ),
            ("base/kustomization.yaml", "resources: [map.yaml]\n"),
            ("base/map.yaml", MAP),
        ],
        &format!(
            "{}---\n{}",
            MAP.replace("settings", "a-settings"),
            MAP.replace("settings", "b-settings")
        ),
    );
    fails(
        &[
            ("kustomization.yaml", "resources: [../base, map.yaml]\n"),
            ("map.yaml", MAP),
            ("base/kustomization.yaml", "resources: [map.yaml]\n"),
            ("base/map.yaml", MAP),
        ],
        "may not add resource with an already registered id: ConfigMap.v1.[noGrp]/settings.[noNs]",
    );
}
