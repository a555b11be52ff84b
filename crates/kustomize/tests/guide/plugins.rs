//! Transformers and generators with configurations of their own.

use crate::{MAP, builds, fails};

#[test]
fn built_in_plugins_have_kinds() {
    builds(
        &[
            (
                "kustomization.yaml",
                "resources: [map.yaml]\ntransformers: [prefix.yaml]\n",
            ),
            (
                "prefix.yaml",
                "apiVersion: builtin\nkind: PrefixTransformer\nmetadata: {name: x}\nprefix: p-\nfieldSpecs: [{path: metadata/name}]\n",
            ),
            ("map.yaml", MAP),
        ],
        &MAP.replace("settings", "p-settings"),
    );
}

#[test]
fn programs_and_containers_are_refused() {
    fails(
        &[(
            "kustomization.yaml",
            "generators:\n- |-\n  apiVersion: example.com/v1\n  kind: Program\n  metadata: {name: x}\n",
        )],
        "external plugins disabled; unable to load external plugin 'Program'",
    );
    fails(
        &[(
            "kustomization.yaml",
            "transformers:\n- |-\n  apiVersion: builtin\n  kind: Unknown\n  metadata: {name: x}\n",
        )],
        "unable to load builtin Unknown.builtin.[noGrp]",
    );
}

#[test]
fn a_validator_may_not_change_anything() {
    let validator = |kind: &str| {
        format!(
            "resources: [map.yaml]\nvalidators:\n- |-\n  apiVersion: builtin\n  kind: LabelTransformer\n  metadata: {{name: x}}\n  labels: {{{kind}: a}}\n  fieldSpecs: [{{path: metadata/labels, create: true}}]\n"
        )
    };
    fails(
        &[
            ("kustomization.yaml", &validator("changed")),
            ("map.yaml", MAP),
        ],
        "validator shouldn't modify the resource map",
    );
}
