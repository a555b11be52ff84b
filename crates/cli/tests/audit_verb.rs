//! `everflow audit` as a person runs it: on manifests, on a cluster and on a repository.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::panic,
    dead_code
)]

#[path = "common/cluster.rs"]
mod cluster;
#[path = "common/delivery.rs"]
mod delivery;
#[path = "../../git/tests/support/mod.rs"]
mod support;

use std::path::Path;
use std::process::{Command, Output};

use cluster::Cluster;
use delivery::{World, write};
use everflow_json::Value;

const SENTENCE: &str =
    "prod-worker-2 carries GitOps and workload identity: if it fails, the fix cannot be delivered";

fn node(name: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Node\nmetadata:\n  name: {name}\n  labels: {{kubernetes.io/hostname: {name}}}\n"
    )
}

fn workload(namespace: &str, name: &str) -> String {
    let container = "{name: main, image: x, resources: {requests: {cpu: 1m}}}";
    format!(
        "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}, namespace: {namespace}}}\nspec:\n  \
         replicas: 1\n  selector: {{matchLabels: {{app: {name}}}}}\n  template:\n    metadata: {{labels: {{app: {name}}}}}\n    \
         spec: {{containers: [{container}]}}\n"
    )
}

fn pod(namespace: &str, name: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}-0, namespace: {namespace}, labels: {{app: {name}}}}}\n\
         spec: {{nodeName: prod-worker-2, containers: [{{name: main, image: x}}]}}\n"
    )
}

/// One worker carries delivery and the identity root.
fn incident() -> String {
    let workloads = [
        ("flux-system", "kustomize-controller"),
        ("spire", "spire-server"),
    ];
    let mut text = node("prod-worker-1") + &node("prod-worker-2");
    for (namespace, name) in workloads {
        text += &(workload(namespace, name) + &pod(namespace, name));
    }
    text
}

fn audit(words: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_everflow");
    Command::new(program)
        .arg("audit")
        .args(words)
        .output()
        .unwrap()
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn data(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    everflow_json::from_str(&printed(output)).unwrap()
}

#[test]
fn manifests_are_judged_in_each_format() {
    let place = tempfile::tempdir().unwrap();
    write(place.path(), "cluster/all.yaml", &incident());
    let (directory, picture) = (place.path().join("cluster"), place.path().join("nodes.svg"));
    let files = ["-f", directory.to_str().unwrap()];
    let with = |more: &[&str]| audit(&[&files[..], more].concat());

    let output = with(&["--exit-code", "--svg", picture.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let text = printed(&output);
    assert!(
        text.contains(&format!("error SharedNode: {SENTENCE}")),
        "{text}"
    );
    assert!(text.contains("podAntiAffinity"), "{text}");
    assert!(text.ends_with("1 error, 2 warnings, 0 notes\n"), "{text}");
    let picture = std::fs::read_to_string(picture).unwrap();
    assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"));
    assert!(picture.contains("prod-worker-1") && picture.contains("spire/spire-server"));

    let findings = data(&with(&["-o", "json"]));
    let first = &findings["findings"][0];
    assert_eq!(
        (&first["rule"], &first["message"]),
        (&"SharedNode".into(), &SENTENCE.into())
    );
    assert_eq!(first["fix"]["proven"], true);
    let fix = first["fix"]["text"].as_str().unwrap();

    let sarif = data(&with(&["-o", "sarif"]));
    assert_eq!(sarif["version"], "2.1.0");
    assert_eq!(sarif["runs"][0]["results"][0]["ruleId"], "SharedNode");

    // What it proposes mends it: the patched object, with its pod placed anew.
    assert!(fix.contains("name: spire-server"), "{fix}");
    let moved = incident().replace(
        "name: spire-server-0, namespace: spire, labels: {app: spire-server}}\nspec: {nodeName: prod-worker-2",
        "name: spire-server-0, namespace: spire, labels: {app: spire-server}}\nspec: {nodeName: prod-worker-1",
    );
    write(place.path(), "cluster/all.yaml", &moved);
    let text = printed(&with(&[]));
    assert!(!text.contains("SharedNode"), "{text}");
}

#[test]
fn unreadable_input_is_reported() {
    for (words, told) in [
        (["-f", "/no/such/file"], "/no/such/file"),
        (["--path", "/no/such/directory"], "/no/such/directory"),
    ] {
        let output = audit(&words);
        assert!(!output.status.success());
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(told), "{text}");
    }
    let place = tempfile::tempdir().unwrap();
    write(place.path(), "bad.yaml", "a: [b\n");
    let output = audit(&["-f", place.path().to_str().unwrap()]);
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("bad.yaml"),
        "{output:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn live_cluster_is_judged() {
    let cluster = Cluster::start("audit", &[]);
    let kubeconfig = cluster.directory.join("kubeconfig");
    let world = World::new(&kubeconfig);
    for namespace in ["flux-system", "spire"] {
        let object = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {namespace}}}\n");
        apply(&world, &object).await;
    }
    // Pods run there, all on its one node.
    let workloads =
        workload("flux-system", "kustomize-controller") + &workload("spire", "spire-server");
    apply(&world, &workloads).await;
    let sentence = SENTENCE.replace("prod-worker-2", "everflow");
    let mut text = String::new();
    for _ in 0..50 {
        let output = audit(&["--kubeconfig", kubeconfig.to_str().unwrap()]);
        assert!(output.status.success(), "{output:?}");
        text = printed(&output);
        if text.contains(&sentence) {
            // There is no other node: no preference helps.
            assert!(text.contains("add a node"), "{text}");
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    panic!("{text}");
}

async fn apply(world: &World, text: &str) {
    for object in everflow_local::tree::read_objects(text).unwrap() {
        world.apply(object).await;
    }
}

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
  sourceRef: {kind: GitRepository, name: flux-system}
";

fn repository(place: &Path) {
    write(place, "cluster/sync.yaml", SYNC);
    let namespaces = "apiVersion: v1\nkind: Namespace\nmetadata: {name: spire}\n";
    write(
        place,
        "cluster/spire.yaml",
        &(namespaces.to_owned() + &workload("spire", "spire-server")),
    );
}

#[test]
fn repository_is_brought_up_and_judged() {
    let place = tempfile::tempdir().unwrap();
    repository(place.path());
    let findings = data(&audit(&[
        "--path",
        place.path().to_str().unwrap(),
        "--offline",
        "-o",
        "json",
    ]));
    let all = findings["findings"].as_array().unwrap();
    let single = all.iter().find(|found| found["rule"] == "SingleReplica");
    let single = single.unwrap_or_else(|| panic!("{findings}"));
    assert_eq!(single["subjects"][0], "Deployment/spire/spire-server");
}
