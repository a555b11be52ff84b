//! Random objects.

use crate::random::Random;

pub const NAMES: [&str; 8] = ["web", "api", "db", "cache", "web-2", "Job.x", "front", "w"];
pub const NAMESPACES: [&str; 4] = ["", "default", "shop", "ops"];
const IMAGES: [&str; 6] = [
    "nginx",
    "nginx:1.7.9",
    "registry:5000/team/app:v1",
    "app@sha256:24a0c4b4a4c0eb97a1aabb8e29f18e917d05abfe1b7a7c07857230879ce7d3d3",
    "redis:6@sha256:abc",
    "team/app",
];
pub const KINDS: [&str; 22] = [
    "Deployment",
    "StatefulSet",
    "DaemonSet",
    "Job",
    "CronJob",
    "Pod",
    "Service",
    "ConfigMap",
    "Secret",
    "ServiceAccount",
    "Role",
    "ClusterRole",
    "RoleBinding",
    "ClusterRoleBinding",
    "Ingress",
    "PersistentVolumeClaim",
    "HorizontalPodAutoscaler",
    "Namespace",
    "CustomResourceDefinition",
    "Widget",
    "NetworkPolicy",
    "PodDisruptionBudget",
];

pub fn api_version(kind: &str) -> &'static str {
    match kind {
        "Deployment" | "StatefulSet" | "DaemonSet" => "apps/v1",
        "Job" | "CronJob" => "batch/v1",
        "Role" | "ClusterRole" | "RoleBinding" | "ClusterRoleBinding" => {
            "rbac.authorization.k8s.io/v1"
        }
        "Ingress" | "NetworkPolicy" => "networking.k8s.io/v1",
        "HorizontalPodAutoscaler" => "autoscaling/v2",
        "CustomResourceDefinition" => "apiextensions.k8s.io/v1",
        "Widget" => "example.com/v1",
        "PodDisruptionBudget" => "policy/v1",
        _ => "v1",
    }
}

/// An object as YAML text.
pub fn object(r: &mut Random, kind: &str, name: &str, namespace: &str) -> String {
    let mut out = format!("apiVersion: {}\nkind: {kind}\n", api_version(kind));
    out.push_str("metadata:\n");
    out.push_str(&match r.below(6) {
        0 => format!("  name: \"{name}\"\n"),
        1 => format!("  name: '{name}'\n"),
        _ => format!("  name: {name}\n"),
    });
    if !namespace.is_empty() {
        out.push_str(&format!("  namespace: {namespace}\n"));
    }
    match r.below(8) {
        0 => out.push_str("  labels:\n    app: web\n    tier: \"1\"\n"),
        1 => out.push_str("  labels: {app: api, owner: null}\n"),
        2 => out.push_str("  labels: {}\n"),
        3 => out.push_str("  labels:\n"),
        4 => out.push_str("  labels:\n    team: a\n"),
        _ => {}
    }
    match r.below(10) {
        0 => out.push_str("  annotations:\n    note: |\n      two\n      lines\n"),
        1 => out.push_str("  annotations: {number: 5, flag: true}\n"),
        2 => out.push_str("  annotations:\n    note: hello\n"),
        3 => out.push_str("  annotations: {}\n"),
        4 => out.push_str("  annotations:\n    config.kubernetes.io/local-config: \"true\"\n"),
        _ => {}
    }
    out.push_str(&body(r, kind));
    out
}

fn body(r: &mut Random, kind: &str) -> String {
    match kind {
        "Deployment" | "StatefulSet" | "DaemonSet" => workload(r, kind),
        "Job" => format!("spec:\n  template:\n{}", indent(&pod_template(r), 4)),
        "CronJob" => format!(
            "spec:\n  schedule: \"0 * * * *\"\n  jobTemplate:\n    spec:\n      template:\n{}",
            indent(&pod_template(r), 8)
        ),
        "Pod" => format!("spec:\n{}", indent(&pod_spec(r), 2)),
        "Service" => service(r),
        "ConfigMap" => config_map(r),
        "Secret" => "type: Opaque\ndata:\n  password: cGFzcw==\n".to_owned(),
        "Role" | "ClusterRole" => format!(
            "rules:\n- apiGroups: [\"\"]\n  resources: [configmaps]\n  resourceNames: [{}, {}]\n  verbs: [get]\n",
            r.pick(&NAMES),
            r.pick(&NAMES)
        ),
        "RoleBinding" | "ClusterRoleBinding" => binding(r, kind),
        "Ingress" => format!(
            "spec:\n  tls:\n  - hosts: [a.example.com]\n    secretName: {}\n  rules:\n  - host: a.example.com\n    http:\n      paths:\n      - path: /\n        pathType: Prefix\n        backend:\n          service:\n            name: {}\n            port:\n              number: 80\n",
            r.pick(&NAMES),
            r.pick(&NAMES)
        ),
        "PersistentVolumeClaim" => {
            "spec:\n  accessModes: [ReadWriteOnce]\n  resources:\n    requests:\n      storage: 1Gi\n".to_owned()
        }
        "HorizontalPodAutoscaler" => format!(
            "spec:\n  maxReplicas: 5\n  scaleTargetRef:\n    apiVersion: apps/v1\n    kind: Deployment\n    name: {}\n",
            r.pick(&NAMES)
        ),
        "CustomResourceDefinition" => {
            "spec:\n  group: example.com\n  names:\n    kind: Widget\n    plural: widgets\n  scope: Namespaced\n  versions: []\n".to_owned()
        }
        "Widget" => widget(r),
        "NetworkPolicy" => {
            "spec:\n  podSelector:\n    matchLabels:\n      app: web\n  ingress:\n  - from:\n    - podSelector:\n        matchLabels:\n          app: api\n".to_owned()
        }
        "PodDisruptionBudget" => {
            "spec:\n  minAvailable: 1\n  selector:\n    matchLabels:\n      app: web\n".to_owned()
        }
        _ => String::new(),
    }
}

fn workload(r: &mut Random, kind: &str) -> String {
    let mut out = String::from("spec:\n");
    if kind != "DaemonSet" && !r.one_in(4) {
        out.push_str(&format!("  replicas: {}\n", r.below(5)));
    }
    if !r.one_in(5) {
        out.push_str("  selector:\n    matchLabels:\n      app: web\n");
    }
    if kind == "StatefulSet" {
        out.push_str(&format!("  serviceName: {}\n", r.pick(&NAMES)));
    }
    out.push_str("  template:\n");
    out.push_str(&indent(&pod_template(r), 4));
    out
}

fn pod_template(r: &mut Random) -> String {
    let mut out = String::new();
    match r.below(4) {
        0 => out.push_str("metadata:\n  labels:\n    app: web\n"),
        1 => out.push_str("metadata:\n  annotations:\n    note: x\n"),
        _ => {}
    }
    out.push_str("spec:\n");
    out.push_str(&indent(&pod_spec(r), 2));
    out
}

fn pod_spec(r: &mut Random) -> String {
    let mut out = String::new();
    if r.one_in(3) {
        out.push_str(&format!("serviceAccountName: {}\n", r.pick(&NAMES)));
    }
    if r.one_in(6) {
        out.push_str("nodeSelector:\n");
    }
    if r.one_in(6) {
        out.push_str("tolerations: null\n");
    }
    out.push_str("containers:\n");
    for number in 0..1 + r.below(3) {
        out.push_str(&container(r, number));
    }
    if r.one_in(4) {
        out.push_str("initContainers:\n");
        out.push_str(&container(r, 9));
    }
    if r.one_in(2) {
        out.push_str("volumes:\n");
        for number in 0..1 + r.below(3) {
            let name = r.pick(&NAMES);
            out.push_str(&match r.below(4) {
                0 => format!("- name: v{number}\n  configMap:\n    name: {name}\n"),
                1 => format!("- name: v{number}\n  secret:\n    secretName: {name}\n"),
                2 => {
                    format!("- name: v{number}\n  persistentVolumeClaim:\n    claimName: {name}\n")
                }
                _ => format!("- name: v{number}\n  emptyDir: {{}}\n"),
            });
        }
    }
    if r.one_in(6) {
        out.push_str(&format!("imagePullSecrets:\n- name: {}\n", r.pick(&NAMES)));
    }
    out
}

fn container(r: &mut Random, number: usize) -> String {
    let mut out = format!("- name: c{number}\n");
    if !r.one_in(8) {
        out.push_str(&format!("  image: {}\n", r.pick(&IMAGES)));
    }
    match r.below(5) {
        0 => out.push_str("  command: [sh, -c, \"echo $(VAR_A) $(HOSTNAME)\"]\n"),
        1 => out.push_str("  args:\n  - --port=$(VAR_B)\n  - $(VAR_A)\n"),
        2 => out.push_str("  args:\n  - >-\n    folded\n    text\n  - \"8080\"\n"),
        _ => {}
    }
    if r.one_in(2) {
        out.push_str("  env:\n");
        for number in 0..1 + r.below(3) {
            out.push_str(&match r.below(5) {
                0 => format!("  - name: E{number}\n    value: \"{}\"\n", r.below(100)),
                1 => format!("  - name: E{number}\n    value: $(VAR_A)\n"),
                2 => format!(
                    "  - name: E{number}\n    valueFrom:\n      configMapKeyRef:\n        name: {}\n        key: k\n",
                    r.pick(&NAMES)
                ),
                3 => format!(
                    "  - name: E{number}\n    valueFrom:\n      secretKeyRef:\n        name: {}\n        key: k\n",
                    r.pick(&NAMES)
                ),
                _ => format!("  - name: E{number}\n    value: plain\n"),
            });
        }
    }
    if r.one_in(4) {
        out.push_str(&format!(
            "  envFrom:\n  - configMapRef:\n      name: {}\n",
            r.pick(&NAMES)
        ));
    }
    if r.one_in(3) {
        out.push_str("  ports:\n  - containerPort: 80\n");
        match r.below(3) {
            0 => out.push_str("    protocol: TCP\n    name: http\n"),
            1 => out.push_str("    protocol: UDP\n  - containerPort: 80\n    protocol: TCP\n"),
            _ => out.push_str("  - containerPort: 443\n    name: tls\n"),
        }
    }
    if r.one_in(4) {
        out.push_str("  volumeMounts:\n  - name: v0\n    mountPath: /data\n");
    }
    out
}

fn service(r: &mut Random) -> String {
    let mut out = String::from("spec:\n");
    if !r.one_in(4) {
        out.push_str("  selector:\n    app: web\n");
    }
    out.push_str("  ports:\n  - port: 80\n    targetPort: http\n");
    if r.one_in(3) {
        out.push_str("    name: http\n    protocol: TCP\n");
    }
    if r.one_in(3) {
        out.push_str("  - port: 443\n    protocol: TCP\n");
    }
    out
}

fn config_map(r: &mut Random) -> String {
    match r.below(8) {
        0 => String::new(),
        1 => "data: {}\n".to_owned(),
        2 => "data:\n".to_owned(),
        3 => "data:\n  key: |\n    line one\n    line two\n".to_owned(),
        4 => "data:\n  config.yaml: |\n    server:\n      port: 80\n      hosts: [a, b]\n  config.json: '{\"a\": {\"b\": 1}}'\n"
            .to_owned(),
        5 => "data:\n  key: >\n    folded\n      more\n    text\n".to_owned(),
        6 => "data:\n  yes: \"no\"\n  date: \"2024-01-01\"\n  empty: \"\"\n".to_owned(),
        _ => format!("data:\n  key: value\n  host: {}.example.com\n", r.pick(&NAMES)),
    }
}

fn binding(r: &mut Random, kind: &str) -> String {
    let role = if kind == "RoleBinding" && r.one_in(2) {
        "Role"
    } else {
        "ClusterRole"
    };
    let mut out = format!(
        "roleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: {role}\n  name: {}\n",
        r.pick(&NAMES)
    );
    if r.one_in(8) {
        return out;
    }
    out.push_str("subjects:\n");
    for _ in 0..1 + r.below(2) {
        let name = if r.one_in(3) {
            "default"
        } else {
            r.pick(&NAMES)
        };
        out.push_str(&format!("- kind: ServiceAccount\n  name: {name}\n"));
        if !r.one_in(3) {
            out.push_str(&format!(
                "  namespace: {}\n",
                r.pick(&["default", "shop", "ops"])
            ));
        }
    }
    out
}

fn widget(r: &mut Random) -> String {
    match r.below(4) {
        0 => "spec:\n  base: &b {x: 1, y: [1, 2]}\n  copy: *b\n  merged:\n    <<: *b\n    x: 2\n".to_owned(),
        1 => format!(
            "spec:\n  items:\n  - name: a\n    value: 1\n  - name: b\n    value: 2.50\n  ref:\n    name: {}\n",
            r.pick(&NAMES)
        ),
        2 => "spec:\n  template:\n    spec:\n      containers:\n      - name: c\n        image: nginx\n  big: 12345678901234567890\n  float: 1e3\n  octal: 0777\n".to_owned(),
        _ => "spec: {empty: {}, none: null, list: [], text: \"multi word text that is rather long so that the emitter has to fold it somewhere near the end\"}\n".to_owned(),
    }
}

pub fn indent(text: &str, by: usize) -> String {
    let pad = " ".repeat(by);
    text.lines().map(|line| format!("{pad}{line}\n")).collect()
}
