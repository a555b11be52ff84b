//! Against the real OpenSSH server and the real git behind it. Part of the real tier, see
//! `real/README.md`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod support;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use everflow_env::{Env, RealDisk};
use everflow_fetch::{Deadline, Url};
use everflow_git::Error;
use everflow_git::testing::keygen;
use everflow_git::{CheckoutOptions, GitClient, GitRef, Remote, Update, write_archive};
use support::running::{Running, free_port, until_it_listens};
use support::{git, git_is_here, ssh_auth};

struct World {
    place: tempfile::TempDir,
    port: u16,
    known: String,
    _server: Running,
}

impl World {
    async fn start(sshd: &Path) -> Option<Self> {
        let place = tempfile::tempdir().unwrap();
        let (_, host) = keygen(place.path(), "host", "ed25519", "")?;
        let mut allowed = String::new();
        for kind in ["ed25519", "rsa", "ecdsa"] {
            allowed += &keygen(place.path(), kind, kind, "")?.1;
            allowed += "\n";
        }
        std::fs::write(place.path().join("allowed"), allowed).unwrap();
        let port = free_port();
        let at = place.path().display();
        let settings = format!(
            "ListenAddress 127.0.0.1:{port}\nHostKey {at}/host\nAuthorizedKeysFile {at}/allowed\n\
             PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n\
             AcceptEnv GIT_PROTOCOL\n"
        );
        std::fs::write(place.path().join("sshd_config"), settings).unwrap();
        let child = Command::new(sshd)
            .args(["-D", "-e", "-f"])
            .arg(place.path().join("sshd_config"))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Running(child);
        until_it_listens(port).await;
        Some(World {
            known: format!("[127.0.0.1]:{port} {host}\n"),
            place,
            port,
            _server: server,
        })
    }

    fn url(&self, user: &str, repository: &str) -> String {
        let (port, at) = (self.port, self.place.path().display());
        format!("ssh://{user}@127.0.0.1:{port}{at}/{repository}")
    }

    /// What is fetched with a key: the revision and the names of the files.
    async fn fetch(&self, url: &str, key: &str) -> Result<(String, Vec<String>), Error> {
        let env = Env::system(RealDisk::new(&self.place.path().join("store")).unwrap());
        let mut remote = Remote::new(Url::parse(url)?);
        let secret = std::fs::read_to_string(self.place.path().join(key)).unwrap();
        remote.auth = ssh_auth(&secret, None, &self.known)?;
        let deadline = Deadline::after(&env.clock, Duration::from_secs(30));
        let branch = GitRef {
            branch: "main".to_owned(),
            ..GitRef::default()
        };
        let client = GitClient::new(&env, remote)?;
        let Update::Fetched(checkout) = client.update(&branch, None, false, &deadline).await?
        else {
            unreachable!();
        };
        let revision = checkout.revision.clone();
        env.disk.create_dir("out").unwrap();
        write_archive(&env, *checkout, "out/x", CheckoutOptions::default()).await?;
        let file = env.disk.open("out/x").unwrap();
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
        let names = archive.entries().unwrap();
        let names = names.map(|entry| entry.unwrap().path().unwrap().display().to_string());
        Ok((revision, names.collect()))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn repositories_behind_a_real_sshd_are_fetched() {
    if !everflow_corpus::real::wanted("git by a real sshd") || !git_is_here() {
        return;
    }
    let Some(sshd) = everflow_corpus::real::installed("sshd") else {
        println!(
            "skipped: there is no sshd (real/peers.sh build sshd, or apt install openssh-server)"
        );
        return;
    };
    let Some(world) = World::start(&sshd).await else {
        println!("skipped: ssh-keygen is not on this machine");
        return;
    };
    let repository = world.place.path().join("repo");
    std::fs::create_dir(&repository).unwrap();
    git(&repository, 1, &["init", "-q", "-b", "main"]);
    std::fs::write(repository.join("a.yaml"), "a: 1\n").unwrap();
    git(&repository, 1, &["add", "-A"]);
    git(&repository, 1, &["commit", "-q", "-m", "one"]);
    let id = git(&repository, 1, &["rev-parse", "HEAD"]);
    let user = String::from_utf8(Command::new("id").arg("-un").output().unwrap().stdout).unwrap();
    let url = world.url(user.trim(), "repo/.git");
    for key in ["ed25519", "rsa", "ecdsa"] {
        let (revision, names) = world.fetch(&url, key).await.unwrap();
        assert_eq!(revision, format!("main@sha1:{id}"));
        assert_eq!(names, [".", "a.yaml"]);
    }
    let nothing = world.url(user.trim(), "nothing.git");
    let error = world.fetch(&nothing, "ed25519").await.unwrap_err();
    assert!(
        error.to_string().contains("repository not found"),
        "{error}"
    );
    // The key of the server is nobody's who may log in.
    let error = world.fetch(&url, "host").await.unwrap_err();
    assert!(
        error.to_string().contains("unable to authenticate"),
        "{error}"
    );
}
