//! Fields that teach kustomize about kinds it does not know, and old spellings that still work.

use crate::{DEPLOYMENT, MAP, builds, fails};

const WIDGET: &str = "\
apiVersion: example.com/v1
kind: Widget
metadata:
  name: w
spec:
  items:
  - name: a
    value: 1
  source:
    name: settings
";

const WIDGET_PATCH: &str = "\
patches:
- patch: |-
    apiVersion: example.com/v1
    kind: Widget
    metadata:
      name: w
    spec:
      items:
      - name: b
        value: 2
";

#[test]
fn lists_of_unknown_kinds_are_replaced_unless_a_schema_names_their_key() {
    let widget = |items: &str| WIDGET.replace("  - name: a\n    value: 1\n", items);
    let plain = format!("resources: [widget.yaml]\n{WIDGET_PATCH}");
    builds(
        &[("kustomization.yaml", &plain), ("widget.yaml", WIDGET)],
        &widget("  - name: b\n    value: 2\n"),
    );
    let schema = r#"{"definitions": {"v1.Widget": {
        "x-kubernetes-group-version-kind": [{"group": "example.com", "version": "v1", "kind": "Widget"}],
        "properties": {"spec": {"properties": {"items": {
            "type": "array", "x-kubernetes-patch-merge-key": "name", "x-kubernetes-patch-strategy": "merge",
            "items": {"properties": {"name": {"type": "string"}}}}}}}}}}"#;
    let with_schema = format!("openapi: {{path: schema.json}}\n{plain}");
    builds(
        &[
            ("kustomization.yaml", &with_schema),
            ("widget.yaml", WIDGET),
            ("schema.json", schema),
        ],
        &widget("  - name: b\n    value: 2\n  - name: a\n    value: 1\n"),
    );
}

#[test]
fn crds_say_which_fields_hold_names() {
    let crd = r#"{"com.example.v1.Widget": {"Schema": {"properties": {
            "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"$ref": "meta"},
            "spec": {"$ref": "com.example.v1.WidgetSpec"}}}},
        "com.example.v1.WidgetSpec": {"Schema": {"properties": {
            "source": {"x-kubernetes-object-ref-api-version": "v1", "x-kubernetes-object-ref-kind": "ConfigMap"}}}}}"#;
    let text = crate::built(&[
        (
            "kustomization.yaml",
            "namePrefix: a-\ncrds: [crd.json]\nresources: [map.yaml, widget.yaml]\n",
        ),
        ("crd.json", crd),
        ("map.yaml", MAP),
        ("widget.yaml", WIDGET),
    ]);
    assert!(text.unwrap().ends_with("  source:\n    name: a-settings\n"));
}

#[test]
fn templates_and_further_fields_get_labels_when_asked() {
    builds(
        &[
            (
                "kustomization.yaml",
                "labels:\n- pairs: {team: a}\n  includeTemplates: true\n  fields: [{kind: Deployment, path: spec/selector, create: true}]\nresources: [deployment.yaml]\n",
            ),
            ("deployment.yaml", DEPLOYMENT),
        ],
        "\
apiVersion: apps/v1
kind: Deployment
metadata:
  labels:
    team: a
  name: web
spec:
  selector:
    team: a
  template:
    metadata:
      labels:
        team: a
    spec:
      containers:
      - image: nginx:1
        name: web
",
    );
}

#[test]
fn the_order_of_kinds_can_be_chosen() {
    let three = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: n}\n";
    let text = crate::built(&[
        (
            "kustomization.yaml",
            "sortOptions:\n  order: legacy\n  legacySortOptions: {orderFirst: [Service], orderLast: [Namespace]}\nresources: [three.yaml]\n",
        ),
        ("three.yaml", three),
    ])
    .unwrap();
    let kinds: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("kind: "))
        .collect();
    assert_eq!(kinds, ["Service", "ConfigMap", "Namespace"]);
    fails(
        &[
            (
                "kustomization.yaml",
                "sortOptions: {order: random}\nresources: [map.yaml]\n",
            ),
            ("map.yaml", MAP),
        ],
        "the field 'sortOptions.order' must be one of [fifo, legacy]",
    );
}

#[test]
fn old_spellings_still_work() {
    builds(
        &[
            ("base/kustomization.yaml", "resources: [map.yaml]\n"),
            ("base/map.yaml", MAP),
            (
                "kustomization.yaml",
                "bases: [../base]\npatchesStrategicMerge: [patch.yaml]\npatchesJson6902:\n- target: {version: v1, kind: ConfigMap, name: settings}\n  patch: '[{\"op\": \"add\", \"path\": \"/data/b\", \"value\": \"2\"}]'\nconfigMapGenerator:\n- {name: env, env: app.env, options: {disableNameSuffixHash: true}}\n",
            ),
            ("patch.yaml", &format!("{MAP}data: {{a: '1'}}\n")),
            ("app.env", "KEY=value\n"),
        ],
        "\
apiVersion: v1
data:
  KEY: value
kind: ConfigMap
metadata:
  name: env
---
apiVersion: v1
data:
  a: \"1\"
  b: \"2\"
kind: ConfigMap
metadata:
  name: settings
",
    );
}
