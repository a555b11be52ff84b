//! `everflow up` on repositories with habits of all kinds, and on broken ones.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use everflow_json::Value;

struct Repository {
    root: PathBuf,
}

impl Repository {
    fn new(name: &str, files: &[(&str, &str)]) -> Self {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("foreign-{name}"));
        let _ = fs::remove_dir_all(&root);
        let repository = Repository { root };
        for (path, text) in files {
            repository.write(path, text);
        }
        repository
    }

    fn write(&self, path: &str, text: &str) {
        let file = self.root.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    fn run(&self, more: &[&str]) -> Output {
        self.run_verb("up", more)
    }

    fn run_verb(&self, verb: &str, more: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_everflow"))
            .args([verb, self.root.to_str().unwrap(), "--offline"])
            .args(match more.contains(&"--timeout") {
                true => &[][..],
                false => &["--timeout", "60s"],
            })
            .args(more)
            .env_remove("SOPS_AGE_KEY_FILE")
            .output()
            .unwrap()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn kustomization(name: &str, path: &str, more: &str) -> String {
    format!(
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: {name}, namespace: flux-system}}\nspec:\n  interval: 1h\n  prune: true\n  wait: true\n  path: ./{path}\n  sourceRef: {{kind: GitRepository, name: home}}\n{more}"
    )
}

const APPS: &str = "apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: elsewhere}
data: {domain: \"app.${DOMAIN}\"}
---
apiVersion: gateway.example.com/v1
kind: GatewayClass
metadata: {name: outer}
---
apiVersion: notification.toolkit.fluxcd.io/v1beta3
kind: Alert
metadata: {name: alerts, namespace: flux-system}
spec: {providerRef: {name: p}, eventSources: [{kind: FluxInstance, name: flux}]}
---
apiVersion: image.toolkit.fluxcd.io/v1beta2
kind: ImagePolicy
metadata: {name: policy, namespace: flux-system}
spec: {imageRepositoryRef: {name: x}}
---
apiVersion: source.toolkit.fluxcd.io/v1beta2
kind: HelmRepository
metadata: {name: charts, namespace: flux-system}
spec: {interval: 1h, url: \"https://charts.example.com\"}
---
apiVersion: helm.toolkit.fluxcd.io/v2beta1
kind: HelmRelease
metadata: {name: web, namespace: flux-system}
spec: {interval: 1h, chart: {spec: {chart: web, sourceRef: {kind: HelmRepository, name: charts}}}}
";

const ENCRYPTED: &str = "apiVersion: v1
kind: Secret
metadata: {name: key, namespace: flux-system}
stringData:
    password: ENC[AES256_GCM,data:bG9uZw==,iv:MTIzNDU2Nzg5MDEyMzQ1Ng==,tag:MTIzNDU2Nzg5MDEyMzQ1Ng==,type:str]
sops:
    age: [{recipient: age1nobody, enc: none}]
    encrypted_regex: ^(data|stringData)$
    mac: none
    version: 3.9.0
";

fn home() -> Repository {
    let variables = "  postBuild: {substituteFrom: [{kind: Secret, name: cluster-secrets}]}\n";
    let decryption = "  decryption: {provider: sops, secretRef: {name: sops-age}}\n";
    let after = "  dependsOn: [{name: apps}]\n";
    Repository::new(
        "home",
        &[
            (
                "k/flux/cluster/apps.yaml",
                &kustomization("apps", "k/apps", variables),
            ),
            (
                "k/flux/cluster/secrets.yaml",
                &kustomization("secrets", "k/secrets", decryption),
            ),
            (
                "k/flux/cluster/after.yaml",
                &kustomization("after", "k/after", after),
            ),
            ("k/apps/apps.yaml", APPS),
            ("k/secrets/secret.sops.yaml", ENCRYPTED),
            (
                "k/after/map.yaml",
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: after, namespace: flux-system}\n",
            ),
            (".archive/old/ks.yaml", &kustomization("old", "old", "")),
        ],
    )
}

#[test]
fn causes_are_named_with_what_to_do() {
    let output = home().run(&[]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for expected in [
        "bringing up k/flux/cluster",
        "substitute from 'Secret/cluster-secrets'",
        "--placeholders",
        "sops-age",
        "⊘ Kustomization/flux-system/after  blocked: waits for Kustomization/flux-system/apps",
        "helm.toolkit.fluxcd.io/v2beta1 HelmRelease: write helm.toolkit.fluxcd.io/v2 (web in k/apps/apps.yaml)",
        "gateway.example.com/v1 GatewayClass: outer in k/apps/apps.yaml",
    ] {
        assert!(said.contains(expected), "{expected}\n{said}");
    }
    let cause = said.rfind("✗ Kustomization/flux-system/apps");
    assert!(
        cause < said.rfind("⊘ Kustomization/flux-system/after"),
        "{said}"
    );
}

#[test]
fn repository_comes_up_with_placeholders_for_missing_parts() {
    let output = home().run(&[
        "--assume-crds",
        "--placeholders",
        "--create-namespaces",
        "-o",
        "json",
    ]);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    let data: Value = everflow_json::from_str(&said).unwrap();
    let state = |group: &str, name: &str| {
        let nodes = data[group].as_array().unwrap();
        let node = nodes.iter().find(|node| node["name"] == name);
        node.map(|node| node["state"].as_str().unwrap().to_owned())
    };
    for name in ["apps", "secrets", "after"] {
        assert_eq!(
            state("kustomizations", name).as_deref(),
            Some("ready"),
            "{said}"
        );
    }
    assert_eq!(
        state("sources", "charts").as_deref(),
        Some("skipped"),
        "{said}"
    );
    assert_eq!(
        state("helmReleases", "web").as_deref(),
        Some("skipped"),
        "{said}"
    );
    assert_eq!(
        state("others", "policy").as_deref(),
        Some("not supported yet"),
        "{said}"
    );
    assert_eq!(data["formerVersions"][0]["kind"], "HelmRelease", "{said}");
}

#[test]
fn variables_without_a_value_are_as_for_the_flux_of_the_repository() {
    let components = |version: &str| {
        format!(
            "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: flux-system\n  labels: {{app.kubernetes.io/part-of: flux, app.kubernetes.io/version: {version}}}\n"
        )
    };
    let root = kustomization("app", "app", "  postBuild: {substitute: {KNOWN: known}}\n")
        .replace("name: home", "name: flux-system");
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: flux-system}\ndata: {a: \"${KNOWN}${UNKNOWN}\"}\n";
    let repository = |name: &str, version: &str| {
        let files = [
            (
                "cluster/flux-system/gotk-components.yaml",
                components(version),
            ),
            ("cluster/app.yaml", root.clone()),
            ("app/map.yaml", map.to_owned()),
        ];
        let files: Vec<(&str, &str)> = files
            .iter()
            .map(|(path, text)| (*path, text.as_str()))
            .collect();
        Repository::new(&format!("variables-{name}"), &files)
    };
    let former = repository("former", "v2.8.8");
    let entry = ["--entry", "cluster"];
    let output = former.run(&entry);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("variables without a value are empty, as for Flux v2.8.8 of cluster/flux-system/gotk-components.yaml"),
        "{said}"
    );
    let strict = [
        "--entry",
        "cluster",
        "--feature-gates",
        "StrictPostBuildSubstitutions=true",
    ];
    let of_today = repository("of-today", "v2.9.4");
    let loose = [
        "--entry",
        "cluster",
        "--feature-gates",
        "StrictPostBuildSubstitutions=false",
    ];
    assert!(of_today.run(&loose).status.success());
    for output in [
        former.run(&strict),
        former.run_verb("test", &entry),
        of_today.run(&entry),
    ] {
        let said = text(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("\"UNKNOWN\" (in app/map.yaml:4)"), "{said}");
    }
}

#[test]
fn failed_pod_creation_is_reported_with_its_cause() {
    let quota = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: few, namespace: default}\nspec: {hard: {pods: \"1\"}}\n";
    let web = "apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: x}]}
";
    let root = kustomization("app", "app", "").replace("name: home", "name: flux-system");
    let files = [
        ("cluster/app.yaml", root.as_str()),
        ("app/quota.yaml", quota),
        ("app/web.yaml", web),
    ];
    let repository = Repository::new("causes", &files);
    let output = repository.run(&["--entry", "cluster", "--timeout", "2s"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let expected = "Deployment/default/web  progressing: Replicas: 1/2; FailedCreate: pods \"web-";
    assert!(said.contains(expected), "{said}");
    assert!(said.contains("exceeded quota: few"), "{said}");
}

/// One Kustomization over one directory.
fn broken(name: &str, files: &[(&str, &str)]) -> String {
    let root = kustomization("app", "app", "").replace("name: home", "name: flux-system");
    let mut all = vec![("cluster/app.yaml", root.as_str())];
    all.extend(files);
    let repository = Repository::new(&format!("broken-{name}"), &all);
    let output = repository.run(&["--entry", "cluster"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    said.rsplit_once("✗ Kustomization/flux-system/app")
        .unwrap()
        .1
        .to_owned()
}

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default}\n";

#[test]
fn bad_input_says_where_and_what() {
    let said = broken("manifest", &[("app/a.yaml", "apiVersion: v1\nkind: [\n")]);
    assert!(said.contains("app/a.yaml"), "{said}");
    let listed = [
        ("app/kustomization.yaml", "resources: [inner]\n"),
        ("app/inner/kustomization.yaml", "resources: [a.yaml]\n"),
        ("app/inner/a.yaml", "apiVersion: v1\nkind: X\n a: [\n"),
    ];
    let said = broken("listed", &listed);
    assert!(
        said.contains("(in app/inner/a.yaml:3); correct the YAML"),
        "{said}"
    );
    let both = "resources: [a.yaml, b.yaml]\n";
    let said = broken(
        "duplicate",
        &[
            ("app/kustomization.yaml", both),
            ("app/a.yaml", MAP),
            ("app/b.yaml", MAP),
        ],
    );
    assert!(
        said.contains("app/a.yaml:1") || said.contains("app/b.yaml:1"),
        "{said}"
    );
    let patch = "resources: [a.yaml]\npatches: [{path: p.yaml}]\n";
    let other = MAP.replace("name: a", "name: nobody");
    let said = broken(
        "patch",
        &[
            ("app/kustomization.yaml", patch),
            ("app/a.yaml", MAP),
            ("app/p.yaml", &other),
        ],
    );
    assert!(
        said.contains("no matches for Id") && said.contains("nobody"),
        "{said}"
    );
    let odd =
        "apiVersion: odd.example.com/v1\nkind: Odd\nmetadata: {name: o, namespace: default}\n";
    let said = broken("kind", &[("app/a.yaml", odd)]);
    assert!(
        said.contains("no matches for kind \"Odd\"") && said.contains("--assume-crds"),
        "{said}"
    );
    let said = broken("secret", &[("app/a.yaml", ENCRYPTED)]);
    assert!(
        said.contains("SOPS encrypted") && said.contains("app/a.yaml:1"),
        "{said}"
    );
}

#[test]
fn a_cycle_is_named() {
    let one = kustomization("one", "app", "  dependsOn: [{name: two}]\n");
    let two = kustomization("two", "app", "  dependsOn: [{name: one}]\n");
    let repository = Repository::new(
        "cycle",
        &[
            ("cluster/one.yaml", &one),
            ("cluster/two.yaml", &two),
            ("app/a.yaml", MAP),
        ],
    );
    let output = repository.run(&[]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("dependsOn goes in a circle"), "{said}");
}

#[test]
fn outcomes_for_other_programs() {
    let repository = Repository::new(
        "formats",
        &[
            ("kustomization.yaml", "resources: [a.yaml]\n"),
            ("a.yaml", MAP),
        ],
    );
    let junit = text(&repository.run(&["-o", "junit"]).stdout);
    assert!(
        junit.starts_with("<?xml") && junit.contains("failures=\"0\""),
        "{junit}"
    );
    let yaml = text(&repository.run(&["-o", "yaml"]).stdout);
    assert!(yaml.contains("ready: true"), "{yaml}");
    let wrong = repository.run(&["--entry", "nowhere"]);
    assert_eq!(wrong.status.code(), Some(2));
    repository.write("a.yaml", &MAP.replace("ConfigMap", "ConfigMop"));
    let failed = repository.run(&["-o", "junit"]);
    assert_eq!(failed.status.code(), Some(1));
    assert!(text(&failed.stdout).contains("<failure type=\"ReconciliationFailed\""));
}
