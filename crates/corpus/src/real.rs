//! The real peers, for the tests that compare with them: programs that `real/peers.sh` has built,
//! and a real API server for the time of a test. All of it only when `EVERFLOW_REAL` is set.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Whether the tests against the real peers are wanted; says what is skipped when not.
pub fn wanted(what: &str) -> bool {
    let wanted = std::env::var_os("EVERFLOW_REAL").is_some();
    if !wanted {
        println!("skipped: {what} (set EVERFLOW_REAL=1, as real/test.sh does)");
    }
    wanted
}

/// Where the real program is, when the comparison is wanted.
///
/// # Panics
/// When it is wanted and not built.
pub fn program(name: &str) -> Option<PathBuf> {
    if !wanted(&format!("the comparison with the real {name}")) {
        return None;
    }
    let output = script(&["path", name], None);
    assert!(
        output.status.success(),
        "the real {name} is not built; run real/peers.sh build {name}"
    );
    let path = String::from_utf8_lossy(&output.stdout);
    Some(PathBuf::from(path.trim()))
}

/// Where the real program is: on `PATH`, or built into the cache of the peers.
pub fn installed(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|directory| directory.join(name));
    if let Some(found) = places.find(|file| file.is_file()) {
        return Some(found);
    }
    let output = script(&["path", name], None);
    let printed = String::from_utf8_lossy(&output.stdout);
    output.status.success().then(|| printed.trim().into())
}

fn script(arguments: &[&str], directory: Option<&Path>) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../real/peers.sh");
    match Command::new(&script)
        .args(arguments)
        .args(directory)
        .output()
    {
        Ok(output) => output,
        Err(error) => panic!("{}: {error}", script.display()),
    }
}

/// A request to an [`ApiServer`].
#[derive(Debug, Default)]
pub struct Request<'a> {
    /// The method.
    pub method: &'a str,
    /// The path with its query.
    pub path: &'a str,
    /// Further headers.
    pub headers: Vec<(&'a str, String)>,
    /// The body, if there is one.
    pub body: Option<Vec<u8>>,
}

/// What an [`ApiServer`] answered.
#[derive(Debug)]
pub struct Answer {
    /// The code.
    pub status: u16,
    /// The body as it came.
    pub body: Vec<u8>,
}

/// A running etcd and kube-apiserver of our own; stopped and removed when dropped.
#[derive(Debug)]
pub struct ApiServer {
    directory: PathBuf,
    address: String,
    token: String,
}

impl ApiServer {
    /// Starts one, when the comparison is wanted. `name` tells its directory from others.
    ///
    /// # Panics
    /// When it is wanted and does not start.
    pub fn start(name: &str) -> Option<Self> {
        Self::start_with(name, &[])
    }

    /// Starts one with further programs: `--controller-manager`, `--scheduler`.
    ///
    /// # Panics
    /// When it is wanted and does not start.
    pub fn start_with(name: &str, more: &[&str]) -> Option<Self> {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        if !wanted(&format!("{name} on a real API server")) {
            return None;
        }
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let process = std::process::id();
        let directory =
            std::env::temp_dir().join(format!("everflow-real-{name}-{process}-{number}"));
        let started = script(&[&["start"], more, &["--dir"]].concat(), Some(&directory));
        let said = String::from_utf8_lossy(&started.stderr);
        assert!(started.status.success(), "real/peers.sh start: {said}");
        let kubeconfig = std::fs::read_to_string(directory.join("kubeconfig")).unwrap_or_default();
        let field = |name: &str| {
            let mut lines = kubeconfig.lines();
            let value = lines.find_map(|line| line.trim().strip_prefix(name));
            value
                .unwrap_or_default()
                .trim()
                .trim_matches('"')
                .to_owned()
        };
        Some(ApiServer {
            address: field("server:"),
            token: field("token:"),
            directory,
        })
    }

    /// A directory that goes with the server; tests may keep their files in it.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// How a client gets in.
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    /// Sends requests one after the other over one connection, and gives what came back for each.
    ///
    /// # Panics
    /// When there is no answer to one of them.
    pub fn send(&self, requests: &[Request<'_>]) -> Vec<Answer> {
        let work = self.directory.join("requests");
        let _ = std::fs::remove_dir_all(&work);
        must(std::fs::create_dir_all(&work));
        let config = work.join("config");
        must(std::fs::write(&config, self.curl_config(&work, requests)));
        let output = must(Command::new("curl").arg("--config").arg(&config).output());
        let codes = String::from_utf8_lossy(&output.stdout);
        let codes: Vec<u16> = codes.lines().filter_map(|line| line.parse().ok()).collect();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(codes.len(), requests.len(), "{said}");
        let answers = codes.into_iter().enumerate();
        answers
            .map(|(index, status)| Answer {
                status,
                body: std::fs::read(work.join(format!("answer-{index}"))).unwrap_or_default(),
            })
            .collect()
    }

    fn curl_config(&self, work: &Path, requests: &[Request<'_>]) -> String {
        let mut config = String::new();
        for (index, request) in requests.iter().enumerate() {
            if index > 0 {
                config.push_str("next\n");
            }
            let method = request.method;
            let _ = writeln!(config, "silent\ninsecure\nrequest = \"{method}\"");
            let _ = writeln!(config, "url = \"{}{}\"", self.address, request.path);
            let _ = writeln!(config, "header = \"Authorization: Bearer {}\"", self.token);
            for (name, value) in &request.headers {
                let _ = writeln!(config, "header = \"{name}: {value}\"");
            }
            if let Some(body) = &request.body {
                let file = work.join(format!("body-{index}"));
                must(std::fs::write(&file, body));
                let _ = writeln!(config, "data-binary = \"@{}\"", file.display());
            }
            let answer = work.join(format!("answer-{index}"));
            let _ = writeln!(config, "output = \"{}\"", answer.display());
            config.push_str("write-out = \"%{http_code}\\n\"\n");
        }
        config
    }
}

fn must<T>(result: std::io::Result<T>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        let _ = script(&["stop", "--dir"], Some(&self.directory));
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
