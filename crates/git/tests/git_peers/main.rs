//! Against the real git: both protocol versions, SSH, submodules, ties between versions, and
//! signatures by the real gpg and ssh-keygen.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr
)]

mod push;
mod signatures;
mod ssh;
#[path = "../support/mod.rs"]
mod support;
mod world;

use std::process::{Command, Stdio};
use std::time::Duration;

use everflow_fetch::Deadline;
use everflow_git::{GitClient, GitRef, Update};
use support::{GitServer, git, git_is_here};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use world::{World, branch, commit, remote, with_deltas};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_protocols_bring_the_same() {
    if !git_is_here() {
        return;
    }
    let world = World::new();
    let path = world.repository("repo");
    let id = with_deltas(&path);
    let first = git(&path, 1, &["rev-list", "--max-parents=0", "HEAD"]);
    for (port, version_2) in [(1, true), (2, false)] {
        GitServer::start(&world.dialer, "h", port, world.root.path(), version_2);
        let url = format!("http://h:{port}/repo/.git");
        let checkout = world
            .update(remote(&url), &branch("main"), false)
            .await
            .unwrap();
        assert_eq!(checkout.revision, format!("main@sha1:{id}"));
        let files = world.files(checkout).await;
        assert_eq!(files.len(), 8);
        let by_id = GitRef {
            commit: first.clone(),
            ..GitRef::default()
        };
        let checkout = world.update(remote(&url), &by_id, false).await.unwrap();
        assert_eq!(checkout.revision, format!("sha1:{first}"));
        assert_eq!(world.files(checkout).await.len(), 3);
        let missing = GitRef {
            commit: "0".repeat(39) + "1",
            ..GitRef::default()
        };
        let error = world
            .update(remote(&url), &missing, false)
            .await
            .unwrap_err();
        assert!(error.to_string().ends_with("object not found"), "{error}");
        // Nothing is left in the temporary area.
        assert_eq!(world.env.disk.list("tmp").unwrap(), []);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unchanged_remote_costs_one_request() {
    if !git_is_here() {
        return;
    }
    let world = World::new();
    let path = world.repository("repo");
    let id = commit(&path, 1, "a", b"1");
    let server = GitServer::start(&world.dialer, "h", 80, world.root.path(), true);
    let client = GitClient::new(&world.env, remote("http://h/repo/.git")).unwrap();
    let deadline = Deadline::after(&world.env.clock, Duration::from_secs(60));
    let have = format!("main@sha1:{id}");
    let update = client
        .update(&branch("main"), Some(&have), false, &deadline)
        .await
        .unwrap();
    assert!(matches!(update, Update::Unchanged(_)));
    // The greeting and the question.
    assert_eq!(server.count(), 2);
    assert!(world.env.disk.list("tmp").is_err());
    let empty = world.repository("empty");
    let error = world
        .update(remote("http://h/empty/.git"), &branch("main"), false)
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "EmptyGitRepository", "{error}");
    drop(empty);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ties_between_versions_go_to_the_youngest_commit() {
    if !git_is_here() {
        return;
    }
    let world = World::new();
    let path = world.repository("repo");
    commit(&path, 1, "a", b"1");
    git(&path, 1, &["tag", "1.0.0+z"]);
    let younger = commit(&path, 5, "a", b"2");
    git(&path, 5, &["tag", "-a", "-m", "x", "1.0.0+a"]);
    commit(&path, 6, "a", b"3");
    git(&path, 6, &["tag", "0.9.0"]);
    for (port, version_2) in [(1, true), (2, false)] {
        GitServer::start(&world.dialer, "h", port, world.root.path(), version_2);
        let reference = GitRef {
            semver: ">=0.1".to_owned(),
            ..GitRef::default()
        };
        let url = format!("http://h:{port}/repo/.git");
        let checkout = world.update(remote(&url), &reference, false).await.unwrap();
        assert_eq!(checkout.revision, format!("1.0.0+a@sha1:{younger}"));
        assert_eq!(checkout.tag.unwrap().name, "1.0.0+a");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn submodules_nest_and_are_relative() {
    if !git_is_here() {
        return;
    }
    let world = World::new();
    let inner = world.repository("inner");
    let inner_id = commit(&inner, 1, "deep.yaml", b"deep");
    let middle = world.repository("middle");
    std::fs::write(
        middle.join(".gitmodules"),
        "[submodule \"inner\"]\n\tpath = parts/inner\n\turl = ../../inner/.git\n",
    )
    .unwrap();
    git(
        &middle,
        1,
        &[
            "update-index",
            "--add",
            "--cacheinfo",
            &format!("160000,{inner_id},parts/inner"),
        ],
    );
    std::fs::write(middle.join("m.yaml"), "m").unwrap();
    git(&middle, 1, &["add", ".gitmodules", "m.yaml"]);
    git(&middle, 1, &["commit", "-q", "-m", "middle"]);
    let middle_id = git(&middle, 1, &["rev-parse", "HEAD"]);
    let outer = world.repository("outer");
    std::fs::write(
        outer.join(".gitmodules"),
        "[submodule \"lib\"]\n\tpath = lib\n\turl = http://h/middle/.git\n",
    )
    .unwrap();
    git(
        &outer,
        1,
        &[
            "update-index",
            "--add",
            "--cacheinfo",
            &format!("160000,{middle_id},lib"),
        ],
    );
    git(&outer, 1, &["add", ".gitmodules"]);
    git(&outer, 1, &["commit", "-q", "-m", "outer"]);
    GitServer::start(&world.dialer, "h", 80, world.root.path(), true);
    let checkout = world
        .update(remote("http://h/outer/.git"), &branch("main"), true)
        .await
        .unwrap();
    let names: Vec<String> = world
        .files(checkout)
        .await
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    let expected = [
        ".",
        "lib",
        "lib/.git",
        "lib/m.yaml",
        "lib/parts",
        "lib/parts/inner",
        "lib/parts/inner/.git",
        "lib/parts/inner/deep.yaml",
    ];
    assert_eq!(names, expected);
}

#[tokio::test]
async fn apps_of_github_get_tokens_by_id_and_by_owner() {
    use everflow_fetch::http::{Client, ClientOptions};
    use everflow_git::GithubApp;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app");
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "rsa", "-b", "2048", "-m", "PEM", "-N", "", "-f"])
        .arg(&path)
        .stdin(Stdio::null())
        .output();
    if !made.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: ssh-keygen is not on this machine");
        return;
    }
    let key = std::fs::read(&path).unwrap();
    let world = World::new();
    let mut incoming = world.dialer.listen("github", 80);
    tokio::spawn(async move {
        while let Some(mut stream) = incoming.recv().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            let head = String::from_utf8(head).unwrap();
            assert!(head.contains("authorization: Bearer ey"), "{head}");
            let (status, body) = match head.lines().next().unwrap() {
                "GET /api/v3/app/installations?per_page=100&page=1 HTTP/1.1" => {
                    ("200 OK", r#"[{"id": 7, "account": {"login": "Acme"}}]"#)
                }
                "POST /api/v3/app/installations/7/access_tokens HTTP/1.1" => {
                    ("201 Created", r#"{"token": "t0k", "expires_at": "soon"}"#)
                }
                _ => ("404 Not Found", r#"{"message": "Not Found"}"#),
            };
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
            );
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    let client = Client::new(&world.env, ClientOptions::default()).unwrap();
    let deadline = client.deadline(Duration::from_secs(30));
    let app = |id: Option<&str>, owner: Option<&str>| GithubApp {
        app_id: "12".to_owned(),
        private_key: key.clone().into(),
        installation_id: id.map(str::to_owned),
        installation_owner: owner.map(str::to_owned),
        base_url: Some("http://github/api/v3".to_owned()),
    };
    for (id, owner) in [(Some("7"), None), (None, Some("acme"))] {
        let token = app(id, owner)
            .token(&client, 1000, &deadline)
            .await
            .unwrap();
        assert_eq!(token.token.reveal(), "t0k");
        assert!(!format!("{token:?}").contains("t0k"));
    }
    let error = app(Some("8"), None)
        .token(&client, 0, &deadline)
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("404 Not Found: Not Found"),
        "{error}"
    );
    let error = app(None, Some("x"))
        .token(&client, 0, &deadline)
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("not installed for \"x\""),
        "{error}"
    );
}
