//! A service with repositories: the part of Gitea's API that is used, git over HTTP, and git over SSH.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use everflow_env::{Dialer as _, MemoryDialer};
use everflow_git::testing::{SshHost, SshStream, serve_ssh};
use everflow_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::git;

/// What the API has been asked, and what it knows.
#[derive(Default)]
pub struct State {
    pub requests: Vec<String>,
    pub keys: Vec<Value>,
}

/// A repository without a work tree that takes pushes.
pub fn bare(path: &Path) {
    std::fs::create_dir_all(path).unwrap();
    git(path, 1, &["init", "-q", "--bare", "-b", "main"]);
    git(path, 1, &["config", "http.receivepack", "true"]);
}

/// Serves the API, and hands everything else on to git's own server; the port.
pub fn serve_api(root: &Path, git_port: u16, token: &'static str) -> (u16, Arc<Mutex<State>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let state: Arc<Mutex<State>> = Arc::default();
    let (root, shared) = (root.to_owned(), state.clone());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (root, shared) = (root.clone(), shared.clone());
            std::thread::spawn(move || converse(stream.unwrap(), &root, git_port, token, &shared));
        }
    });
    (port, state)
}

fn converse(mut stream: TcpStream, root: &Path, git_port: u16, token: &str, state: &Mutex<State>) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return,
        }
    }
    let text = String::from_utf8(head.clone()).unwrap();
    let header = |name: &str| {
        text.lines().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then(|| value.to_owned())
        })
    };
    let length = header("content-length").map_or(0, |text| text.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    let target = text.split(' ').nth(1).unwrap();
    if !target.starts_with("/api/") && !target.starts_with("/rest/") {
        return forward(stream, git_port, &head, &body);
    }
    let method = text.split(' ').next().unwrap();
    let is_known = header("authorization") == Some(format!("Bearer {token}"));
    let body: Value = everflow_json::from_slice(&body).unwrap_or_default();
    let (status, answer) = match is_known {
        true => api(method, target, body, root, &mut state.lock().unwrap()),
        false => (401, json!({"message": "token is required"})),
    };
    let answer = answer.to_string();
    let reply = format!(
        "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{answer}",
        answer.len()
    );
    let _ = stream.write_all(reply.as_bytes());
    let _ = stream.shutdown(Shutdown::Both);
}

fn forward(mut stream: TcpStream, port: u16, head: &[u8], body: &[u8]) {
    let mut git = TcpStream::connect(("127.0.0.1", port)).unwrap();
    git.write_all(head).unwrap();
    git.write_all(body).unwrap();
    git.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    let _ = git.read_to_end(&mut answer);
    let _ = stream.write_all(&answer);
    let _ = stream.shutdown(Shutdown::Both);
}

fn api(method: &str, target: &str, body: Value, root: &Path, state: &mut State) -> (u16, Value) {
    state.requests.push(format!("{method} {target}"));
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let answered = match path.split('/').nth(2).unwrap() {
        "v1" => gitea(method, path, query, body, root, state),
        "v3" => github(method, path, body, root),
        "v4" => gitlab(method, path, body, root),
        _ => bitbucket(method, path, query, root),
    };
    answered.unwrap_or((404, json!({"message": "not found"})))
}

type Answered = Option<(u16, Value)>;

fn gitea(
    method: &str,
    path: &str,
    query: &str,
    body: Value,
    root: &Path,
    state: &mut State,
) -> Answered {
    let repository = root.join("openova/flux.git");
    Some(match (method, path.strip_prefix("/api/v1/")?) {
        ("GET", "repos/openova/flux") if repository.exists() => {
            (200, json!({"private": true, "default_branch": "main"}))
        }
        ("POST", "orgs/openova/repos") => {
            assert_eq!(body["private"], true);
            bare(&repository);
            (201, json!({"name": "flux"}))
        }
        ("GET", "repos/openova/flux/keys") => match query.contains("page=1&") {
            true => (200, Value::Array(state.keys.clone())),
            false => (200, json!([])),
        },
        ("POST", "repos/openova/flux/keys") => {
            let mut key = body;
            key["id"] = json!(state.keys.len() as i64 + 1);
            state.keys.push(key.clone());
            (201, key)
        }
        ("PUT", "repos/openova/flux/teams/ops") => (204, Value::Null),
        _ => return None,
    })
}

fn github(method: &str, path: &str, body: Value, root: &Path) -> Answered {
    let repository = root.join("octo/fleet.git");
    Some(match (method, path.strip_prefix("/api/v3/")?) {
        ("GET", "repos/octo/fleet") if repository.exists() => {
            (200, json!({"private": true, "default_branch": "main"}))
        }
        ("POST", "orgs/octo/repos") => {
            assert_eq!(
                (&body["name"], &body["private"]),
                (&json!("fleet"), &json!(true))
            );
            bare(&repository);
            (201, json!({"name": "fleet"}))
        }
        ("PUT", "orgs/octo/teams/ops/repos/octo/fleet") => {
            assert_eq!(body["permission"], "push");
            (204, Value::Null)
        }
        _ => return None,
    })
}

fn gitlab(method: &str, path: &str, body: Value, root: &Path) -> Answered {
    let repository = root.join("lab/sub/fleet.git");
    Some(match (method, path.strip_prefix("/api/v4/")?) {
        ("GET", "projects/lab%2Fsub%2Ffleet") if repository.exists() => {
            (200, json!({"id": 3, "visibility": "internal"}))
        }
        ("GET", "groups/lab%2Fsub") => (200, json!({"id": 7})),
        ("POST", "projects") => {
            assert_eq!(
                (&body["namespace_id"], &body["visibility"]),
                (&json!(7), &json!("internal"))
            );
            bare(&repository);
            (201, json!({"id": 3}))
        }
        ("GET", "projects/lab%2Fsub%2Ffleet/deploy_tokens") => (200, json!([])),
        ("POST", "projects/lab%2Fsub%2Ffleet/deploy_tokens") => {
            assert_eq!(body["scopes"], json!(["read_repository"]));
            (
                201,
                json!({"username": "gitlab+deploy-token-1", "token": "read-only"}),
            )
        }
        _ => return None,
    })
}

fn bitbucket(method: &str, path: &str, query: &str, root: &Path) -> Answered {
    let repository = root.join("scm/ops/fleet.git");
    let links = json!({"links": {"clone": [
        {"name": "http", "href": "http://bitbucket.example.com/scm/ops/fleet.git"},
        {"name": "ssh", "href": "ssh://git@bitbucket.example.com:7999/ops/fleet.git"}]}});
    Some(
        match (method, path.strip_prefix("/rest/api/1.0/projects/OPS/")?) {
            ("GET", "repos/fleet") if repository.exists() => (200, links),
            ("POST", "repos") => {
                bare(&repository);
                (201, links)
            }
            ("PUT", "repos/fleet/permissions/groups") => {
                assert_eq!(query, "name=dev&permission=REPO_WRITE");
                (204, Value::Null)
            }
            _ => return None,
        },
    )
}

/// Runs git on repositories for whoever comes by SSH.
#[derive(Clone)]
struct GitHost(PathBuf);

impl SshHost for GitHost {
    fn lets_in(&self, _key: &str) -> bool {
        true
    }

    fn serve(
        &self,
        command: String,
        version: Option<String>,
        stream: SshStream,
    ) -> impl Future<Output = Vec<u8>> + Send + 'static {
        let (program, path) = command.split_once(" '/").unwrap();
        let path = path.strip_suffix('\'').unwrap().trim_end_matches(".git");
        let mut process = Command::new("git");
        process.arg(program.strip_prefix("git-").unwrap());
        process.arg(self.0.join(format!("{path}.git")));
        if let Some(version) = version {
            process.env("GIT_PROTOCOL", version);
        }
        run(process, stream)
    }
}

async fn run(mut process: Command, stream: SshStream) -> Vec<u8> {
    let process = process
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = process.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let (mut from_client, mut to_client) = tokio::io::split(stream);
    let feeding = tokio::spawn(async move {
        let mut buffer = vec![0; 30_000];
        while let Ok(count @ 1..) = from_client.read(&mut buffer).await {
            if stdin.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
    });
    let (sender, mut pieces) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        let mut buffer = vec![0; 30_000];
        while let Ok(count @ 1..) = stdout.read(&mut buffer) {
            if sender.send(buffer[..count].to_vec()).is_err() {
                break;
            }
        }
        let _ = child.wait();
    });
    while let Some(piece) = pieces.recv().await {
        to_client.write_all(&piece).await.unwrap();
    }
    feeding.abort();
    Vec::new()
}

/// Serves git over SSH on a port of this machine; the port.
pub async fn serve_git_by_ssh(root: &Path, host_key: &str) -> u16 {
    let dialer = MemoryDialer::new();
    serve_ssh(&dialer, ("git", 22), host_key, GitHost(root.to_owned())).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let inner = dialer.connect("git", 22);
            tokio::spawn(async move {
                let mut inner = inner.await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut stream, &mut inner).await;
            });
        }
    });
    port
}
