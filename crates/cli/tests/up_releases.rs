//! HelmReleases of a repository, brought up, tested and compared with no cluster.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "common/charts.rs"]
mod charts;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use charts::{Repository, packed};
use everflow_json::Value;

const SYNC: &str = "\
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: flux-system, namespace: flux-system}
spec: {interval: 1m, url: \"https://git.example.com/fleet\"}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: flux-system, namespace: flux-system}
spec:
  interval: 10m
  path: ./cluster
  prune: true
  wait: true
  sourceRef: {kind: GitRepository, name: flux-system}
";

/// A chart with a Deployment that sees a random value and the time, a Secret, and a hook.
const TEMPLATE: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}
  annotations:
    checksum: {{ randAlphaNum 12 | sha256sum }}
    rendered: {{ now | unixEpoch | quote }}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: {{ .Release.Name }}}}
  template:
    metadata: {labels: {app: {{ .Release.Name }}}}
    spec:
      containers: [{name: main, image: \"web:{{ .Chart.Version }}\"}]
---
apiVersion: v1
kind: Secret
metadata: {name: {{ .Release.Name }}}
stringData: {token: {{ .Values.token | default \"none\" | quote }}}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .Release.Name }}-migrate
  annotations: {helm.sh/hook: \"pre-install,pre-upgrade\"}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: \"migrate:{{ .Chart.Version }}\"}]
---
apiVersion: v1
kind: Pod
metadata:
  name: {{ .Release.Name }}-warm-up
  annotations: {helm.sh/hook: \"post-install\"}
spec:
  restartPolicy: Never
  containers: [{name: main, image: warm}]
";

/// A repository on disk, and a cache beside it.
struct Place {
    root: PathBuf,
}

impl Place {
    fn new(name: &str) -> Self {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("up-releases-{name}"));
        let _ = fs::remove_dir_all(&root);
        let place = Place { root };
        place.write("cluster/flux-system/gotk-sync.yaml", SYNC);
        place
    }

    fn write(&self, file: &str, content: &str) {
        let path = self.root.join("repository").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// A chart of one template in the repository.
    fn chart(&self, name: &str, version: &str, template: &str) {
        let chart = format!("apiVersion: v2\nname: {name}\nversion: {version}\n");
        self.write(&format!("charts/{name}/Chart.yaml"), &chart);
        self.write(&format!("charts/{name}/values.yaml"), "replicas: 1\n");
        self.write(&format!("charts/{name}/templates/objects.yaml"), template);
    }

    fn release(&self, name: &str, chart: &str, more: &str) {
        self.write(
            &format!("cluster/{name}.yaml"),
            &format!(
                "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: {name}, namespace: \
                 flux-system}}\nspec:\n  interval: 10m\n  chart:\n    spec: {chart}\n{more}"
            ),
        );
    }

    fn own_release(&self, name: &str, chart: &str, more: &str) {
        let chart = format!(
            "{{chart: ./charts/{chart}, sourceRef: {{kind: GitRepository, name: flux-system}}}}"
        );
        self.release(name, &chart, more);
    }

    fn run(&self, verb: &str, more: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_everflow"))
            .arg(verb)
            .arg(self.root.join("repository"))
            .args(["--timeout", "60s"])
            .args(more)
            .env("EVERFLOW_CACHE", self.root.join("cache"))
            .env_remove("SOPS_AGE_KEY_FILE")
            .output()
            .unwrap()
    }

    fn commit(&self) {
        let git = |arguments: &[&str]| {
            let mut git = Command::new("git");
            git.args(["-c", "user.name=Dev", "-c", "user.email=dev@example.com"]);
            git.args(arguments)
                .current_dir(self.root.join("repository"));
            assert!(git.status().unwrap().success());
        };
        git(&["init", "-q"]);
        git(&["add", "-A"]);
        git(&["commit", "-qm", "before"]);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn told(output: &Output) -> String {
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

#[test]
fn releases_with_values_hooks_and_dependencies_come_up_with_their_objects() {
    let place = Place::new("comes-up");
    place.chart("web", "1.0.0", TEMPLATE);
    place.write(
        "cluster/values.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: values, namespace: flux-system}\ndata:\n  values.yaml: \
         |\n    replicas: 3\n",
    );
    place.own_release("db", "web", "");
    place.own_release(
        "web",
        "web",
        "  dependsOn: [{name: db}]\n  valuesFrom: [{kind: ConfigMap, name: values}]\n",
    );
    let output = place.run("up", &["--offline", "-o", "json"]);
    assert!(output.status.success(), "{}", told(&output));
    let data: Value = everflow_json::from_str(&text(&output.stdout)).unwrap();
    let releases = data["helmReleases"].as_array().unwrap();
    let line = |release: &Value| {
        let objects = release["objects"].as_array().unwrap().iter();
        let kinds: Vec<&str> = objects.filter_map(|it| it["kind"].as_str()).collect();
        let word = |field: &str| release[field].as_str().unwrap().to_owned();
        format!("{} {} {}", word("name"), word("state"), kinds.join(","))
    };
    let lines: Vec<String> = releases.iter().map(line).collect();
    assert_eq!(
        lines,
        ["db ready Secret,Deployment", "web ready Secret,Deployment"]
    );
}

#[test]
fn failed_releases_name_chart_file_and_line_but_no_values() {
    let place = Place::new("fails");
    place.chart("web", "1.0.0", TEMPLATE);
    place.chart(
        "broken",
        "1.0.0",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: broken}\ndata:\n  size: {{ required \"size is \
         missing\" .Values.size }}\n",
    );
    place.own_release("broken", "broken", "  values: {password: hunter2}\n");
    place.own_release("web", "web", "  dependsOn: [{name: broken}]\n");
    let output = place.run("up", &["--offline"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stdout);
    let summary = said.split("\n\n").nth(1).unwrap_or_default();
    let cause = summary.find("✗ HelmRelease/flux-system/broken");
    let effect = summary.find("⊘ HelmRelease/flux-system/web");
    assert!(cause.is_some() && cause < effect, "{said}");
    assert!(
        summary.contains("broken/templates/objects.yaml:5:") && summary.contains("size is missing"),
        "{said}"
    );
    assert!(!told(&output).contains("hunter2"), "{}", told(&output));
}

#[test]
fn golden_files_hold_the_objects_and_hooks_of_releases_and_stay_the_same() {
    let place = Place::new("golden");
    place.chart("web", "1.0.0", TEMPLATE);
    place.own_release("web", "web", "  values: {token: hunter2}\n");
    let golden = place.root.join("golden");
    let golden = golden.to_str().unwrap();
    let at = ["--offline", "--golden", golden];
    let written = place.run("test", &[&at[..], &["--update-golden"]].concat());
    assert!(written.status.success(), "{}", told(&written));
    let file = Path::new(golden).join("flux-system.web.helmrelease.yaml");
    let manifests = fs::read_to_string(file).unwrap();
    for expected in ["image: web:1.0.0", "image: migrate:1.0.0", "token: '***'"] {
        assert!(manifests.contains(expected), "{expected}: {manifests}");
    }
    assert!(!manifests.contains("meta.helm.sh"), "{manifests}");
    // Random values and the time are the same in each run.
    let same = place.run("test", &at);
    assert!(same.status.success(), "{}", told(&same));
    place.chart("web", "1.1.0", TEMPLATE);
    let changed = place.run("test", &at);
    assert_eq!(changed.status.code(), Some(1));
    assert!(
        told(&changed).contains("image: web:1.1.0"),
        "{}",
        told(&changed)
    );
}

#[test]
fn a_diff_shows_what_a_chart_bump_and_values_change_and_what_a_removal_deletes() {
    let place = Place::new("diff");
    place.chart("web", "1.0.0", TEMPLATE);
    for name in ["same", "gone", "web"] {
        place.own_release(name, "web", "  values: {replicas: 2}\n");
    }
    place.commit();
    let same = place.run("diff", &["--offline"]);
    assert!(same.status.success(), "{}", told(&same));
    place.own_release("web", "web", "  values: {replicas: 4}\n");
    fs::remove_file(place.root.join("repository/cluster/gone.yaml")).unwrap();
    let changed = place.run("diff", &["--offline"]);
    assert_eq!(changed.status.code(), Some(1));
    let said = text(&changed.stdout);
    let heads: Vec<&str> = said.lines().filter(|it| it.starts_with('►')).collect();
    assert_eq!(
        heads,
        [
            "► Secret/flux-system/gone deleted",
            "► Deployment/flux-system/gone deleted",
            "► HelmRelease/flux-system/gone deleted",
            "► Job/flux-system/gone-migrate deleted",
            "► Pod/flux-system/gone-warm-up deleted",
            "► Deployment/flux-system/web configured",
            "► HelmRelease/flux-system/web configured",
        ],
        "{said}"
    );
    assert!(
        said.contains("-   replicas: 2\n  +   replicas: 4"),
        "{said}"
    );
    // A chart that changes needs a new version to be deployed.
    place.chart(
        "web",
        "1.0.0",
        &TEMPLATE.replace("image: warm", "image: hot"),
    );
    let unbumped = place.run("diff", &["--offline"]);
    assert!(
        text(&unbumped.stderr).contains(
            "⚠ HelmChart/flux-system/flux-system-web has changed and its version 1.0.0 has not"
        ),
        "{}",
        told(&unbumped)
    );
    // The chart is bumped: all that it brings changes.
    place.chart("web", "1.1.0", TEMPLATE);
    let bumped = text(&place.run("diff", &["--offline"]).stdout);
    for expected in ["image: web:1.1.0", "image: migrate:1.1.0"] {
        assert!(bumped.contains(expected), "{expected}: {bumped}");
    }
}

#[test]
fn charts_are_fetched_once_and_what_is_not_in_the_cache_is_skipped_offline() {
    let place = Place::new("remote");
    let served = place.root.join("served");
    packed(&served, "web", &[("1.0.0", TEMPLATE)]);
    let repository = Repository::serve(&served);
    place.write(
        "cluster/charts.yaml",
        &format!(
            "apiVersion: source.toolkit.fluxcd.io/v1\nkind: HelmRepository\nmetadata: {{name: charts, namespace: \
             flux-system}}\nspec: {{interval: 1h, url: \"{}\"}}\n",
            repository.url
        ),
    );
    let chart = "{chart: web, version: 1.0.0, sourceRef: {kind: HelmRepository, name: charts}}";
    place.release("web", chart, "  values: {replicas: 1}\n");
    place.chart("own", "1.0.0", TEMPLATE);
    place.own_release("own", "own", "  dependsOn: [{name: web}]\n");

    let output = place.run("up", &["--offline"]);
    let said = told(&output);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("⊝ HelmRelease/flux-system/web  skipped: --offline"),
        "{said}"
    );
    assert!(
        said.contains("✔ HelmRelease/flux-system/own  ready"),
        "{said}"
    );
    assert!(
        said.contains("✔ Kustomization/flux-system/flux-system  ready"),
        "{said}"
    );
    assert!(
        said.contains("chart web 1.0.0 of HelmRepository charts is not in the cache"),
        "{said}"
    );
    assert!(repository.asked().is_empty());

    let output = place.run("up", &[]);
    assert!(output.status.success(), "{}", told(&output));
    assert_eq!(repository.asked(), ["/index.yaml", "/web-1.0.0.tgz"]);

    let output = place.run("up", &["--offline"]);
    assert!(
        told(&output).contains("✔ HelmRelease/flux-system/web  ready: 1.0.0"),
        "{}",
        told(&output)
    );
    assert!(repository.asked().is_empty());
}

#[test]
fn placeholders_stand_for_values_that_the_repository_does_not_contain() {
    let place = Place::new("placeholders");
    place.chart("web", "1.0.0", TEMPLATE);
    place.own_release(
        "web",
        "web",
        "  valuesFrom:\n  - {kind: Secret, name: keys, valuesKey: token, targetPath: token}\n  - {kind: Secret, name: \
         more}\n",
    );
    let output = place.run("up", &["--offline"]);
    let said = told(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said.contains("Secret chart values reference 'flux-system/keys' with key 'token'")
            && said.contains("--with FILE")
            && said.contains("--placeholders"),
        "{said}"
    );
    let output = place.run("up", &["--offline", "--placeholders"]);
    let said = told(&output);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("placeholders stand for values of Secret keys, which is not there"),
        "{said}"
    );
    let output = place.run("test", &["--offline", "--placeholders"]);
    assert!(output.status.success(), "{}", told(&output));
}

#[test]
fn another_cluster_is_refused_and_receivers_are_accepted() {
    let place = Place::new("other-cluster");
    place.chart("web", "1.0.0", TEMPLATE);
    place.own_release("web", "web", "  kubeConfig: {secretRef: {name: other}}\n");
    place.write(
        "cluster/other.yaml",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: other, namespace: flux-system}\nstringData: {value: \
         none}\n---\napiVersion: notification.toolkit.fluxcd.io/v1\nkind: Receiver\nmetadata: {name: hook, \
         namespace: flux-system}\nspec: {type: github, secretRef: {name: token}, resources: [{kind: \
         GitRepository, name: flux-system}]}\n",
    );
    let output = place.run("up", &["--offline"]);
    let said = told(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said.contains("✔ Receiver/flux-system/hook  ready"),
        "{said}"
    );
    assert!(
        said.contains("✗ HelmRelease/flux-system/web") && said.contains("names another cluster"),
        "{said}"
    );
}
