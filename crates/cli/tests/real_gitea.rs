//! A push to a real Gitea reaches the cluster by its webhook, and the status of the commit comes back. Runs when
//! `EVERFLOW_REAL` is set and `real/peers.sh build gitea` was run.
#![allow(clippy::unwrap_used, clippy::print_stdout, dead_code)]

#[path = "common/cluster.rs"]
mod cluster;
#[path = "common/delivery.rs"]
mod delivery;
#[path = "../../fetch/tests/support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cluster::Cluster;
use delivery::{Engine, NAMESPACE, World, write};
use everflow_json::{Value, json};

/// A Gitea with one private repository, ended with the test.
struct Gitea {
    place: tempfile::TempDir,
    port: u16,
    child: Option<Child>,
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

fn must(command: &mut Command) -> String {
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
    fn new(binary: &Path) -> Self {
        let place = tempfile::tempdir().unwrap();
        let gitea = Gitea {
            place,
            port: free_port(),
            child: None,
        };
        let work = gitea.work();
        std::fs::create_dir_all(work.join("data")).unwrap();
        // It does not run as root, and another user does not reach the cache.
        let beside = binary.parent().unwrap();
        must(Command::new("cp").arg(binary).arg(work.join("gitea")));
        must(
            Command::new("cp")
                .arg("-r")
                .arg(beside.join("static"))
                .arg(work.join("static")),
        );
        std::fs::write(work.join("app.ini"), gitea.settings("channel")).unwrap();
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
        let (work, port) = (self.work().display().to_string(), self.port);
        format!(
            "WORK_PATH = {work}\n[server]\nHTTP_ADDR = 127.0.0.1\nHTTP_PORT = {port}\n\
             ROOT_URL = http://127.0.0.1:{port}/\nSTATIC_ROOT_PATH = {work}/static\nOFFLINE_MODE = true\n\
             LFS_START_SERVER = false\nDISABLE_SSH = true\n[database]\nDB_TYPE = sqlite3\nPATH = {work}/gitea.db\n\
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

    fn token(&self, name: &str) -> String {
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

    fn start(&mut self) {
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

    fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn api(&self, token: &str, method: &str, path: &str, body: Option<Value>) -> Value {
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
        everflow_json::from_str(&must(&mut curl)).unwrap_or_default()
    }

    /// Waits for a status of a commit: success, by Kustomization `apps`.
    async fn status_of(&self, token: &str, commit: &str) -> Duration {
        let since = Instant::now();
        for _ in 0..600 {
            let path = format!("repos/openova/flux/commits/{commit}/statuses");
            let all = self.api(token, "GET", &path, None);
            let found = all.as_array().unwrap().iter().any(|status| {
                let context = status["context"].as_str().unwrap_or_default();
                status["status"] == "success" && context.starts_with("kustomization/apps/")
            });
            if found {
                return since.elapsed();
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("no status of {commit} by the Kustomization");
    }
}

impl Drop for Gitea {
    fn drop(&mut self) {
        self.stop();
    }
}

fn git(work: &Path, arguments: &[&str]) -> String {
    let mut git = Command::new("git");
    git.current_dir(work)
        .args(["-c", "user.name=dev", "-c", "user.email=dev@example.com"]);
    must(git.args(arguments))
}

fn commit(work: &Path, value: &str) -> String {
    let text = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: settings, namespace: {NAMESPACE}}}\ndata: {{value: {value}}}\n"
    );
    write(work, "apps/settings.yaml", &text);
    git(work, &["add", "-A"]);
    git(work, &["commit", "-qm", value]);
    git(work, &["push", "-q", "origin", "main"]);
    git(work, &["rev-parse", "HEAD"])
}

fn secret(name: &str, data: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE},
        "stringData": data,
    })
}

fn flux(kind: &str, name: &str, version: &str, spec: Value) -> Value {
    json!({
        "apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    })
}

async fn put_objects(world: &World, gitea: &Gitea, token: &str) {
    let address = format!("http://127.0.0.1:{}/openova/flux", gitea.port);
    let source = "source.toolkit.fluxcd.io/v1";
    let notification = "notification.toolkit.fluxcd.io";
    put_token(world, token).await;
    world
        .apply(secret("hook", json!({"token": "everflow-hook"})))
        .await;
    for object in [
        flux(
            "GitRepository",
            "flux",
            source,
            json!({
                "interval": "1h", "url": format!("{address}.git"), "ref": {"branch": "main"},
                "secretRef": {"name": "git"},
            }),
        ),
        flux(
            "Kustomization",
            "apps",
            "kustomize.toolkit.fluxcd.io/v1",
            json!({
                "interval": "1h", "prune": true, "path": "./apps",
                "sourceRef": {"kind": "GitRepository", "name": "flux"},
            }),
        ),
        flux(
            "Receiver",
            "gitea",
            &format!("{notification}/v1"),
            json!({
                "type": "github", "events": ["push"], "secretRef": {"name": "hook"},
                "resources": [{"kind": "GitRepository", "name": "flux"}],
            }),
        ),
        flux(
            "Provider",
            "gitea",
            &format!("{notification}/v1beta3"),
            json!({
                "type": "gitea", "address": address, "secretRef": {"name": "gitea"},
            }),
        ),
        flux(
            "Alert",
            "gitea",
            &format!("{notification}/v1beta3"),
            json!({
                "providerRef": {"name": "gitea"},
                "eventSources": [{"kind": "Kustomization", "name": "*"}],
            }),
        ),
    ] {
        world.apply(object).await;
    }
}

async fn put_token(world: &World, token: &str) {
    world
        .apply(secret("git", json!({"username": "dev", "password": token})))
        .await;
    world.apply(secret("gitea", json!({"token": token}))).await;
}

/// Waits until the ConfigMap has a value; how long that took.
async fn applied(world: &World, value: &str, since: Instant) -> Duration {
    for _ in 0..3_000 {
        let settings = world.get("v1", "ConfigMap", "settings").await;
        if settings.is_some_and(|settings| settings["data"]["value"] == value) {
            return since.elapsed();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let repository = world
        .get("source.toolkit.fluxcd.io/v1", "GitRepository", "flux")
        .await;
    panic!(
        "{value} is not applied: {repository:#?} {:#?}",
        world.kustomization("apps").await
    );
}

async fn webhook_path(world: &World) -> String {
    for _ in 0..100 {
        let receiver = world
            .get("notification.toolkit.fluxcd.io/v1", "Receiver", "gitea")
            .await;
        let path = receiver
            .as_ref()
            .and_then(|receiver| receiver["status"]["webhookPath"].as_str());
        if let Some(path) = path {
            return path.to_owned();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the Receiver gets no path");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_to_gitea_is_applied_and_its_status_comes_back() {
    if !everflow_corpus::real::wanted("the run with a real Gitea") {
        return;
    }
    let Some(binary) = everflow_corpus::real::installed("gitea") else {
        println!("skipped: Gitea is not built; run real/peers.sh build gitea");
        return;
    };
    let mut gitea = Gitea::new(&binary);
    gitea.start();
    let token = gitea.token("first");
    gitea.api(&token, "POST", "orgs", Some(json!({"username": "openova"})));
    let repository = json!({"name": "flux", "private": true, "default_branch": "main"});
    gitea.api(&token, "POST", "orgs/openova/repos", Some(repository));

    let cluster = Cluster::start("gitea", &[]);
    let kubeconfig = cluster.directory.join("kubeconfig");
    let world = World::new(&kubeconfig);
    for definition in everflow_api::crds() {
        world.apply(definition).await;
    }
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    world.apply(namespace).await;
    let work = world.place.path().join("clone");
    std::fs::create_dir_all(&work).unwrap();
    git(&work, &["init", "-q", "-b", "main"]);
    let remote = format!(
        "http://dev:everflow-dev@127.0.0.1:{}/openova/flux.git",
        gitea.port
    );
    git(&work, &["remote", "add", "origin", &remote]);
    commit(&work, "one");

    let hooks = format!("127.0.0.1:{}", free_port());
    let mut engine = Command::new(env!("CARGO_BIN_EXE_everflow"));
    engine.args([
        "run",
        "--log-level",
        "info",
        "--receiver-addr",
        &hooks,
        "--kubeconfig",
    ]);
    engine
        .arg(&kubeconfig)
        .arg("--storage-path")
        .arg(world.place.path().join("store"));
    let log = std::fs::File::create(world.place.path().join("log")).unwrap();
    let _engine = Engine(engine.stdout(Stdio::null()).stderr(log).spawn().unwrap());
    put_objects(&world, &gitea, &token).await;
    applied(&world, "one", Instant::now()).await;
    let path = webhook_path(&world).await;
    // What was pushed before the hook was there may still be on its way.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let hook = json!({
        "type": "gitea", "active": true, "events": ["push"],
        "config": {
            "url": format!("http://{hooks}{path}"), "content_type": "json", "secret": "everflow-hook",
        },
    });
    gitea.api(&token, "POST", "repos/openova/flux/hooks", Some(hook));

    let second = commit(&work, "two");
    let taken = applied(&world, "two", Instant::now()).await;
    let told = gitea.status_of(&token, &second).await;
    println!("push to applied: {taken:?}; from then to the status of the commit: {told:?}");
    assert!(taken < Duration::from_secs(10), "{taken:?}");

    // The token is rotated, and Gitea is away in between.
    let rotated = gitea.token("second");
    gitea.api(&rotated, "GET", "user", None);
    put_token(&world, &rotated).await;
    let basic = format!(
        "http://127.0.0.1:{}/api/v1/users/dev/tokens/first",
        gitea.port
    );
    must(Command::new("curl").args(["-fsS", "-X", "DELETE", "-u", "dev:everflow-dev", &basic]));
    gitea.stop();
    gitea.start();
    let third = commit(&work, "three");
    let taken = applied(&world, "three", Instant::now()).await;
    println!("after a restart and with another token, push to applied: {taken:?}");
    gitea.status_of(&rotated, &third).await;
    let log = std::fs::read_to_string(world.place.path().join("log")).unwrap();
    for secret in [&token, &rotated, "everflow-hook"] {
        assert!(!log.contains(secret), "the log shows a secret");
    }
}
