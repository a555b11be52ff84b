//! Names, namespaces, labels, annotations, images and replicas.

use crate::{DEPLOYMENT, MAP, builds, fails};

#[test]
fn prefix_and_suffix_go_around_names() {
    builds(
        &[
            (
                "kustomization.yaml",
                "namePrefix: dev-\nnameSuffix: -v1\nresources: [map.yaml]\n",
            ),
            ("map.yaml", MAP),
        ],
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: dev-settings-v1\n",
    );
}

#[test]
fn references_follow_the_names_they_hold() {
    let pod = "\
apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  containers:
  - envFrom:
    - configMapRef:
        name: settings
    - configMapRef:
        name: someone-elses
    name: web
";
    builds(
        &[
            (
                "kustomization.yaml",
                "namePrefix: dev-\nresources: [map.yaml, pod.yaml]\n",
            ),
            ("map.yaml", MAP),
            ("pod.yaml", pod),
        ],
        "\
apiVersion: v1
kind: ConfigMap
metadata:
  name: dev-settings
---
apiVersion: v1
kind: Pod
metadata:
  name: dev-web
spec:
  containers:
  - envFrom:
    - configMapRef:
        name: dev-settings
    - configMapRef:
        name: someone-elses
    name: web
",
    );
}

#[test]
fn the_namespace_goes_everywhere_it_can() {
    let binding = "\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: readers
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects:
- {kind: ServiceAccount, name: default, namespace: old}
- {kind: ServiceAccount, name: other, namespace: old}
";
    builds(
        &[
            (
                "kustomization.yaml",
                "namespace: shop\nresources: [map.yaml, binding.yaml]\n",
            ),
            ("map.yaml", MAP),
            ("binding.yaml", binding),
        ],
        "\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: readers
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: view
subjects:
- kind: ServiceAccount
  name: default
  namespace: shop
- kind: ServiceAccount
  name: other
  namespace: old
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
  namespace: shop
",
    );
}

#[test]
fn two_objects_cannot_move_to_one_place() {
    let two = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: x}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: y}\n";
    fails(
        &[
            (
                "kustomization.yaml",
                "namespace: shop\nresources: [two.yaml]\n",
            ),
            ("two.yaml", two),
        ],
        "namespace transformation produces ID conflict",
    );
}

#[test]
fn labels_reach_selectors_only_when_asked() {
    let service =
        "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {app: web}}\n";
    builds(
        &[
            (
                "kustomization.yaml",
                "labels: [{pairs: {team: a}}]\nresources: [service.yaml]\n",
            ),
            ("service.yaml", service),
        ],
        "apiVersion: v1\nkind: Service\nmetadata:\n  labels:\n    team: a\n  name: web\nspec:\n  selector:\n    app: web\n",
    );
    builds(
        &[
            (
                "kustomization.yaml",
                "labels: [{pairs: {team: a}, includeSelectors: true}]\nresources: [service.yaml]\n",
            ),
            ("service.yaml", service),
        ],
        "apiVersion: v1\nkind: Service\nmetadata:\n  labels:\n    team: a\n  name: web\nspec:\n  selector:\n    app: web\n    team: a\n",
    );
}

#[test]
fn common_annotations_reach_pod_templates() {
    builds(
        &[
            (
                "kustomization.yaml",
                "commonAnnotations: {note: hi}\nresources: [deployment.yaml]\n",
            ),
            ("deployment.yaml", DEPLOYMENT),
        ],
        "\
apiVersion: apps/v1
kind: Deployment
metadata:
  annotations:
    note: hi
  name: web
spec:
  template:
    metadata:
      annotations:
        note: hi
    spec:
      containers:
      - image: nginx:1
        name: web
",
    );
}

#[test]
fn images_and_replicas_are_set_by_name() {
    builds(
        &[
            (
                "kustomization.yaml",
                "images: [{name: nginx, newName: mirror/nginx, newTag: '2'}]\nreplicas: [{name: web, count: 3}]\nresources: [deployment.yaml]\n",
            ),
            ("deployment.yaml", DEPLOYMENT),
        ],
        "\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 3
  template:
    spec:
      containers:
      - image: mirror/nginx:2
        name: web
",
    );
    fails(
        &[
            (
                "kustomization.yaml",
                "replicas: [{name: none, count: 3}]\nresources: [map.yaml]\n",
            ),
            ("map.yaml", MAP),
        ],
        "resource with name none does not match a config with the following GVK",
    );
}

#[test]
fn configurations_add_fields() {
    let widget =
        "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nspec: {source: settings}\n";
    let config = "nameReference:\n- kind: ConfigMap\n  version: v1\n  fieldSpecs:\n  - {kind: Widget, path: spec/source}\n";
    builds(
        &[
            (
                "kustomization.yaml",
                "namePrefix: a-\nconfigurations: [config.yaml]\nresources: [map.yaml, widget.yaml]\n",
            ),
            ("config.yaml", config),
            ("map.yaml", MAP),
            ("widget.yaml", widget),
        ],
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a-settings\n---\napiVersion: example.com/v1\nkind: Widget\nmetadata:\n  name: a-w\nspec:\n  source: a-settings\n",
    );
}

#[test]
fn the_default_order_puts_namespaces_first() {
    let three = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: n}\n";
    let kinds = |order: &str| {
        let files = [
            (
                "kustomization.yaml",
                format!("{order}resources: [three.yaml]\n"),
            ),
            ("three.yaml", three.to_owned()),
        ];
        let files: Vec<(&str, &str)> = files.iter().map(|(p, t)| (*p, t.as_str())).collect();
        let text = crate::built(&files).unwrap();
        let kinds: Vec<String> = text
            .lines()
            .filter_map(|line| line.strip_prefix("kind: "))
            .map(str::to_owned)
            .collect();
        kinds.join(" ")
    };
    assert_eq!(kinds(""), "Namespace ConfigMap Service");
    assert_eq!(
        kinds("sortOptions: {order: fifo}\n"),
        "Service ConfigMap Namespace"
    );
}
