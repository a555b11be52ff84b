//! `everflow bootstrap` from a repository to a cluster that is kept by it: over HTTP and SSH, from nothing, again, and
//! over a repository that flux bootstrapped.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    dead_code
)]

#[path = "common/cluster.rs"]
mod cluster;
#[path = "common/delivery.rs"]
mod delivery;
#[path = "bootstrap_parts/hosting.rs"]
mod hosting;
#[path = "bootstrap_parts/manifests.rs"]
mod manifests;
#[path = "../../git/tests/support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use cluster::Cluster;
use delivery::{Engine, World, write};
use everflow_git::testing::keygen;
use everflow_json::Value;
use everflow_runtime::client::At;
use support::{GitServer, git, git_is_here};

const SYNC: &str = "clusters/one/flux-system/gotk-sync.yaml";
const COMPONENTS: &str = "clusters/one/flux-system/gotk-components.yaml";

/// A cluster with an engine beside it, and repositories that are served.
struct Place {
    cluster: Cluster,
    world: World,
    root: PathBuf,
    port: u16,
    _server: GitServer,
    _engine: Option<Engine>,
}

impl Place {
    async fn new(name: &str, with_engine: bool) -> Self {
        let cluster = Cluster::start(name, &[]);
        let kubeconfig = cluster.directory.join("kubeconfig");
        let world = World::new(&kubeconfig);
        for definition in everflow_api::crds() {
            world.apply(definition).await;
        }
        cluster.file("everflow.yaml", &manifests::everflow_yaml());
        let root = world.place.path().join("repositories");
        hosting::bare(&root.join("fleet.git"));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = GitServer::on_tcp(listener, &root);
        let storage = cluster.directory.join("storage");
        let engine = with_engine.then(|| Engine::start(&kubeconfig, &storage));
        Place {
            cluster,
            world,
            root,
            port,
            _server: server,
            _engine: engine,
        }
    }

    /// Runs the program; whether it succeeded, and what it told.
    async fn run(&self, words: &[&str]) -> (bool, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_everflow"));
        command
            .args(words)
            .current_dir(&self.cluster.directory)
            .env("KUBECONFIG", self.cluster.directory.join("kubeconfig"))
            .env("HOME", &self.cluster.directory)
            .env("GITEA_TOKEN", "tea")
            .env("GITHUB_TOKEN", "tea")
            .env("GITLAB_TOKEN", "tea")
            .env("BITBUCKET_TOKEN", "tea")
            .stdin(std::process::Stdio::null());
        let running = tokio::task::spawn_blocking(move || command.output().unwrap());
        let output = running.await.unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        (output.status.success(), told)
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/fleet.git", self.port)
    }

    async fn bootstrap(&self, more: &[&str]) -> (bool, String) {
        let url = format!("--url={}", self.url());
        let mut words = vec![
            "bootstrap",
            "git",
            &url,
            "--allow-insecure-http",
            "--token-auth",
            "--username=dev",
            "--password=pass",
            "--path=clusters/one",
            "--manifests=everflow.yaml",
            "--timeout=2m",
        ];
        words.extend(more);
        self.run(&words).await
    }

    fn fleet(&self) -> PathBuf {
        self.root.join("fleet.git")
    }

    async fn get(&self, api_version: &str, kind: &str, name: &str) -> Option<Value> {
        let resource = self.world.resource(api_version, kind).await;
        let at = At::new("flux-system", name);
        self.world.client.get(&resource, at).await.ok()
    }

    async fn deployment(&self, name: &str) -> Option<Value> {
        self.get("apps/v1", "Deployment", name).await
    }

    async fn until(&self, what: &str, mut test: impl AsyncFnMut() -> bool) {
        for _ in 0..600 {
            if test().await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        panic!("not in time: {what}");
    }
}

fn commits(repository: &Path) -> String {
    git(repository, 1, &["log", "--format=%s", "main"])
}

fn show(repository: &Path, file: &str) -> String {
    git(repository, 1, &["show", &format!("main:{file}")])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_bootstrapped_and_again_without_a_change() {
    if !git_is_here() {
        return;
    }
    let place = Place::new("bootstrap-git", true).await;
    let (done, told) = place
        .bootstrap(&[
            "--commit-message-appendix=[ci skip]",
            "--author-email=a@b.c",
        ])
        .await;
    assert!(done, "{told}");
    for line in [
        "✔ cloned repository",
        "✔ reconciled components",
        "► applying source secret \"flux-system/flux-system\"",
        "✔ reconciled source secret",
        "✔ reconciled sync configuration",
        "✔ GitRepository reconciled successfully",
        "✔ Kustomization reconciled successfully",
        "✔ everflow: deployment ready",
        "✔ all components are healthy",
    ] {
        assert!(told.lines().any(|found| found == line), "{line}: {told}");
    }
    let fleet = place.fleet();
    let subjects = commits(&fleet);
    let subjects: Vec<&str> = subjects.lines().collect();
    assert_eq!(subjects.len(), 2, "{subjects:?}");
    assert_eq!(subjects[0], "Add Flux sync manifests");
    let newest = git(&fleet, 1, &["log", "-1", "--format=%an <%ae> %b", "main"]);
    assert_eq!(newest, "Flux <a@b.c> [ci skip]");
    let kustomization = show(&fleet, "clusters/one/flux-system/kustomization.yaml");
    assert!(
        kustomization.contains("- gotk-sync.yaml"),
        "{kustomization}"
    );
    assert!(!show(&fleet, SYNC).contains("pass"));
    let before = place.deployment("everflow").await.unwrap();
    let secret = place.get("v1", "Secret", "flux-system").await.unwrap();
    assert_eq!(secret["data"]["password"], "cGFzcw==");

    let (done, told) = place.bootstrap(&[]).await;
    assert!(done, "{told}");
    assert!(
        told.contains("✔ component manifests are up to date"),
        "{told}"
    );
    assert!(told.contains("✔ source secret up to date"), "{told}");
    assert!(told.contains("✔ sync manifests are up to date"), "{told}");
    assert_eq!(commits(&fleet).lines().count(), 2);
    let after = place.deployment("everflow").await.unwrap();
    assert_eq!(
        before["metadata"]["generation"],
        after["metadata"]["generation"]
    );
    let again = place.get("v1", "Secret", "flux-system").await.unwrap();
    let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
    assert_eq!(version(&again), version(&secret));
    // Another directory would take everything away that this one has brought.
    let (done, told) = place.bootstrap(&["--path=clusters/two"]).await;
    assert!(!done && told.contains("would overwrite path"), "{told}");
    assert_eq!(commits(&fleet).lines().count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repository_of_flux_is_taken_over_by_one_commit_that_can_be_reverted() {
    if !git_is_here() {
        return;
    }
    let place = Place::new("bootstrap-over", true).await;
    for object in manifests::flux() {
        place.world.apply(object).await;
    }
    let work = place.world.place.path().join("work");
    let fleet = place.fleet();
    let clone = fleet.display().to_string();
    git(
        place.world.place.path(),
        1,
        &["clone", "-q", &clone, "work"],
    );
    write(&work, COMPONENTS, &manifests::flux_yaml());
    write(&work, SYNC, &manifests::flux_sync(&place.url()));
    let own = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n\
               - gotk-components.yaml\n- gotk-sync.yaml\ncommonAnnotations: {team: ops}\n";
    write(&work, "clusters/one/flux-system/kustomization.yaml", own);
    git(&work, 1, &["add", "-A"]);
    git(&work, 1, &["commit", "-q", "-m", "flux"]);
    git(&work, 1, &["push", "-q", "origin", "HEAD:main"]);

    let (done, told) = place.bootstrap(&[]).await;
    assert!(done, "{told}");
    assert!(told.contains("✔ stopped Flux's controllers"), "{told}");
    let subjects = commits(&fleet);
    assert_eq!(subjects.lines().count(), 2, "{subjects}");
    assert!(
        subjects.starts_with("Replace Flux by Everflow v"),
        "{subjects}"
    );
    assert_eq!(
        show(&fleet, "clusters/one/flux-system/kustomization.yaml"),
        own.trim_end()
    );
    let ours = place.deployment("everflow").await.unwrap();
    assert_eq!(ours["metadata"]["annotations"]["team"], "ops");
    // Nobody has applied Flux's controllers by the Kustomization, so they are only stopped.
    let stopped = place.deployment("source-controller").await.unwrap();
    assert_eq!(stopped["spec"]["replicas"], 0);

    git(&work, 1, &["pull", "-q", "origin", "main"]);
    git(&work, 2, &["revert", "--no-edit", "HEAD"]);
    git(&work, 2, &["push", "-q", "origin", "HEAD:main"]);
    let (done, told) = place
        .run(&["reconcile", "ks", "flux-system", "--with-source"])
        .await;
    assert!(done, "{told}");
    place
        .until("Flux is back, and Everflow gone", async || {
            let flux = place.deployment("source-controller").await;
            let is_back = flux.is_some_and(|flux| flux["spec"]["replicas"] == 1);
            is_back && place.deployment("everflow").await.is_none()
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bootstrap_refuses_bad_input_before_any_change() {
    if !git_is_here() {
        return;
    }
    let place = Place::new("bootstrap-refused", false).await;
    let fleet = place.fleet();
    let refused = |told: &str, why: &str| {
        assert!(told.contains(why), "{why}: {told}");
        assert_eq!(git(&fleet, 1, &["branch", "--list"]), "", "{told}");
    };
    let (done, told) = place
        .bootstrap(&["--components-extra=image-reflector-controller"])
        .await;
    assert!(!done);
    refused(&told, "there is no such controller");
    let (done, told) = place
        .run(&["bootstrap", "git", "--url=http://127.0.0.1:1/x"])
        .await;
    assert!(!done);
    refused(&told, "pass --allow-insecure-http=true");
    // Nobody listens there for the key that the cluster would log in with.
    let more = ["--token-auth=false", "--ssh-hostname=127.0.0.1:1"];
    let (done, told) = place.bootstrap(&more).await;
    assert!(!done);
    refused(&told, "SSH key scan for host '127.0.0.1:1' failed");
    refused(&told, "say --token-auth for it to use the password");
    let (done, told) = place.bootstrap(&["--gpg-key-ring=nothing.gpg"]).await;
    assert!(!done);
    refused(&told, "failed to open the PGP key ring: nothing.gpg");
    let (done, told) = place.bootstrap(&["--token=bogus"]).await;
    assert!(!done);
    refused(
        &told,
        "Unauthorized: the API server does not take the credentials",
    );
    let (done, told) = place.bootstrap(&["--manifests=nothing.yaml"]).await;
    assert!(!done);
    refused(&told, "nothing.yaml");
    git(&fleet, 1, &["config", "http.receivepack", "false"]);
    let (done, told) = place.bootstrap(&[]).await;
    assert!(!done);
    refused(&told, "give credentials that may write");
    git(&fleet, 1, &["config", "http.receivepack", "true"]);
    for mut object in manifests::flux() {
        if object["kind"] == "Deployment" {
            object["metadata"]["annotations"]["meta.helm.sh/release-name"] = "flux2".into();
        }
        place.world.apply(object).await;
    }
    let (done, told) = place.bootstrap(&[]).await;
    assert!(!done);
    refused(
        &told,
        "with the Helm release flux-system/flux2: take it over with everflow adopt",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repository_is_made_by_an_api_and_given_a_deploy_key() {
    if !git_is_here() {
        return;
    }
    let place = Place::new("bootstrap-gitea", true).await;
    let keys = tempfile::tempdir().unwrap();
    let Some((host_key, _)) = keygen(keys.path(), "host", "ed25519", "") else {
        eprintln!("skipped: ssh-keygen is not on this machine");
        return;
    };
    let ssh = hosting::serve_git_by_ssh(&place.root, &host_key).await;
    let (port, state) = hosting::serve_api(&place.root, place.port, "tea");
    let hostname = format!("--hostname=http://127.0.0.1:{port}");
    let ssh_hostname = format!("--ssh-hostname=127.0.0.1:{ssh}");
    let words = [
        "bootstrap",
        "gitea",
        &hostname,
        &ssh_hostname,
        "--owner=openova",
        "--repository=flux",
        "--team=ops",
        "--path=clusters/one",
        "--manifests=everflow.yaml",
        "--timeout=2m",
    ];
    let (done, told) = place.run(&words).await;
    assert!(done, "{told}");
    assert!(
        told.contains("✔ repository \"openova/flux\" created"),
        "{told}"
    );
    let title = "flux-flux-system-main-clusters/one";
    let configured = format!("✔ configured deploy key \"{title}\" for \"openova/flux\"");
    assert!(told.contains(&configured), "{told}");
    assert!(
        told.contains("✔ Kustomization reconciled successfully"),
        "{told}"
    );
    let key = state.lock().unwrap().keys[0].clone();
    assert_eq!(
        (&key["title"], &key["read_only"]),
        (&title.into(), &true.into())
    );
    let source = place
        .get(
            "source.toolkit.fluxcd.io/v1",
            "GitRepository",
            "flux-system",
        )
        .await
        .unwrap();
    let url = format!("ssh://git@127.0.0.1:{ssh}/openova/flux");
    assert_eq!(source["spec"]["url"], url.as_str());

    let (done, told) = place.run(&words).await;
    assert!(done, "{told}");
    assert!(told.contains("✔ source secret up to date"), "{told}");
    assert_eq!(state.lock().unwrap().keys.len(), 1);
    let (done, told) = place
        .run(&[
            "bootstrap",
            "gitea",
            &hostname,
            "--owner=nobody",
            "--repository=flux",
        ])
        .await;
    assert!(!done && told.contains("answers 404"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_bootstrapped_over_ssh_with_a_key_of_ones_own() {
    if !git_is_here() {
        return;
    }
    let place = Place::new("bootstrap-ssh", true).await;
    let keys = tempfile::tempdir().unwrap();
    let make = |name: &str| keygen(keys.path(), name, "ed25519", "");
    let (Some((host_key, _)), Some(_)) = (make("host"), make("own")) else {
        eprintln!("skipped: ssh-keygen is not on this machine");
        return;
    };
    let ssh = hosting::serve_git_by_ssh(&place.root, &host_key).await;
    let url = format!("--url=ssh://git@127.0.0.1:{ssh}/fleet");
    let key = format!("--private-key-file={}", keys.path().join("own").display());
    let words = [
        "bootstrap",
        "git",
        &url,
        &key,
        "--ssh-signing-reuse-private-key",
        "--silent",
        "--path=clusters/one",
        "--manifests=everflow.yaml",
        "--timeout=2m",
    ];
    let (done, told) = place.run(&words).await;
    assert!(done, "{told}");
    assert!(told.contains("✔ public key: ssh-ed25519 "), "{told}");
    let raw = git(&place.fleet(), 1, &["cat-file", "commit", "main"]);
    assert!(
        raw.contains("gpgsig -----BEGIN SSH SIGNATURE-----"),
        "{raw}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_apis_of_the_other_services_are_spoken() {
    if !git_is_here() {
        return;
    }
    let place = Place::new("bootstrap-services", true).await;
    let (port, state) = hosting::serve_api(&place.root, place.port, "tea");
    let hostname = format!("--hostname=http://127.0.0.1:{port}");
    let common = [
        "--path=clusters/one",
        "--manifests=everflow.yaml",
        "--timeout=2m",
    ];
    for (words, repository, user) in [
        (
            &[
                "github",
                "--owner=octo",
                "--repository=fleet",
                "--team=ops:push",
                "--token-auth",
            ][..],
            "octo/fleet.git",
            "Z2l0",
        ),
        (
            &[
                "gitlab",
                "--owner=lab",
                "--repository=sub/fleet",
                "--visibility=internal",
                "--deploy-token-auth",
            ],
            "lab/sub/fleet.git",
            "Z2l0bGFiK2RlcGxveS10b2tlbi0x",
        ),
        (
            &[
                "bitbucket-server",
                "--owner=OPS",
                "--repository=fleet",
                "--group=dev:push",
                "--username=dev",
                "--token-auth",
            ],
            "scm/ops/fleet.git",
            "ZGV2",
        ),
    ] {
        let words = [&["bootstrap"], words, &[hostname.as_str()], &common].concat();
        let (done, told) = place.run(&words).await;
        assert!(done, "{words:?}: {told}");
        let secret = place.get("v1", "Secret", "flux-system").await.unwrap();
        assert_eq!(secret["data"]["username"], user);
        assert_eq!(commits(&place.root.join(repository)).lines().count(), 2);
        let source = place
            .get(
                "source.toolkit.fluxcd.io/v1",
                "GitRepository",
                "flux-system",
            )
            .await
            .unwrap();
        let url = source["spec"]["url"].as_str().unwrap();
        assert!(url.ends_with(repository), "{url}");
    }
    let requests = state.lock().unwrap().requests.join("\n");
    let shared = "PUT /api/v3/orgs/octo/teams/ops/repos/octo/fleet";
    assert!(requests.contains(shared), "{requests}");
}
