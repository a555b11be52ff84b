//! Signatures by the real gpg and ssh-keygen.

use std::path::Path;
use std::process::Command;

use everflow_git::GitRef;
use everflow_git::signature::{TrustedKeys, VerifyMode, verify};
use everflow_git::testing::keygen;

use crate::support::{GitServer, git, git_is_here};
use crate::world::{World, branch, remote};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signatures_by_ssh_are_verified() {
    if !git_is_here() {
        return;
    }
    let world = World::new();
    let path = world.repository("repo");
    let directory = tempfile::tempdir().unwrap();
    let Some((_, public)) = keygen(directory.path(), "signer", "ed25519", "") else {
        eprintln!("skipped: ssh-keygen is not on this machine");
        return;
    };
    let (_, stranger) = keygen(directory.path(), "stranger", "ed25519", "").unwrap();
    let key = directory.path().join("signer.pub");
    let signing = format!("user.signingkey={}", key.display());
    let with = ["-c", "gpg.format=ssh", "-c", &signing];
    commit_and_tag(&path, &with);
    check_signatures(
        &world,
        TrustedKeys {
            ssh: vec![public],
            ..TrustedKeys::default()
        },
        TrustedKeys {
            ssh: vec![stranger],
            ..TrustedKeys::default()
        },
        "SHA256:",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signatures_by_gpg_are_verified() {
    if !git_is_here() {
        return;
    }
    if Command::new("gpg").arg("--version").output().is_err() {
        eprintln!("skipped: gpg is not on this machine");
        return;
    }
    for algorithm in ["ed25519", "rsa3072"] {
        let world = World::new();
        let path = world.repository("repo");
        let home = tempfile::tempdir().unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(home.path(), mode).unwrap();
        let gpg = |arguments: &[&str]| {
            let output = Command::new("gpg")
                .env("GNUPGHOME", home.path())
                .args(["--batch", "--pinentry-mode", "loopback", "--passphrase", ""])
                .args(arguments)
                .output()
                .unwrap();
            let shown = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "gpg {arguments:?}: {shown}");
            String::from_utf8(output.stdout).unwrap()
        };
        for name in ["signer", "stranger"] {
            gpg(&[
                "--quick-gen-key",
                &format!("{name} <{name}@example.com>"),
                algorithm,
                "sign",
                "never",
            ]);
        }
        let public = gpg(&["--armor", "--export", "signer@example.com"]);
        let stranger = gpg(&["--armor", "--export", "stranger@example.com"]);
        // Through a program, because git is run without our environment's home.
        let program = home.path().join("gpg.sh");
        let script = format!(
            "#!/bin/sh\nGNUPGHOME={} exec gpg \"$@\"\n",
            home.path().display()
        );
        std::fs::write(&program, script).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode).unwrap();
        let program = format!("gpg.program={}", program.display());
        let with = ["-c", &program, "-c", "user.signingkey=signer@example.com"];
        commit_and_tag(&path, &with);
        let keys = |ring: String| TrustedKeys {
            pgp: vec![ring],
            ..TrustedKeys::default()
        };
        check_signatures(&world, keys(public), keys(stranger), "").await;
    }
}

/// A signed commit with a signed tag `v1` and another one that is not signed.
fn commit_and_tag(path: &Path, settings: &[&str]) {
    std::fs::write(path.join("a"), "1").unwrap();
    git(path, 1, &["add", "-A"]);
    for words in [
        ["commit", "-q", "-S", "-m", "signed"],
        ["tag", "-m", "signed", "-s", "v1"],
    ] {
        git(path, 1, &[settings, &words].concat());
    }
    git(path, 1, &["tag", "plain"]);
}

async fn check_signatures(world: &World, good: TrustedKeys, bad: TrustedKeys, key_start: &str) {
    GitServer::start(&world.dialer, "h", 80, world.root.path(), true);
    let tag = |name: &str| GitRef {
        tag: name.to_owned(),
        ..GitRef::default()
    };
    let url = "http://h/repo/.git";
    // Keys that do not expire; the signatures were made now.
    let now = 1_900_000_000;
    let signed = world.update(remote(url), &tag("v1"), false).await.unwrap();
    let said = verify(&signed, VerifyMode::TagAndHead, &good, now).unwrap();
    assert!(
        said.starts_with("verified signature of\n\t- tag 'v1@"),
        "{said}"
    );
    assert!(
        said.contains(&format!(
            "\n\t- commit '{}' with key '{key_start}",
            signed.commit.id
        )),
        "{said}"
    );
    for mode in [VerifyMode::Head, VerifyMode::Tag] {
        let error = verify(&signed, mode, &bad, now).unwrap_err();
        assert!(
            error.to_string().contains("no matching key found"),
            "{error}"
        );
        assert!(matches!(
            error.reason(),
            "InvalidCommitSignature" | "InvalidTagSignature"
        ));
    }
    let mut changed = world.update(remote(url), &tag("v1"), false).await.unwrap();
    changed.commit.signed.push(b'x');
    assert!(verify(&changed, VerifyMode::Head, &good, now).is_err());
    let plain = world
        .update(remote(url), &tag("plain"), false)
        .await
        .unwrap();
    let error = verify(&plain, VerifyMode::Tag, &good, now).unwrap_err();
    assert_eq!(error.reason(), "InvalidGitObject");
    assert_eq!(
        error.to_string(),
        "cannot verify signature of tag 'plain' since it is not signed"
    );
    let main = world
        .update(remote(url), &branch("main"), false)
        .await
        .unwrap();
    let error = verify(&main, VerifyMode::Tag, &good, now).unwrap_err();
    assert_eq!(error.reason(), "InvalidVerificationMode");
    verify(&main, VerifyMode::Head, &good, now).unwrap();
}
