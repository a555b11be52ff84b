//! Against a real registry, filled by a real client: `crane` of go-containerregistry, which is the
//! library that Flux uses. Part of the real tier, see `real/README.md`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod support;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use everflow_env::{Env, RealDisk};
use everflow_fetch::Deadline;
use everflow_fetch::oci::{LayerOperation, OciClient, OciRef, PullOptions, Remote};
use support::Running;

/// Starts the registry on a free port; it tells the port in its log.
fn start(crane: &Path) -> (Running, String) {
    let mut child = Command::new(crane)
        .args(["registry", "serve", "--address", "127.0.0.1:0"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stderr = child.stderr.take().unwrap();
    let server = Running(child);
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            let port = line
                .split_once("serving on port ")
                .map(|(_, port)| port.trim().to_owned());
            if let Some(port) = port {
                let _ = sender.send(port);
            }
        }
    });
    let port = receiver.recv_timeout(Duration::from_secs(20)).unwrap();
    (server, format!("127.0.0.1:{port}"))
}

fn run(crane: &Path, arguments: &[&str]) -> String {
    let output = Command::new(crane).args(arguments).output().unwrap();
    let shown = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "crane {arguments:?}: {shown}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn layer(directory: &Path) -> PathBuf {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, text) in [("b/two.yaml", "two: 2\n"), ("a.yaml", "one: 1\n")] {
        let mut header = tar::Header::new_ustar();
        header.set_mode(0o644);
        header.set_size(text.len() as u64);
        builder
            .append_data(&mut header, name, text.as_bytes())
            .unwrap();
    }
    let plain = builder.into_inner().unwrap();
    let path = directory.join("layer.tar.gz");
    let file = std::fs::File::create(&path).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(file, flate2::Compression::default());
    gzip.write_all(&plain).unwrap();
    gzip.finish().unwrap();
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn artifacts_of_a_real_registry_are_pulled() {
    let Some(crane) = everflow_corpus::real::program("crane") else {
        return;
    };
    let place = tempfile::tempdir().unwrap();
    let (_server, registry) = start(&crane);
    let layer = layer(place.path());
    let layer = layer.to_str().unwrap();
    for tag in ["1.0.0", "1.2.0", "2.0.0-rc.1"] {
        let name = format!("{registry}/team/app:{tag}");
        run(
            &crane,
            &[
                "append",
                "--oci-empty-base",
                "--new_layer",
                layer,
                "--new_tag",
                &name,
            ],
        );
    }
    let digest = run(&crane, &["digest", &format!("{registry}/team/app:1.2.0")]);

    let env = Env::system(RealDisk::new(&place.path().join("store")).unwrap());
    let deadline = Deadline::after(&env.clock, Duration::from_secs(60));
    let client = OciClient::new(&env, Remote::new(format!("oci://{registry}/team/app"))).unwrap();
    let mut tags = client.tags(&deadline).await.unwrap();
    tags.sort();
    assert_eq!(tags, ["1.0.0", "1.2.0", "2.0.0-rc.1"]);
    let wanted = OciRef {
        semver: "1.x".to_owned(),
        ..OciRef::default()
    };
    let resolution = client.resolve(&wanted, "", &deadline).await.unwrap();
    assert_eq!(resolution.revision, format!("1.2.0@{digest}"));

    let pulled = client
        .pull(&resolution, &PullOptions::default(), &deadline)
        .await
        .unwrap();
    let file = env.disk.open(&pulled.path()).unwrap();
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
    let names: Vec<String> = archive
        .entries()
        .unwrap()
        .map(|entry| entry.unwrap().path().unwrap().to_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, [".", "a.yaml", "b", "b/two.yaml"]);

    let copy = PullOptions {
        operation: LayerOperation::Copy,
        ..PullOptions::default()
    };
    let copied = client.pull(&resolution, &copy, &deadline).await.unwrap();
    assert_eq!(copied.size, std::fs::metadata(layer).unwrap().len());

    let missing = OciRef {
        tag: "nope".to_owned(),
        ..OciRef::default()
    };
    let error = client.resolve(&missing, "", &deadline).await.unwrap_err();
    // The very words of the library that Flux uses.
    let output = Command::new(&crane)
        .args(["manifest", &format!("{registry}/team/app:nope")])
        .output()
        .unwrap();
    let theirs = String::from_utf8_lossy(&output.stderr);
    let ours = error.to_string();
    let words = ours
        .strip_prefix("failed to determine artifact digest: ")
        .unwrap();
    assert!(theirs.contains(words), "{theirs} / {words}");
}
