//! Artifacts are pushed to a registry, tagged, listed, compared and pulled again.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output};

use everflow_fetch::testing::Registry;

/// A registry on a port of its own, as long as the test lives.
fn registry() -> (Registry, String) {
    let registry = Registry::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let own = registry.clone();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                let own = own.clone();
                tokio::spawn(async move { own.serve(stream).await });
            }
        });
    });
    (registry, address)
}

fn run(directory: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_everflow"))
        .args(words)
        .current_dir(directory)
        .env("HOME", directory)
        .env_remove("DOCKER_CONFIG")
        .output()
        .unwrap()
}

fn must(directory: &Path, words: &[&str]) -> (String, String) {
    let output = run(directory, words);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{words:?}: {stdout}{stderr}");
    (stdout, stderr)
}

#[test]
fn an_artifact_goes_to_a_registry_and_comes_back() {
    let (_registry, host) = registry();
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    for (file, text) in [
        ("app/a.yaml", "a: 1\n"),
        ("app/b/c.yaml", "c: 1\n"),
        ("app/logo.png", "x"),
    ] {
        let file = here.join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    std::fs::create_dir(here.join("out")).unwrap();
    let url = format!("oci://{host}/team/app:v1.0.0");
    let push = [
        "push",
        "artifact",
        &url,
        "--path=app",
        "--source=https://git.example.com/x",
        "--revision=main@sha1:0123",
        "--reproducible",
        "-o",
        "json",
    ];
    let (stdout, _) = must(here, &push);
    let pushed: everflow_json::Value = everflow_json::from_str(&stdout).unwrap();
    assert_eq!(pushed["tag"], "v1.0.0");
    // The same content is the same artifact.
    assert_eq!(must(here, &push).0, stdout);

    let tag = ["tag", "artifact", &url, "--tag=latest,v1.1.0"];
    let (_, stderr) = must(here, &tag);
    assert!(
        stderr.contains(&format!("artifact tagged as {host}/team/app:latest")),
        "{stderr}"
    );

    let repository = format!("oci://{host}/team/app");
    let list = ["list", "artifacts", &repository, "--filter-semver=>=1.0.0"];
    let (stdout, _) = must(here, &list);
    let rows: Vec<&str> = stdout.lines().skip(1).collect();
    assert!(
        rows[0].contains("app:v1.1.0") && rows[1].contains("app:v1.0.0"),
        "{stdout}"
    );
    assert!(
        rows[0].contains("main@sha1:0123") && rows.len() == 2,
        "{stdout}"
    );

    let pull = ["pull", "artifact", &repository, "--output=out"];
    let (_, stderr) = must(here, &pull);
    assert!(stderr.contains("revision main@sha1:0123"), "{stderr}");
    assert_eq!(
        std::fs::read_to_string(here.join("out/b/c.yaml")).unwrap(),
        "c: 1\n"
    );
    assert!(!here.join("out/logo.png").exists());

    let diff = ["diff", "artifact", &url, "--path=app"];
    assert!(must(here, &diff).1.contains("no changes detected"));
    std::fs::write(here.join("app/a.yaml"), "a: 2\n").unwrap();
    let output = run(here, &diff);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "± a.yaml\n");
}

#[test]
fn credentials_are_sent_to_a_registry_that_asks_for_them() {
    let (_registry, host) = registry();
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("a.yaml"), "a: 1\n").unwrap();
    let url = format!("oci://{host}/private/app:v1");
    let push = [
        "push",
        "artifact",
        &url,
        "--path=a.yaml",
        "--source=s",
        "--revision=r",
    ];
    let refused = run(directory.path(), &push);
    assert_eq!(refused.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert!(stderr.contains("UNAUTHORIZED"), "{stderr}");
    let (_, stderr) = must(
        directory.path(),
        &[&push[..], &["--creds=user:pass"]].concat(),
    );
    assert!(
        stderr.contains("artifact successfully pushed to"),
        "{stderr}"
    );
}
