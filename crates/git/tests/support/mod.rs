//! Servers for tests: `git http-backend` behind the in-memory dialer, and programs that run beside the test.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    dead_code
)]

#[path = "../../../fetch/tests/support/mod.rs"]
pub mod running;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use everflow_env::MemoryDialer;
use everflow_fetch::Secret;
use everflow_git::{Error, GitAuth, SshAuth};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Whether git is on this machine; says so when it is not.
pub fn git_is_here() -> bool {
    let here = Command::new("git").arg("--version").output().is_ok();
    if !here {
        eprintln!("skipped: git is not on this machine");
    }
    here
}

/// Runs git and gives its output.
pub fn git(directory: &Path, when: u32, arguments: &[&str]) -> String {
    let date = format!("2026-01-{:02}T00:00:00Z", when.clamp(1, 9));
    let output = Command::new("git")
        .arg("-C")
        .arg(directory)
        .args(arguments)
        .env("GIT_AUTHOR_NAME", "Dev")
        .env("GIT_AUTHOR_EMAIL", "dev@example.com")
        .env("GIT_COMMITTER_NAME", "Dev")
        .env("GIT_COMMITTER_EMAIL", "dev@example.com")
        .env("GIT_AUTHOR_DATE", &date)
        .env("GIT_COMMITTER_DATE", &date)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "git {arguments:?}: {shown}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// How to prove who we are by SSH.
pub fn ssh_auth(secret: &str, password: Option<&str>, known: &str) -> Result<GitAuth, Error> {
    let identity = Secret::new(secret.as_bytes().to_vec());
    let password = password.map(Secret::from);
    let auth = SshAuth::new(identity, password, known.as_bytes().to_vec())?;
    Ok(GitAuth::Ssh(auth))
}

/// Serves the repositories below a directory at `host:port`; counts the requests.
pub struct GitServer {
    pub requests: Arc<AtomicUsize>,
}

impl GitServer {
    pub fn start(
        dialer: &MemoryDialer,
        host: &str,
        port: u16,
        root: &Path,
        version_2: bool,
    ) -> Self {
        let requests = Arc::new(AtomicUsize::new(0));
        let mut incoming = dialer.listen(host, port);
        let (root, counter) = (root.to_owned(), requests.clone());
        tokio::spawn(async move {
            while let Some(stream) = incoming.recv().await {
                let (root, counter) = (root.clone(), counter.clone());
                tokio::spawn(async move { converse(stream, root, counter, version_2).await });
            }
        });
        GitServer { requests }
    }

    /// The same on a port of this machine.
    pub fn on_tcp(listener: tokio::net::TcpListener, root: &Path) -> Self {
        let requests = Arc::new(AtomicUsize::new(0));
        let (root, counter) = (root.to_owned(), requests.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (root, counter) = (root.clone(), counter.clone());
                tokio::spawn(async move { converse(stream, root, counter, true).await });
            }
        });
        GitServer { requests }
    }

    pub fn count(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

async fn converse(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    root: PathBuf,
    counter: Arc<AtomicUsize>,
    version_2: bool,
) {
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_) => return,
            }
        }
        let head = String::from_utf8(head).unwrap();
        counter.fetch_add(1, Ordering::SeqCst);
        let header = |name: &str| {
            head.lines().find_map(|line| {
                let (key, value) = line.split_once(": ")?;
                key.eq_ignore_ascii_case(name).then(|| value.to_owned())
            })
        };
        let length = header("content-length").map_or(0, |text| text.parse().unwrap());
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.unwrap();
        let mut words = head.split(' ');
        let method = words.next().unwrap().to_owned();
        let target = words.next().unwrap().to_owned();
        let answer = if target.contains("/hang/") {
            std::future::pending::<Vec<u8>>().await
        } else if target.contains("/forbid/") {
            plain("403 Forbidden")
        } else if target.contains("/err/") {
            plain("500 Internal Server Error")
        } else if target.starts_with("/auth/")
            && !matches!(
                header("authorization").as_deref(),
                Some("Basic dXNlcjpwYXNz" | "Bearer tok")
            )
        {
            plain("401 Unauthorized")
        } else {
            let target = target.replacen("/auth/", "/", 1);
            let protocol = header("git-protocol").filter(|_| version_2);
            let kind = header("content-type");
            tokio::task::block_in_place(|| backend(&root, &method, &target, protocol, kind, &body))
        };
        if stream.write_all(&answer).await.is_err() {
            return;
        }
    }
}

fn plain(status: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").into_bytes()
}

/// One request to `git http-backend`.
fn backend(
    root: &Path,
    method: &str,
    target: &str,
    protocol: Option<String>,
    kind: Option<String>,
    body: &[u8],
) -> Vec<u8> {
    use std::io::Write;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut command = Command::new("git");
    command
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("PATH_INFO", path)
        .env("QUERY_STRING", query)
        .env("REQUEST_METHOD", method)
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("CONTENT_TYPE", kind.unwrap_or_default())
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    if let Some(protocol) = protocol {
        command.env("GIT_PROTOCOL", protocol);
    }
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(body).unwrap();
    let output = child.wait_with_output().unwrap().stdout;
    let end = output
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap();
    let head = String::from_utf8(output[..end].to_vec()).unwrap();
    let content = &output[end + 4..];
    let mut status = "200 OK".to_owned();
    let mut headers = String::new();
    for line in head.lines() {
        match line.strip_prefix("Status: ") {
            Some(text) => status = text.to_owned(),
            None => headers.push_str(&format!("{line}\r\n")),
        }
    }
    let content = if status.starts_with("404") {
        &b""[..]
    } else {
        content
    };
    let length = content.len();
    let mut answer =
        format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\n\r\n").into_bytes();
    answer.extend_from_slice(content);
    answer
}
