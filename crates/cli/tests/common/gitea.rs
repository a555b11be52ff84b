//! A real Gitea on loopback.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use everflow_json::{Value, json};

/// A Gitea with a user, ended with the test.
pub struct Gitea {
    place: tempfile::TempDir,
    pub port: u16,
    /// Where git is spoken over SSH.
    pub ssh: u16,
    child: Option<Child>,
}

pub fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

pub fn must(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn is_root() -> bool {
    must(Command::new("id").arg("-u")) == "0"
}

impl Gitea {
    pub fn new(binary: &Path) -> Self {
        let place = tempfile::tempdir().unwrap();
        let gitea = Gitea {
            place,
            port: free_port(),
            ssh: free_port(),
            child: None,
        };
        let work = gitea.work();
        std::fs::create_dir_all(work.join("data/ssh")).unwrap();
        // Otherwise it makes an RSA key at its first start, which takes long.
        let key = work.join("data/ssh/host.ed25519");
        must(
            Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(key),
        );
        // It does not run as root, and another user does not reach the cache.
        let beside = binary.parent().unwrap();
        must(Command::new("cp").arg(binary).arg(work.join("gitea")));
        must(
            Command::new("cp")
                .arg("-r")
                .arg(beside.join("static"))
                .arg(work.join("static")),
        );
        gitea.queue_by("channel");
        if is_root() {
            must(Command::new("chown").args(["-R", "nobody"]).arg(&work));
            must(Command::new("chmod").arg("711").arg(gitea.place.path()));
        }
        gitea.must(&["migrate"]);
        gitea.must(&[
            "admin",
            "user",
            "create",
            "--admin",
            "--username",
            "dev",
            "--password",
            "everflow-dev",
            "--email",
            "dev@example.com",
            "--must-change-password=false",
        ]);
        gitea
    }

    fn work(&self) -> PathBuf {
        self.place.path().join("work")
    }

    fn settings(&self, queue: &str) -> String {
        let (work, port, ssh) = (self.work().display().to_string(), self.port, self.ssh);
        format!(
            "WORK_PATH = {work}\n[server]\nHTTP_ADDR = 127.0.0.1\nHTTP_PORT = {port}\n\
             ROOT_URL = http://127.0.0.1:{port}/\nSTATIC_ROOT_PATH = {work}/static\nOFFLINE_MODE = true\n\
             LFS_START_SERVER = false\nSTART_SSH_SERVER = true\nBUILTIN_SSH_SERVER_USER = git\n\
             SSH_DOMAIN = 127.0.0.1\nSSH_PORT = {ssh}\nSSH_LISTEN_HOST = 127.0.0.1\nSSH_LISTEN_PORT = {ssh}\n\
             SSH_SERVER_HOST_KEYS = ssh/host.ed25519\n[database]\nDB_TYPE = sqlite3\nPATH = {work}/gitea.db\n\
             SQLITE_JOURNAL_MODE = WAL\n[security]\nINSTALL_LOCK = true\nSECRET_KEY = everflow\n\
             [oauth2]\nENABLED = false\n[service]\nDISABLE_REGISTRATION = true\n\
             [webhook]\nALLOWED_HOST_LIST = loopback\n[queue]\nTYPE = {queue}\n[session]\nPROVIDER = memory\n\
             [indexer]\nISSUE_INDEXER_TYPE = db\n[actions]\nENABLED = false\n[packages]\nENABLED = false\n\
             [cron]\nENABLED = false\n[log]\nMODE = console\nLEVEL = Warn\n"
        )
    }

    fn command(&self) -> Command {
        let work = self.work();
        let path = std::env::var("PATH").unwrap();
        let mut command = match is_root() {
            true => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups"]);
                command.arg(work.join("gitea"));
                command
            }
            false => Command::new(work.join("gitea")),
        };
        command
            .env_clear()
            .env("HOME", &work)
            .env("PATH", path)
            .current_dir(&work);
        command.arg("-c").arg(work.join("app.ini"));
        command
    }

    fn must(&self, arguments: &[&str]) -> String {
        must(self.command().args(arguments))
    }

    pub fn token(&self, name: &str) -> String {
        self.must(&[
            "admin",
            "user",
            "generate-access-token",
            "--username",
            "dev",
            "--token-name",
            name,
            "--scopes",
            "all",
            "--raw",
        ])
    }

    pub fn start(&mut self) {
        let child = self
            .command()
            .arg("web")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.child = Some(child.unwrap());
        for _ in 0..300 {
            let url = format!("http://127.0.0.1:{}/api/healthz", self.port);
            let healthy = Command::new("curl")
                .args(["-fs", "-o", "/dev/null", &url])
                .status();
            if healthy.unwrap().success() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("Gitea does not come up");
    }

    /// How what it has to do is queued, from its next start on: `channel` in memory, which is fast, or `level` on disk.
    pub fn queue_by(&self, queue: &str) {
        std::fs::write(self.work().join("app.ini"), self.settings(queue)).unwrap();
    }

    /// Ends it as a crash would.
    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub fn api(&self, token: &str, method: &str, path: &str, body: Option<Value>) -> Value {
        let answer = self.try_api(token, method, path, body);
        answer.unwrap_or_else(|| panic!("{method} {path} is refused"))
    }

    /// The answer to a request, unless it is refused.
    pub fn try_api(
        &self,
        token: &str,
        method: &str,
        path: &str,
        body: Option<Value>,
    ) -> Option<Value> {
        let url = format!("http://127.0.0.1:{}/api/v1/{path}", self.port);
        let authorization = format!("Authorization: token {token}");
        let mut curl = Command::new("curl");
        curl.args(["-fsS", "-X", method, "-H", &authorization, &url]);
        if let Some(body) = body {
            curl.args([
                "-H",
                "Content-Type: application/json",
                "-d",
                &body.to_string(),
            ]);
        }
        let output = curl.output().unwrap();
        let is_taken = output.status.success();
        is_taken.then(|| everflow_json::from_slice(&output.stdout).unwrap_or_default())
    }

    /// A private repository of the organisation `openova`, without a commit.
    pub fn repository(&self, token: &str, name: &str) {
        let organisation = json!({"username": "openova"});
        if self.try_api(token, "GET", "orgs/openova", None).is_none() {
            self.api(token, "POST", "orgs", Some(organisation));
        }
        let repository = json!({"name": name, "private": true, "default_branch": "main"});
        self.api(token, "POST", "orgs/openova/repos", Some(repository));
    }
}

impl Drop for Gitea {
    fn drop(&mut self) {
        self.stop();
    }
}
