//! The program as a user runs it.

#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

fn everflow(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_everflow"))
        .args(args)
        .output()
        .unwrap()
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

#[test]
fn help_names_the_verbs_and_ends_with_0() {
    let output = everflow(&["--help"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).contains("version"), "{}", stdout(&output));
}

#[test]
fn version_prints_text_json_and_yaml() {
    let version = env!("CARGO_PKG_VERSION");
    let text = everflow(&["version"]);
    assert_eq!(text.status.code(), Some(0));
    assert!(stdout(&text).starts_with(&format!("everflow v{version}")));

    let json: everflow_json::Value =
        everflow_json::from_slice(&everflow(&["version", "-o", "json"]).stdout).unwrap();
    assert_eq!(json["everflow"], format!("v{version}"));

    let yaml = everflow(&["version", "-o", "yaml"]);
    assert!(stdout(&yaml).starts_with(&format!("everflow: v{version}\n")));
}

#[test]
fn usage_ends_as_with_flux() {
    // Nothing asked for is answered by the help.
    let none = everflow(&[]);
    assert_eq!(none.status.code(), Some(0));
    assert!(stdout(&none).contains("reconcile"));

    let output = everflow(&["no-such-verb"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("unknown command"));
    let output = everflow(&["recncile"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("Did you mean this?\n\treconcile"));

    assert_eq!(everflow(&["version", "-o", "xml"]).status.code(), Some(1));
    assert_eq!(everflow(&["up", "--no-such-flag"]).status.code(), Some(2));
}

#[test]
fn run_reads_the_kubeconfig_of_the_environment() {
    let place = tempfile::tempdir().unwrap();
    let run = |kubeconfig: &std::path::Path, more: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_everflow"))
            .args(["run", "--storage-path"])
            .arg(place.path().join("storage"))
            .args(more)
            .env("KUBECONFIG", kubeconfig)
            .env_remove("KUBERNETES_SERVICE_HOST")
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let (code, text) = run(&place.path().join("none"), &[]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("--kubeconfig or $KUBECONFIG"), "{text}");

    let (code, text) = run(&place.path().join("none"), &["--context", "other"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("--context"), "{text}");

    let broken = place.path().join("config");
    std::fs::write(&broken, "clusters: 5\n").unwrap();
    let (code, text) = run(&broken, &[]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains(broken.to_str().unwrap()), "{text}");
}
