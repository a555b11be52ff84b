//! A repository that is brought up on this machine talks to no other cluster, and with `--offline` to nobody.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A server that counts who connects.
struct Counter {
    port: u16,
    connections: Arc<AtomicUsize>,
}

impl Counter {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = connections.clone();
        std::thread::spawn(move || {
            // Whoever connects is hung up on.
            while listener.accept().is_ok() {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        Counter { port, connections }
    }

    fn count(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// A repository that was just written.
struct Repository(PathBuf);

impl Repository {
    fn new(name: &str) -> Self {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("isolation-{name}"));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(&root).unwrap();
        Repository(root)
    }

    fn write(&self, path: &str, text: &str) -> PathBuf {
        let file = self.0.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
        file
    }

    fn commit(&self) {
        for arguments in [
            &["init", "-q"][..],
            &["add", "-A"],
            &[
                "-c",
                "user.name=a",
                "-c",
                "user.email=a@b",
                "commit",
                "-qm",
                "a",
            ],
        ] {
            let mut git = Command::new("git");
            git.current_dir(&self.0).args(arguments);
            assert!(git.status().unwrap().success());
        }
    }

    fn run(&self, verb: &str, more: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_everflow"));
        command.args([verb, self.0.to_str().unwrap(), "--timeout", "25s"]);
        command.args(more).output().unwrap()
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

fn kubeconfig_secret(port: u16) -> String {
    format!(
        "apiVersion: v1
kind: Secret
metadata: {{name: prod-kubeconfig, namespace: flux-system}}
stringData:
  value: |
    apiVersion: v1
    kind: Config
    current-context: c
    contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
    clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:{port}'}}}}]
    users: [{{name: u, user: {{token: t}}}}]
"
    )
}

fn kustomization(reference: &str) -> String {
    format!(
        "apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {{name: apps, namespace: flux-system}}
spec:
  interval: 1m
  retryInterval: 5s
  timeout: 10s
  prune: true
  path: ./apps
  kubeConfig: {reference}
  sourceRef: {{kind: GitRepository, name: flux-system}}
"
    )
}

const MAP: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default}\ndata: {a: '1'}\n";
const BY_SECRET: &str = "{secretRef: {name: prod-kubeconfig}}";

#[test]
fn kubeconfig_secret_of_the_repository_is_refused() {
    let cluster = Counter::start();
    let repository = Repository::new("secret");
    repository.write("clusters/x/secret.yaml", &kubeconfig_secret(cluster.port));
    repository.write("clusters/x/apps.yaml", &kustomization(BY_SECRET));
    repository.write("apps/a.yaml", MAP);
    repository.commit();
    let entry = ["--entry", "clusters/x"];
    let verbs: [(&str, &[&str]); 3] =
        [("up", &[]), ("test", &[]), ("diff", &["--against", "HEAD"])];
    for (verb, more) in verbs {
        for network in [&["--offline"][..], &[]] {
            let output = repository.run(verb, &[&entry[..], more, network].concat());
            let said = said(&output);
            assert_eq!(cluster.count(), 0, "{verb} {network:?}: {said}");
            if verb == "diff" {
                continue;
            }
            assert_eq!(output.status.code(), Some(1), "{verb} {network:?}: {said}");
            assert!(
                said.contains("spec.kubeConfig") && said.contains("--with"),
                "{verb} {network:?}: {said}"
            );
        }
    }
}

#[test]
fn kubeconfig_config_map_of_the_repository_is_refused() {
    let cluster = Counter::start();
    let repository = Repository::new("map");
    let map = format!(
        "apiVersion: v1
kind: ConfigMap
metadata: {{name: prod, namespace: flux-system}}
data: {{provider: generic, address: 'http://127.0.0.1:{}', serviceAccountName: default}}
",
        cluster.port
    );
    repository.write("clusters/x/map.yaml", &map);
    let reference = "{configMapRef: {name: prod}}";
    repository.write("clusters/x/apps.yaml", &kustomization(reference));
    repository.write("apps/a.yaml", MAP);
    for network in [&["--offline"][..], &[]] {
        let output = repository.run("up", &[&["--entry", "clusters/x"][..], network].concat());
        let said = said(&output);
        assert_eq!(cluster.count(), 0, "{said}");
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("spec.kubeConfig.secretRef"), "{said}");
    }
}

#[test]
fn kubeconfig_given_by_hand_is_used_unless_offline() {
    let cluster = Counter::start();
    let repository = Repository::new("given");
    repository.write("clusters/x/apps.yaml", &kustomization(BY_SECRET));
    repository.write("apps/a.yaml", MAP);
    let given = Repository::new("given-secret");
    let secret = given.write("secret.yaml", &kubeconfig_secret(cluster.port));
    let with = ["--entry", "clusters/x", "--with", secret.to_str().unwrap()];
    let output = repository.run("up", &[&with[..], &["--offline"]].concat());
    assert_eq!(cluster.count(), 0, "{}", said(&output));
    assert_eq!(output.status.code(), Some(1));
    let output = repository.run("up", &with);
    assert!(cluster.count() > 0, "{}", said(&output));
    // The repository brings another content under the same name: that one does not count.
    let other = Counter::start();
    repository.write("clusters/x/secret.yaml", &kubeconfig_secret(other.port));
    let output = repository.run("up", &with);
    assert_eq!(other.count(), 0, "{}", said(&output));
}

#[test]
fn offline_opens_no_connection() {
    let server = Counter::start();
    let port = server.port;
    let repository = Repository::new("offline");
    let source = |kind: &str, spec: &str| {
        format!(
            "apiVersion: source.toolkit.fluxcd.io/v1
kind: {kind}
metadata: {{name: {}, namespace: flux-system}}
spec: {{interval: 1m, timeout: 5s, {spec}}}
---
",
            kind.to_lowercase()
        )
    };
    let sources = [
        source(
            "GitRepository",
            &format!("url: 'http://127.0.0.1:{port}/a.git'"),
        ),
        source(
            "OCIRepository",
            &format!("url: 'oci://127.0.0.1:{port}/a', insecure: true"),
        ),
        source(
            "HelmRepository",
            &format!("url: 'http://127.0.0.1:{port}/charts'"),
        ),
        source(
            "Bucket",
            &format!("endpoint: '127.0.0.1:{port}', insecure: true, bucketName: b"),
        ),
        source(
            "HelmChart",
            "chart: a, sourceRef: {kind: HelmRepository, name: helmrepository}",
        ),
    ];
    repository.write("clusters/x/sources.yaml", &sources.concat());
    let base = format!("resources: ['http://127.0.0.1:{port}/base.yaml', a.yaml]\n");
    repository.write("clusters/x/more/kustomization.yaml", &base);
    repository.write("clusters/x/more/a.yaml", MAP);
    let output = repository.run("up", &["--entry", "clusters/x", "--offline"]);
    assert_eq!(server.count(), 0, "{}", said(&output));
}

#[test]
fn pipe_in_the_directory_is_left_out() {
    let repository = Repository::new("pipe");
    repository.write("clusters/x/a.yaml", MAP);
    let pipe = repository.0.join("clusters/x/pipe.yaml");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let begun = Instant::now();
    for verb in ["up", "test"] {
        let output = repository.run(verb, &["--entry", "clusters/x", "--offline"]);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(0), "{verb}: {said}");
        assert!(said.contains("clusters/x/pipe.yaml"), "{verb}: {said}");
    }
    assert!(begun.elapsed() < Duration::from_secs(20));
}
