//! The landscape of `examples/sovereign` comes up for each of its clusters, with no cluster and no network.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::process::{Command, Output};

use everflow_json::Value;

const REGIONS: [&str; 2] = ["north", "south"];
const ENVIRONMENTS: [(&str, &str); 2] = [("staging", "1m"), ("production", "10m")];

fn example() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/sovereign")
}

fn everflow(verb: &str, entry: &str, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_everflow"))
        .arg(verb)
        .arg(example())
        .args(["--offline", "--timeout", "60s", "--entry", entry])
        .args(more)
        .output()
        .unwrap()
}

/// What `everflow up` says of a cluster that comes up.
fn brought_up(entry: &str) -> Value {
    let output = everflow("up", entry, &["-o", "json"]);
    let said = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{entry}: {said}\n{complaints}");
    let data: Value = everflow_json::from_str(&said).unwrap();
    assert_eq!(data["ready"], true, "{entry}: {said}");
    data
}

fn names<'a>(data: &'a Value, field: &str) -> Vec<&'a str> {
    let nodes = data[field].as_array().unwrap();
    nodes
        .iter()
        .map(|node| node["name"].as_str().unwrap())
        .collect()
}

/// The rendered manifests of a cluster, all in one text.
fn rendered(entry: &str) -> String {
    let golden = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join("sovereign")
        .join(entry);
    let _ = std::fs::remove_dir_all(&golden);
    let more = ["--golden", golden.to_str().unwrap(), "--update-golden"];
    let output = everflow("test", entry, &more);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    let files = std::fs::read_dir(&golden).unwrap();
    let mut paths: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    let texts = paths
        .iter()
        .map(|path| std::fs::read_to_string(path).unwrap());
    texts.collect()
}

#[test]
fn management_cluster_with_git_server_and_identity_root_comes_up() {
    let data = brought_up("clusters/management");
    let mut found = names(&data, "kustomizations");
    found.sort_unstable();
    assert_eq!(found, ["flux-system", "gitea", "identity"]);
}

#[test]
fn every_region_and_environment_comes_up() {
    for region in REGIONS {
        for (environment, _) in ENVIRONMENTS {
            let data = brought_up(&format!("clusters/{region}/{environment}"));
            let mut found = names(&data, "kustomizations");
            found.sort_unstable();
            let expected = [
                "definitions",
                "flux-system",
                "identity",
                "rollouts",
                "secret-stores",
                "secrets",
                "shop",
            ];
            assert_eq!(found, expected, "{region}/{environment}");
        }
    }
}

#[test]
fn settings_of_region_and_environment_reach_the_manifests() {
    for region in REGIONS {
        for (environment, interval) in ENVIRONMENTS {
            let text = rendered(&format!("clusters/{region}/{environment}"));
            for expected in [
                format!("interval: {interval}\n"),
                format!("host: {environment}.shop.{region}.example.com"),
                format!("server: https://vault.{region}.example.com"),
                format!("registry.{region}.example.com/shop:"),
                format!("trust_domain = \"{region}.example.com\""),
            ] {
                assert!(
                    text.contains(&expected),
                    "{region}/{environment}: {expected}"
                );
            }
            assert!(
                !text.contains("${"),
                "{region}/{environment}: a variable is left"
            );
            let is_south = region == "south";
            assert_eq!(text.contains("name: LOG_SINK"), is_south, "{region}");
        }
    }
}

/// The gates are there for a cluster in which the operators run: stores, pushed secrets and canaries count by their
/// own words.
#[test]
fn stores_pushed_secrets_and_canaries_are_gated_by_expressions() {
    let text = rendered("clusters/north/production");
    let mut gated = Vec::new();
    for document in text.split("\n---\n") {
        let object = everflow_yaml::sigs::yaml_to_json(document.as_bytes()).unwrap();
        if object["kind"] == "Kustomization" {
            let checks = object["spec"]["healthCheckExprs"].as_array();
            let kinds = checks.into_iter().flatten().map(|check| &check["kind"]);
            gated.extend(kinds.map(|kind| kind.as_str().unwrap().to_owned()));
        }
    }
    gated.sort();
    assert_eq!(gated, ["Canary", "ClusterSecretStore", "PushSecret"]);
}
