//! `everflow build helmrelease` as a user runs it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

#[path = "common/charts.rs"]
mod charts;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use charts::{Repository, packed};

const TEMPLATE: &str = "\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
data:
  color: {{ .Values.color }}
  size: {{ required \"size is missing\" .Values.size | quote }}
";

/// A repository on disk and a cache beside it.
struct Place {
    root: PathBuf,
}

impl Place {
    fn new(name: &str) -> Self {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("build-release-{name}"));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("repository/.git")).unwrap();
        Place { root }
    }

    fn write(&self, file: &str, content: &str) {
        let path = self.root.join("repository").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn release(&self, chart: &str) {
        self.write(
            "apps/base/release.yaml",
            &format!(
                "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: web}}\n\
                 spec:\n  interval: 10m\n  chart:\n    spec: {chart}\n  values: {{color: blue}}\n  \
                 valuesFrom: [{{kind: Secret, name: values}}]\n"
            ),
        );
        self.write(
            "apps/base/kustomization.yaml",
            "resources: [release.yaml]\n",
        );
        self.write(
            "apps/staging/kustomization.yaml",
            "namespace: staging\nresources: [../base, values.yaml]\npatches:\n- target: {kind: HelmRelease}\n  \
             patch: '[{\"op\": \"replace\", \"path\": \"/spec/values/color\", \"value\": \"green\"}]'\n",
        );
        self.values("size: 3");
    }

    fn values(&self, values: &str) {
        self.write(
            "apps/staging/values.yaml",
            &format!(
                "apiVersion: v1\nkind: Secret\nmetadata: {{name: values}}\nstringData:\n  values.yaml: |\n    \
                 {values}\n"
            ),
        );
    }

    fn build(&self, more: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_everflow"))
            .args(["build", "helmrelease", "web", "--timeout", "60s", "--path"])
            .arg(self.root.join("repository/apps/staging"))
            .args(more)
            .env("EVERFLOW_CACHE", self.root.join("cache"))
            .output()
            .unwrap()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const RENDERED: &str = "\
apiVersion: v1
data:
  color: green
  size: \"3\"
kind: ConfigMap
metadata:
  labels:
    helm.toolkit.fluxcd.io/name: web
    helm.toolkit.fluxcd.io/namespace: staging
  name: web
  namespace: staging
---
";

#[test]
fn a_chart_in_the_repository_is_rendered_with_the_values_of_the_overlay() {
    let place = Place::new("local");
    place.release(
        "{chart: ./charts/web, sourceRef: {kind: GitRepository, name: flux-system, namespace: flux-system}}",
    );
    place.write(
        "charts/web/Chart.yaml",
        "apiVersion: v2\nname: web\nversion: 1.0.0\n",
    );
    place.write("charts/web/templates/objects.yaml", TEMPLATE);
    let output = place.build(&["--offline"]);
    assert_eq!(text(&output.stdout), RENDERED, "{}", text(&output.stderr));

    // The message has the file and the line of the chart.
    place.values("other: 3");
    let output = place.build(&["--offline"]);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        message.contains("HelmRelease/staging/web")
            && message.contains("web/templates/objects.yaml:7:")
            && message.contains("size is missing"),
        "{message}"
    );

    // Values are never part of a message.
    place.values("hunter2: [");
    let message = text(&place.build(&["--offline"]).stderr);
    assert!(
        message.contains("Secret chart values reference 'staging/values'")
            && !message.contains("hunter2"),
        "{message}"
    );
}

#[test]
fn a_chart_of_a_repository_is_fetched_once_and_then_taken_from_the_cache() {
    let place = Place::new("remote");
    let served = place.root.join("served");
    packed(&served, "web", &[("1.0.0", TEMPLATE)]);
    let repository = Repository::serve(&served);
    place.release("{chart: web, version: 1.0.0, sourceRef: {kind: HelmRepository, name: charts}}");
    place.write(
        "sources/charts.yaml",
        &format!(
            "apiVersion: source.toolkit.fluxcd.io/v1\nkind: HelmRepository\nmetadata: {{name: charts}}\n\
             spec: {{interval: 1h, url: \"{}\"}}\n",
            repository.url
        ),
    );
    let output = place.build(&["--offline"]);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        message.contains("chart web 1.0.0 of HelmRepository charts is not in the cache"),
        "{message}"
    );
    assert!(repository.asked().is_empty());

    let output = place.build(&[]);
    assert_eq!(text(&output.stdout), RENDERED, "{}", text(&output.stderr));
    assert_eq!(repository.asked(), ["/index.yaml", "/web-1.0.0.tgz"]);

    for more in [&["--offline"][..], &[]] {
        let output = place.build(more);
        assert_eq!(text(&output.stdout), RENDERED, "{}", text(&output.stderr));
        assert!(repository.asked().is_empty());
    }
}

#[test]
fn unknown_release_name_lists_the_known_ones() {
    let place = Place::new("unknown");
    place.release("{chart: web, sourceRef: {kind: HelmRepository, name: charts}}");
    let output = place.build(&["--offline"]);
    let message = text(&output.stderr);
    assert!(
        message.contains("HelmRepository/staging/charts") && message.contains("--with FILE"),
        "{message}"
    );
    let output = place.build(&["--offline", "--namespace", "production"]);
    let message = text(&output.stderr);
    assert!(
        message.contains("there are HelmRelease/staging/web"),
        "{message}"
    );
}
