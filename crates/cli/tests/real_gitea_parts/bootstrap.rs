//! `everflow bootstrap` with repositories of a real Gitea.

use std::process::{Command, Stdio};

use everflow_git::testing::keygen;
use everflow_json::{Value, json};
use everflow_runtime::client::At;

use crate::cluster::Cluster;
use crate::delivery::{Engine, World, write};
use crate::gitea::Gitea;
use crate::{git, manifests};

const DIRECTORY: &str = "clusters/one/flux-system";

/// A cluster with an engine beside it.
struct Site {
    cluster: Cluster,
    world: World,
    _engine: Engine,
}

impl Site {
    async fn new(name: &str) -> Self {
        let cluster = Cluster::start(name, &[]);
        let kubeconfig = cluster.directory.join("kubeconfig");
        let world = World::new(&kubeconfig);
        for definition in everflow_api::crds() {
            world.apply(definition).await;
        }
        cluster.file("everflow.yaml", &manifests::everflow_yaml());
        let storage = cluster.directory.join("storage");
        Site {
            _engine: Engine::start(&kubeconfig, &storage),
            cluster,
            world,
        }
    }

    /// Bootstraps; what that told.
    async fn bootstrap(&self, token: &str, words: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_everflow"));
        command
            .arg("bootstrap")
            .args(words)
            .args([
                "--path=clusters/one",
                "--manifests=everflow.yaml",
                "--timeout=2m",
            ])
            .current_dir(&self.cluster.directory)
            .env("KUBECONFIG", self.cluster.directory.join("kubeconfig"))
            .env("HOME", &self.cluster.directory)
            .env("GITEA_TOKEN", token)
            .stdin(Stdio::null());
        // It would be taken for the password of a key as well.
        if words.contains(&"--token-auth") {
            command.env("GIT_PASSWORD", token);
        }
        let running = tokio::task::spawn_blocking(move || command.output().unwrap());
        let output = running.await.unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{told}");
        assert!(!told.contains(token), "the token is shown: {told}");
        told
    }

    async fn source(&self) -> Value {
        let (version, kind) = ("source.toolkit.fluxcd.io/v1", "GitRepository");
        let resource = self.world.resource(version, kind).await;
        let at = At::new("flux-system", "flux-system");
        self.world.client.get(&resource, at).await.unwrap()
    }
}

/// The subjects of the commits of a repository, the newest first.
fn commits(gitea: &Gitea, token: &str, repository: &str) -> Vec<String> {
    let path = format!("repos/openova/{repository}/commits?sha=main&stat=false&files=false");
    let all = gitea.api(token, "GET", &path, None);
    let messages = all.as_array().unwrap().iter();
    let messages = messages.map(|commit| commit["commit"]["message"].as_str().unwrap());
    messages
        .map(|message| message.lines().next().unwrap_or_default().to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_are_bootstrapped_from_gitea_by_token_deploy_key_and_own_key() {
    if !everflow_corpus::real::wanted("bootstrapping from a real Gitea") {
        return;
    }
    let Some(binary) = everflow_corpus::real::installed("gitea") else {
        println!("skipped: Gitea is not built; run real/peers.sh build gitea");
        return;
    };
    let mut gitea = Gitea::new(&binary);
    gitea.start();
    let token = gitea.token("bootstrap");
    by_token(&gitea, &token).await;
    by_deploy_key(&gitea, &token).await;
    by_own_key(&gitea, &token).await;
    over_flux(&gitea, &token).await;
}

/// `--url=http://…/openova/flux --token-auth`.
async fn by_token(gitea: &Gitea, token: &str) {
    gitea.repository(token, "flux");
    let site = Site::new("real-bootstrap-token").await;
    let url = format!("--url=http://127.0.0.1:{}/openova/flux", gitea.port);
    let words = [
        "git",
        &url,
        "--branch=main",
        "--username=dev",
        "--token-auth",
        "--allow-insecure-http",
    ];
    let told = site.bootstrap(token, &words).await;
    for line in [
        "✔ reconciled source secret",
        "✔ GitRepository reconciled successfully",
        "✔ Kustomization reconciled successfully",
        "✔ all components are healthy",
    ] {
        assert!(told.lines().any(|found| found == line), "{line}: {told}");
    }
    assert_eq!(commits(gitea, token, "flux").len(), 2);
    let told = site.bootstrap(token, &words).await;
    assert!(told.contains("✔ sync manifests are up to date"), "{told}");
    assert!(told.contains("✔ source secret up to date"), "{told}");
    assert_eq!(commits(gitea, token, "flux").len(), 2);
}

/// The repository is made, and given a deploy key, by Gitea's API.
async fn by_deploy_key(gitea: &Gitea, token: &str) {
    let site = Site::new("real-bootstrap-key").await;
    let hostname = format!("--hostname=http://127.0.0.1:{}", gitea.port);
    let ssh = format!("--ssh-hostname=127.0.0.1:{}", gitea.ssh);
    let words = [
        "gitea",
        &hostname,
        &ssh,
        "--owner=openova",
        "--repository=keys",
    ];
    let keys = || gitea.api(token, "GET", "repos/openova/keys/keys", None);
    let told = site.bootstrap(token, &words).await;
    assert!(
        told.contains("✔ repository \"openova/keys\" created"),
        "{told}"
    );
    let made = keys();
    let [key] = made.as_array().unwrap().as_slice() else {
        panic!("one deploy key is made: {made}");
    };
    assert_eq!(key["read_only"], true);
    let url = format!("ssh://git@127.0.0.1:{}/openova/keys", gitea.ssh);
    assert_eq!(site.source().await["spec"]["url"], url.as_str());
    site.bootstrap(token, &words).await;
    assert_eq!(keys(), made);
    assert_eq!(commits(gitea, token, "keys").len(), 2);
}

/// Over SSH, by a key that may write.
async fn by_own_key(gitea: &Gitea, token: &str) {
    gitea.repository(token, "own");
    let site = Site::new("real-bootstrap-own").await;
    let (_, public) = keygen(&site.cluster.directory, "own", "ed25519", "").unwrap();
    let key = json!({"title": "own", "key": public, "read_only": false});
    gitea.api(token, "POST", "repos/openova/own/keys", Some(key));
    let url = format!("--url=ssh://git@127.0.0.1:{}/openova/own", gitea.ssh);
    let words = ["git", &url, "--private-key-file=own", "--silent"];
    site.bootstrap(token, &words).await;
    assert_eq!(commits(gitea, token, "own").len(), 2);
    site.bootstrap(token, &words).await;
    assert_eq!(commits(gitea, token, "own").len(), 2);
}

/// A repository that flux bootstrapped is taken over by one commit.
async fn over_flux(gitea: &Gitea, token: &str) {
    gitea.repository(token, "over");
    let site = Site::new("real-bootstrap-over").await;
    for object in manifests::flux() {
        site.world.apply(object).await;
    }
    let (port, place) = (gitea.port, site.world.place.path());
    let work = place.join("over");
    std::fs::create_dir_all(&work).unwrap();
    let url = format!("http://127.0.0.1:{port}/openova/over");
    write(
        &work,
        &format!("{DIRECTORY}/gotk-components.yaml"),
        &manifests::flux_yaml(),
    );
    write(
        &work,
        &format!("{DIRECTORY}/gotk-sync.yaml"),
        &manifests::flux_sync(&url),
    );
    let resources = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n\
                     - gotk-components.yaml\n- gotk-sync.yaml\n";
    write(&work, &format!("{DIRECTORY}/kustomization.yaml"), resources);
    let remote = format!("http://dev:everflow-dev@127.0.0.1:{port}/openova/over.git");
    git(&work, &["init", "-q", "-b", "main"]);
    git(&work, &["add", "-A"]);
    git(&work, &["commit", "-qm", "flux"]);
    git(&work, &["push", "-q", &remote, "main"]);
    let flag = format!("--url={url}");
    let words = [
        "git",
        &flag,
        "--username=dev",
        "--token-auth",
        "--allow-insecure-http",
    ];
    let told = site.bootstrap(token, &words).await;
    assert!(told.contains("✔ stopped Flux's controllers"), "{told}");
    let subjects = commits(gitea, token, "over");
    assert_eq!(subjects.len(), 2, "{subjects:?}");
    assert!(
        subjects[0].starts_with("Replace Flux by Everflow v"),
        "{subjects:?}"
    );
}
