//! Commits that are made here and sent to the real git, over HTTP and SSH.

use std::path::{Path, PathBuf};
use std::time::Duration;

use everflow_fetch::Deadline;
use everflow_fetch::http::Auth;
use everflow_git::Error;
use everflow_git::testing::{keygen, serve_ssh};
use everflow_git::{
    Change, FileEdit, GitAuth, GitClient, Opening, Person, Published, Remote, SigningKey, SshAgent,
    SshAuth,
};
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
async fn rejected_push_is_repeated_on_top_of_the_new_head() {
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
async fn push_refusals_show_the_reason_of_the_server() {
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

/// OpenSSH's agent, ended with the test.
struct Agent {
    child: std::process::Child,
    socket: PathBuf,
}

impl Agent {
    fn start(place: &Path) -> Option<Self> {
        let socket = place.join("agent");
        let child = std::process::Command::new("ssh-agent")
            .args(["-D", "-a"])
            .arg(&socket)
            .stdout(std::process::Stdio::null())
            .spawn()
            .ok()?;
        for _ in 0..200 {
            if socket.exists() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(Agent { child, socket })
    }

    fn add(&self, key: &Path) {
        let added = std::process::Command::new("ssh-add")
            .arg("-q")
            .arg(key)
            .env("SSH_AUTH_SOCK", &self.socket)
            .status();
        assert!(added.unwrap().success());
    }

    fn opened(&self) -> SshAgent {
        let socket = self.socket.clone();
        SshAgent::new(move || -> Opening {
            let socket = socket.clone();
            Box::pin(async move {
                let stream = tokio::net::UnixStream::connect(socket).await?;
                Ok(Box::new(stream) as Box<dyn everflow_env::Stream>)
            })
        })
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_are_pushed_with_the_keys_of_an_agent() {
    if !git_is_here() {
        return;
    }
    let world = World::new();
    let path = world.repository("repo");
    commit(&path, 1, "a.yaml", b"a: 1\n");
    git(&path, 1, &["config", "receive.denyCurrentBranch", "ignore"]);
    let place = tempfile::tempdir().unwrap();
    let made = keygen(place.path(), "host", "ed25519", "");
    let (Some((host_secret, host_public)), Some(agent)) = (made, Agent::start(place.path())) else {
        eprintln!("skipped: ssh-keygen and ssh-agent are not on this machine");
        return;
    };
    let server = UploadPack {
        root: world.root.path().to_owned(),
    };
    serve_ssh(&world.dialer, ("git.test", 22), &host_secret, server).unwrap();
    let known = format!("git.test {host_public}\n");
    let by_agent = || {
        let mut remote = remote("ssh://git@git.test/repo/.git");
        let auth = SshAuth::by_agent(agent.opened(), known.clone().into_bytes());
        remote.auth = GitAuth::Ssh(auth.unwrap());
        remote
    };
    let error = world.publish(by_agent(), &change(&[("b", "2\n")])).await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("the SSH agent holds no key"), "{error}");
    for kind in ["rsa", "ed25519", "ecdsa"] {
        keygen(place.path(), kind, kind, "").unwrap();
        agent.add(&place.path().join(kind));
        let done = world.publish(by_agent(), &change(&[(kind, "2\n")])).await;
        assert!(done.unwrap().changed, "{kind}");
    }
    std::fs::remove_file(&agent.socket).unwrap();
    let error = world.publish(by_agent(), &change(&[("c", "2\n")])).await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("the SSH agent is not reached"), "{error}");
}

/// GnuPG with a home of its own; what it printed.
fn gpg(home: &Path, arguments: &[&str]) -> Option<Vec<u8>> {
    let output = std::process::Command::new("gpg")
        .args([
            "--batch",
            "--quiet",
            "--pinentry-mode",
            "loopback",
            "--homedir",
        ])
        .arg(home)
        .args(arguments)
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    Some(output.stdout)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_are_signed_with_pgp_keys_and_verified_by_git() {
    if !git_is_here() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    use std::os::unix::fs::PermissionsExt as _;
    let private = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(place.path(), private).unwrap();
    let home = place.path();
    // What a passphrase is turned into a key with is as cheap as it can be: builds for tests are slow.
    std::fs::write(home.join("gpg-agent.conf"), "s2k-count 65536\n").unwrap();
    for (user, kind, usage) in [
        ("one@example.com", "ed25519", "sign"),
        ("two@example.com", "rsa2048", "cert"),
    ] {
        let words = [
            "--passphrase",
            "word",
            "--quick-generate-key",
            user,
            kind,
            usage,
        ];
        if gpg(home, &words).is_none() {
            eprintln!("skipped: gpg is not on this machine");
            return;
        }
    }
    let listed = gpg(home, &["--list-keys", "--with-colons"]).unwrap();
    let listed = String::from_utf8(listed).unwrap();
    let marks = listed.lines().filter_map(|line| line.strip_prefix("fpr:"));
    let prints: Vec<&str> = marks.map(|line| line.trim_matches(':')).collect();
    let words = [
        "--passphrase",
        "word",
        "--quick-add-key",
        prints[1],
        "rsa2048",
        "sign",
    ];
    gpg(home, &words).unwrap();
    let export = |armor: &str| {
        let words = [armor, "--passphrase", "word", "--export-secret-keys"];
        gpg(home, &words).unwrap()
    };
    let (binary, armored) = (export("--no-armor"), export("--armor"));
    let word = || "word".to_owned().into();

    let world = World::new();
    let path = world.bare("repo.git");
    world.http(1);
    // The second key certifies only: its subkey signs.
    for (number, (ring, id)) in [
        (&binary, ""),
        (&armored, ""),
        (&armored, prints[1]),
        (&binary, &prints[1][24..]),
    ]
    .into_iter()
    .enumerate()
    {
        let mut signed = change(&[("number", &format!("{number}\n"))]);
        // Not before the keys were made.
        signed.author.seconds = 4_000_000_000;
        signed.signing = Some(SigningKey::of_ring(ring, word(), id).unwrap());
        let remote = remote("http://h:1/repo.git");
        assert!(world.publish(remote, &signed).await.unwrap().changed);
        let verified = std::process::Command::new("git")
            .args(["verify-commit", "--raw", "main"])
            .current_dir(&path)
            .env("GNUPGHOME", home)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&verified.stderr).into_owned();
        assert!(
            said.contains("GOODSIG") || said.contains("VALIDSIG"),
            "{id}: {said}"
        );
    }
    let wrong = |ring: &[u8], word: &str, id: &str| {
        let key = SigningKey::of_ring(ring, word.to_owned().into(), id);
        key.unwrap_err().to_string()
    };
    assert!(wrong(&binary, "other", "").contains("not unlocked by this passphrase"));
    assert!(wrong(&binary, "", "").contains("protected by a passphrase"));
    assert!(wrong(&binary, "word", "0123456789ABCDEF").contains("holds no secret key"));
    assert!(wrong(b"no ring", "word", "").contains("PGP key ring"));
    let _ = std::process::Command::new("gpgconf")
        .args(["--kill", "all"])
        .env("GNUPGHOME", home)
        .status();
}
