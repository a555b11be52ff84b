//! Commits that are made here and sent to the real git, over HTTP and SSH.

use std::path::{Path, PathBuf};
use std::time::Duration;

use everflow_fetch::Deadline;
use everflow_fetch::http::Auth;
use everflow_git::Error;
use everflow_git::testing::{keygen, serve_ssh};
use everflow_git::{Change, FileEdit, GitAuth, GitClient, Person, Published, Remote, SigningKey};
use everflow_limits::Budget;

use crate::ssh::{UploadPack, ssh_remote};
use crate::support::{GitServer, git, git_is_here};
use crate::world::{World, commit, remote};

impl World {
    /// A repository without a work tree that takes pushes.
    fn bare(&self, name: &str) -> PathBuf {
        let path = self.root.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        git(&path, 1, &["init", "-q", "--bare", "-b", "main"]);
        git(&path, 1, &["config", "http.receivepack", "true"]);
        path
    }

    fn http(&self, port: u16) {
        GitServer::start(&self.dialer, "h", port, self.root.path(), true);
    }

    async fn publish(&self, remote: Remote, change: &Change) -> Result<Published, Error> {
        let client = GitClient::new(&self.env, remote)?;
        let deadline = Deadline::after(&self.env.clock, Duration::from_secs(60));
        client.publish(change, &deadline).await
    }
}

fn change(files: &[(&str, &str)]) -> Change {
    let entry = |(path, text): &(&str, &str)| ((*path).to_owned(), FileEdit::write(*text));
    Change {
        branch: "main".to_owned(),
        files: files.iter().map(entry).collect(),
        author: Person {
            name: "Flux".to_owned(),
            email: "flux@example.com".to_owned(),
            seconds: 1_700_000_000,
        },
        message: "Add manifests\n\nskip".to_owned(),
        signing: None,
    }
}

fn shown(path: &Path, file: &str) -> String {
    git(path, 1, &["show", &format!("main:{file}")])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_are_pushed_to_empty_and_to_filled_repositories() {
    if !git_is_here() {
        return;
    }
    let world = World::new();
    let path = world.bare("repo.git");
    world.http(1);
    let url = "http://h:1/repo.git";
    let first = change(&[("clusters/a/one.yaml", "a: 1\n"), ("README.md", "hi\n")]);
    let done = world.publish(remote(url), &first).await.unwrap();
    assert!(done.changed);
    assert_eq!(
        git(&path, 1, &["rev-parse", "main"]),
        done.commit.to_string()
    );
    assert_eq!(
        git(&path, 1, &["log", "-1", "--format=%an|%ae|%at|%cn|%B"]),
        "Flux|flux@example.com|1700000000|Flux|Add manifests\n\nskip"
    );
    // The same again is no commit.
    let again = world.publish(remote(url), &first).await.unwrap();
    assert_eq!((again.changed, again.commit), (false, done.commit));
    // What is there stays, and so do files that are only to be created.
    let mut second = change(&[("clusters/a/two.yaml", "b: 2\n")]);
    let keep = FileEdit::create("other\n");
    second.files.insert("README.md".to_owned(), keep);
    let done = world.publish(remote(url), &second).await.unwrap();
    assert_eq!(shown(&path, "clusters/a/one.yaml"), "a: 1");
    assert_eq!(shown(&path, "clusters/a/two.yaml"), "b: 2");
    assert_eq!(shown(&path, "README.md"), "hi");
    git(&path, 1, &["fsck", "--strict"]);
    // Another branch begins with nothing.
    let mut other = change(&[("x", "y\n")]);
    other.branch = "other".to_owned();
    world.publish(remote(url), &other).await.unwrap();
    assert_eq!(
        git(&path, 1, &["ls-tree", "-r", "--name-only", "other"]),
        "x"
    );
    let client = GitClient::new(&world.env, remote(url)).unwrap();
    let deadline = Deadline::after(&world.env.clock, Duration::from_secs(60));
    let mut head = client.head("main", &deadline).await.unwrap().unwrap();
    assert_eq!(head.commit.id, done.commit);
    let budget = Budget::unlimited();
    let read = head.read_file("clusters/a/two.yaml", &budget).unwrap();
    assert_eq!(read.unwrap(), b"b: 2\n");
    assert!(head.read_file("clusters/a", &budget).unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_that_comes_second_is_made_again_on_top() {
    if !git_is_here() {
        return;
    }
    let world = World::new();
    let path = world.bare("repo.git");
    world.http(1);
    let url = "http://h:1/repo.git";
    world
        .publish(remote(url), &change(&[("a", "1\n")]))
        .await
        .unwrap();
    // Both start from the same commit; one of them is refused at first.
    let (left, right) = (change(&[("l", "l\n")]), change(&[("r", "r\n")]));
    let pushes = futures_util::future::join_all(
        [&left, &right].map(|change| world.publish(remote(url), change)),
    );
    for done in pushes.await {
        assert!(done.unwrap().changed);
    }
    let files = git(&path, 1, &["ls-tree", "-r", "--name-only", "main"]);
    assert_eq!(files, "a\nl\nr");
    assert_eq!(git(&path, 1, &["rev-list", "--count", "main"]), "3");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_are_told_with_the_servers_reason() {
    if !git_is_here() {
        return;
    }
    let world = World::new();
    let path = world.bare("repo.git");
    world.http(1);
    let hook = path.join("hooks/pre-receive");
    std::fs::create_dir_all(path.join("hooks")).unwrap();
    std::fs::write(&hook, "#!/bin/sh\nexit 1\n").unwrap();
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    let error = world
        .publish(remote("http://h:1/repo.git"), &change(&[("a", "1\n")]))
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("pre-receive hook declined"),
        "{error}"
    );
    let error = world
        .publish(remote("http://h:1/auth/repo.git"), &change(&[("a", "1\n")]))
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("authentication required"),
        "{error}"
    );
    std::fs::remove_file(&hook).unwrap();
    for auth in [
        Auth::Bearer("tok".to_owned().into()),
        Auth::Basic {
            username: "user".to_owned(),
            password: "pass".to_owned().into(),
        },
    ] {
        let mut remote = remote("http://h:1/auth/repo.git");
        let text = format!("{auth:?}\n");
        remote.auth = GitAuth::Http(auth);
        let done = world.publish(remote, &change(&[("a", &text)])).await;
        assert!(done.unwrap().changed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_are_pushed_by_ssh_and_signed() {
    if !git_is_here() {
        return;
    }
    let world = World::new();
    let path = world.repository("repo");
    commit(&path, 1, "a.yaml", b"a: 1\n");
    git(&path, 1, &["config", "receive.denyCurrentBranch", "ignore"]);
    let place = tempfile::tempdir().unwrap();
    let make = |name: &str| keygen(place.path(), name, "ed25519", "");
    let (Some((host_secret, host_public)), Some((secret, public))) = (make("host"), make("key"))
    else {
        eprintln!("skipped: ssh-keygen is not on this machine");
        return;
    };
    let server = UploadPack {
        root: world.root.path().to_owned(),
    };
    serve_ssh(&world.dialer, ("git.test", 22), &host_secret, server).unwrap();
    let known = format!("git.test {host_public}\n");
    let url = "ssh://git@git.test/repo/.git";
    let remote = ssh_remote(url, &secret, None, &known).unwrap();
    let mut signed = change(&[("b.yaml", "b: 2\n")]);
    signed.signing = Some(SigningKey::read(&secret, &String::new().into()).unwrap());
    let done = world.publish(remote, &signed).await.unwrap();
    assert!(done.changed);
    assert_eq!(git(&path, 1, &["rev-list", "--count", "main"]), "2");
    let allowed = place.path().join("allowed");
    std::fs::write(&allowed, format!("flux@example.com {public}\n")).unwrap();
    let allowed = format!("gpg.ssh.allowedSignersFile={}", allowed.display());
    git(&path, 1, &["-c", &allowed, "verify-commit", "main"]);
    let nothing = ssh_remote("ssh://git@git.test/nothing", &secret, None, &known).unwrap();
    let error = world.publish(nothing, &signed).await.unwrap_err();
    assert!(
        error.to_string().contains("repository not found"),
        "{error}"
    );
}
