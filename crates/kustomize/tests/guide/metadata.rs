//! Origins, transformations, the manager's label, and objects for kustomize alone.

use crate::{MAP, builds};

#[test]
fn origins_say_where_objects_come_from() {
    builds(
        &[
            (
                "kustomization.yaml",
                "buildMetadata: [originAnnotations]\nresources: [../base]\nconfigMapGenerator: [{name: g, literals: [a=b], options: {disableNameSuffixHash: true}}]\n",
            ),
            ("base/kustomization.yaml", "resources: [map.yaml]\n"),
            ("base/map.yaml", MAP),
        ],
        "\
apiVersion: v1
data:
  a: b
kind: ConfigMap
metadata:
  annotations:
    config.kubernetes.io/origin: |
      configuredIn: kustomization.yaml
      configuredBy:
        apiVersion: builtin
        kind: ConfigMapGenerator
  name: g
---
apiVersion: v1
kind: ConfigMap
metadata:
  annotations:
    config.kubernetes.io/origin: |
      path: ../base/map.yaml
  name: settings
",
    );
}

#[test]
fn transformations_are_listed() {
    builds(
        &[
            (
                "kustomization.yaml",
                "buildMetadata: [transformerAnnotations]\nnamePrefix: a-\nresources: [map.yaml]\n",
            ),
            ("map.yaml", MAP),
        ],
        "\
apiVersion: v1
kind: ConfigMap
metadata:
  annotations:
    alpha.config.kubernetes.io/transformations: |
      - configuredIn: kustomization.yaml
        configuredBy:
          apiVersion: builtin
          kind: PrefixTransformer
  name: a-settings
",
    );
}

#[test]
fn the_manager_can_sign() {
    builds(
        &[
            (
                "kustomization.yaml",
                "buildMetadata: [managedByLabel]\nresources: [map.yaml]\n",
            ),
            ("map.yaml", MAP),
        ],
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  labels:\n    app.kubernetes.io/managed-by: kustomize-v5.8.1\n  name: settings\n",
    );
}

#[test]
fn local_config_is_not_printed() {
    builds(
        &[
            ("kustomization.yaml", "resources: [map.yaml]\n"),
            (
                "map.yaml",
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {config.kubernetes.io/local-config: 'true'}}\n",
            ),
        ],
        "",
    );
}
