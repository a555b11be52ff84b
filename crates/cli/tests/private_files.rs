//! Nobody else may read what the program keeps: Secrets in stores, keys, kubeconfigs, artifacts. The umask may be
//! anything.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, dead_code)]

#[path = "common/delivery.rs"]
mod delivery;
#[path = "../../git/tests/support/mod.rs"]
mod support;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use delivery::{World, write};
use support::{git, git_is_here};

/// The program with a umask that keeps nothing from anybody.
fn everflow(arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", "umask 000; exec \"$0\" \"$@\""])
        .arg(env!("CARGO_BIN_EXE_everflow"))
        .args(arguments);
    command
}

/// Ended with the test.
struct Running(Child);

impl Running {
    /// Starts a cluster and waits until it serves.
    fn cluster(directory: &Path, kubeconfig: &Path) -> Self {
        let mut child = everflow(&["cluster", "start", "--listen", "127.0.0.1:0", "--dir"])
            .arg(directory)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut printed = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        printed.read_line(&mut line).unwrap();
        assert!(line.contains("serving"), "{line}");
        child.stdout = Some(printed.into_inner());
        Running(child)
    }

    /// Ends it; what it printed to its standard error.
    fn end(mut self) -> String {
        self.0.kill().unwrap();
        let mut told = String::new();
        if let Some(mut stderr) = self.0.stderr.take() {
            stderr.read_to_string(&mut told).unwrap();
        }
        told
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// All files and directories below a directory, and itself, that others may do something with.
fn open_to_others(path: &Path, seen: &mut Vec<PathBuf>) -> Vec<String> {
    // It may be gone again.
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return Vec::new();
    };
    seen.push(path.to_owned());
    let mode = metadata.permissions().mode() & 0o7777;
    let wanted = if metadata.is_dir() { 0o700 } else { 0o600 };
    let mut found = Vec::new();
    if !metadata.is_symlink() && mode != wanted {
        found.push(format!("{} {mode:o}", path.display()));
    }
    if metadata.is_dir() {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            found.extend(open_to_others(&entry.path(), seen));
        }
    }
    found
}

fn assert_private(path: &Path) -> Vec<PathBuf> {
    let mut seen = Vec::new();
    let found = open_to_others(path, &mut seen);
    assert!(found.is_empty(), "{}", found.join("\n"));
    seen
}

#[test]
fn files_of_a_cluster_are_private_whatever_the_umask() {
    let place = tempfile::tempdir().unwrap();
    let (directory, kubeconfig) = (place.path().join("a/b/data"), place.path().join("kube"));
    let cluster = Running::cluster(&directory, &kubeconfig);
    let seen = assert_private(&place.path().join("a"));
    assert_eq!(mode(&kubeconfig), 0o600);
    for name in [
        "objects.redb",
        "ca.crt",
        "ca.key",
        "server.crt",
        "server.key",
        "service-accounts.key",
    ] {
        assert!(seen.contains(&directory.join(name)), "{name}");
    }
    assert_eq!(cluster.end(), "");
}

#[test]
fn a_directory_of_an_older_version_is_made_private_at_the_start_with_a_line() {
    let place = tempfile::tempdir().unwrap();
    let (directory, kubeconfig) = (place.path().join("data"), place.path().join("kube"));
    Running::cluster(&directory, &kubeconfig).end();
    for entry in fs::read_dir(&directory).unwrap() {
        set_mode(&entry.unwrap().path(), 0o644);
    }
    set_mode(&directory, 0o755);
    set_mode(&kubeconfig, 0o644);
    let told = Running::cluster(&directory, &kubeconfig).end();
    assert_private(&directory);
    assert_eq!(mode(&kubeconfig), 0o600);
    let shown = directory.display().to_string();
    assert!(told.contains(&shown) && told.contains("0755"), "{told}");
    let told = Running::cluster(&directory, &kubeconfig).end();
    assert_eq!(told, "");
}

#[test]
fn shared_directory_keeps_its_permissions() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("shared");
    fs::create_dir(&directory).unwrap();
    set_mode(&directory, 0o1777);
    Running::cluster(&directory, &place.path().join("kube")).end();
    assert_eq!(mode(&directory), 0o1777);
    for entry in fs::read_dir(&directory).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
}

#[test]
fn token_file_readable_by_others_is_warned_about() {
    let place = tempfile::tempdir().unwrap();
    let tokens = place.path().join("tokens");
    fs::write(&tokens, "secret,jane,1\n").unwrap();
    for (given, warned) in [(0o644, true), (0o600, false)] {
        set_mode(&tokens, given);
        let mut child = everflow(&["cluster", "start", "--listen", "127.0.0.1:0"])
            .arg("--token-auth-file")
            .arg(&tokens)
            .arg("--kubeconfig")
            .arg(place.path().join("kube"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut printed = BufReader::new(child.stdout.take().unwrap());
        printed.read_line(&mut line).unwrap();
        let told = Running(child).end();
        assert_eq!(
            told.contains(&tokens.display().to_string()),
            warned,
            "{told}"
        );
        assert_eq!(mode(&tokens), given);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_a_run_are_private_whatever_the_umask() {
    if !git_is_here() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let kubeconfig = place.path().join("kube");
    let _cluster = Running::cluster(&place.path().join("data"), &kubeconfig);
    let world = World::new(&kubeconfig);
    let root = place.path().join("git");
    let repository = root.join("shop");
    fs::create_dir_all(&repository).unwrap();
    git(&repository, 1, &["init", "-q", "-b", "main"]);
    write(&repository, "file.yaml", "a: b\n");
    git(&repository, 1, &["add", "-A"]);
    git(&repository, 1, &["commit", "-q", "-m", "first"]);
    let (_server, object) = world.serve(&root).await;
    world.apply(object).await;
    // As an older version made it.
    let storage = place.path().join("storage");
    fs::create_dir(&storage).unwrap();
    set_mode(&storage, 0o755);
    let engine = everflow(&["run", "--log-level", "info", "--kubeconfig"])
        .arg(&kubeconfig)
        .arg("--storage-path")
        .arg(&storage)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let engine = Running(engine.unwrap());
    let mut seen = Vec::new();
    let artifact = |seen: &[PathBuf]| {
        let ends = |path: &PathBuf| path.to_string_lossy().ends_with(".tar.gz");
        seen.iter().any(ends)
    };
    for _ in 0..300 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        // While it works, too; but for the very start, before the directory is looked at.
        if storage.join("tmp").exists() {
            seen = assert_private(&storage);
        }
        if artifact(&seen) {
            break;
        }
    }
    assert!(artifact(&seen), "{seen:?}");
    let told = engine.end();
    assert!(told.contains("0755"), "{told}");
}

#[test]
fn scratch_files_are_private_whatever_the_umask() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/quickstart");
    for verb in ["up", "test"] {
        let place = tempfile::tempdir().unwrap();
        set_mode(place.path(), 0o700);
        let mut child = everflow(&[verb])
            .arg(&example)
            .args([
                "--offline",
                "--timeout",
                "60s",
                "--entry",
                "clusters/staging",
            ])
            .env("TMPDIR", place.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut seen = Vec::new();
        while child.try_wait().unwrap().is_none() {
            seen.extend(assert_private(place.path()));
            std::thread::sleep(Duration::from_millis(5));
        }
        let artifact = |path: &PathBuf| path.to_string_lossy().ends_with(".tar.gz");
        assert!(seen.iter().any(artifact), "{verb} {:?}", child.wait());
    }
}
