//! `everflow install` and `uninstall` on the embedded API server, and what a FluxInstance comes to there.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "common/cluster.rs"]
#[allow(dead_code)]
mod cluster;

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use cluster::Cluster;

fn everflow(cluster: &Cluster, arguments: &[&str]) -> Output {
    cluster.run(Path::new(env!("CARGO_BIN_EXE_everflow")), arguments)
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

const IMAGE: &str = "--image=registry.invalid/everflow:test";

#[test]
fn install_is_ready_and_a_second_time_changes_nothing_and_uninstall_leaves_what_was_deployed() {
    let cluster = Cluster::start("install", &[]);
    let first = everflow(&cluster, &["install", IMAGE, "--timeout=1m"]);
    let text = told(&first);
    assert!(first.status.success(), "{text}");
    assert!(first.stdout.is_empty());
    for line in [
        "✚ generating manifests",
        "✔ manifests build completed",
        "► installing components in flux-system namespace",
        "CustomResourceDefinition/kustomizations.kustomize.toolkit.fluxcd.io created",
        "Namespace/flux-system created",
        "Deployment/flux-system/everflow created",
        "◎ verifying installation",
        "✔ everflow: deployment ready",
        "✔ install finished",
    ] {
        assert!(text.lines().any(|other| other == line), "{line}\n{text}");
    }
    let again = told(&everflow(&cluster, &["install", IMAGE]));
    assert!(again.contains("✔ install finished"), "{again}");
    assert!(
        !again.contains(" created") && !again.contains(" configured"),
        "{again}"
    );
    let checked = everflow(&cluster, &["check"]);
    assert!(checked.status.success(), "{}", told(&checked));
    let locked = everflow(
        &cluster,
        &["install", IMAGE, "--multitenant", "--network-policy=false"],
    );
    let text = told(&locked);
    assert!(locked.status.success(), "{text}");
    // Rights and policies that were there before are taken back.
    for gone in [
        "ClusterRoleBinding/cluster-reconciler-flux-system deleted",
        "NetworkPolicy/flux-system/allow-egress deleted",
    ] {
        assert!(text.lines().any(|line| line == gone), "{gone}\n{text}");
    }
    uninstalls(&cluster);
}

/// With a Kustomization that has a finalizer, and what it would have deployed.
fn uninstalls(cluster: &Cluster) {
    let made = everflow(
        cluster,
        &[
            "create",
            "source",
            "git",
            "app",
            "--url=https://git.invalid/app",
            "--branch=main",
            "--timeout=1s",
        ],
    );
    // Nothing makes it ready; it is there all the same.
    assert!(told(&made).contains("GitRepository"), "{}", told(&made));
    let rehearsed = told(&everflow(cluster, &["uninstall", "--dry-run"]));
    assert!(
        rehearsed.contains("✔ Deployment/flux-system/everflow deleted (dry run)"),
        "{rehearsed}"
    );
    let refused = everflow(cluster, &["uninstall"]);
    assert!(!refused.status.success());
    let gone = everflow(cluster, &["uninstall", "--silent", "--keep-namespace"]);
    let text = told(&gone);
    assert!(gone.status.success(), "{text}");
    for line in [
        "► deleting components in flux-system namespace",
        "✔ Deployment/flux-system/everflow deleted",
        "✔ ClusterRoleBinding/crd-controller-flux-system deleted",
        "✔ RoleBinding/default/everflow-api-endpoints-flux-system deleted",
        "► deleting toolkit.fluxcd.io finalizers in all namespaces",
        "✔ GitRepository/flux-system/app finalizers deleted",
        "► deleting toolkit.fluxcd.io custom resource definitions",
        "✔ CustomResourceDefinition/gitrepositories.source.toolkit.fluxcd.io deleted",
        "✔ uninstall finished",
    ] {
        assert!(text.lines().any(|other| other == line), "{line}\n{text}");
    }
    assert!(!text.contains("Namespace/"), "{text}");
    let whole = told(&everflow(cluster, &["uninstall", "--silent"]));
    assert!(whole.contains("✔ Namespace/flux-system deleted"), "{whole}");
}

#[test]
fn export_is_what_install_applies_and_needs_no_cluster() {
    let cluster = Cluster::start("install-export", &[]);
    let exported = everflow(&cluster, &["install", "--export", "--kubeconfig=/nowhere"]);
    assert!(exported.status.success(), "{}", told(&exported));
    let text = printed(&exported);
    assert!(
        text.starts_with("---\napiVersion: apiextensions.k8s.io/v1\n"),
        "{text}"
    );
    assert!(text.contains("kind: PodDisruptionBudget"));
    let objects = everflow_install::manifests(&everflow_install::Options::default()).unwrap();
    assert_eq!(text, everflow_install::to_yaml(&objects));
}

#[test]
fn a_flux_instance_is_built_and_compared_with_the_cluster() {
    let cluster = Cluster::start("install-instance", &[]);
    let installed = everflow(&cluster, &["install", IMAGE, "--timeout=1m"]);
    assert!(installed.status.success(), "{}", told(&installed));
    let instance = "
apiVersion: fluxcd.controlplane.io/v1
kind: FluxInstance
metadata: {name: flux, namespace: flux-system}
spec:
  distribution: {version: 2.x, registry: ghcr.io/fluxcd}
  kustomize:
    patches:
      - target: {kind: Deployment, name: kustomize-controller}
        patch: |
          - op: add
            path: /spec/template/spec/containers/0/args/-
            value: --concurrent=20
";
    cluster.file("flux.yaml", instance);
    let build = everflow(&cluster, &["build", "instance", "-f", "flux.yaml"]);
    assert!(
        printed(&build).contains("- --concurrent=20"),
        "{}",
        told(&build)
    );
    assert!(
        told(&build).contains("spec.distribution: ghcr.io/fluxcd has Flux's images"),
        "{}",
        told(&build)
    );
    let diff = everflow(&cluster, &["diff", "instance", "-f", "flux.yaml", IMAGE]);
    assert_eq!(diff.status.code(), Some(1), "{}", told(&diff));
    let text = printed(&diff);
    assert!(
        text.starts_with("► Deployment/flux-system/everflow drifted\n"),
        "{text}"
    );
    assert!(text.contains("--concurrent=20"), "{text}");
    let kept = everflow(
        &cluster,
        &["install", IMAGE, "--instance=flux.yaml", "--timeout=1m"],
    );
    assert!(kept.status.success(), "{}", told(&kept));
    assert!(
        told(&kept).contains("Deployment/flux-system/everflow configured"),
        "{}",
        told(&kept)
    );
    let now = everflow(&cluster, &["diff", "instance", "-f", "flux.yaml", IMAGE]);
    assert_eq!(
        now.status.code(),
        Some(0),
        "{}{}",
        printed(&now),
        told(&now)
    );
    let back = everflow(&cluster, &["install", IMAGE, "--timeout=1m"]);
    assert!(back.status.success(), "{}", told(&back));
    cluster.file("plain.yaml", instance.split("  kustomize:").next().unwrap());
    let same = everflow(&cluster, &["diff", "instance", "-f", "plain.yaml", IMAGE]);
    assert_eq!(
        same.status.code(),
        Some(0),
        "{}{}",
        printed(&same),
        told(&same)
    );
}

#[test]
fn bad_flags_are_refused_before_a_cluster_is_asked() {
    let cluster = Cluster::start("install-flags", &[]);
    for (arguments, wanted) in [
        (
            &["install", "--components=source-watcher"][..],
            "component source-watcher is not supported",
        ),
        (
            &["install", "--components-extra=image-reflector-controller"],
            "leave it away",
        ),
        (
            &["install", "--version=v2.9.5"],
            "this program installs its own version",
        ),
        (
            &["install", "--registry-creds=a:b"],
            "requires --image-pull-secret",
        ),
        (&["install", "--spread-from=a b"], "is not a label selector"),
        (
            &["install", "--leader-election-lease-duration=10s"],
            "must be longer than the renew deadline",
        ),
        (
            &["build", "instance", "-f", "missing.yaml"],
            "missing.yaml:",
        ),
    ] {
        let output = everflow(&cluster, arguments);
        assert!(!output.status.success());
        let text = told(&output);
        assert!(text.contains(wanted), "{arguments:?}: {text}");
    }
}

/// An engine with the rights of the account that the pods run as.
struct Engine {
    child: Child,
    log: std::path::PathBuf,
}

impl Engine {
    fn start(cluster: &Cluster, flags: &[&str]) -> Self {
        let kubeconfig = std::fs::read_to_string(cluster.directory.join("kubeconfig")).unwrap();
        let lines = kubeconfig
            .lines()
            .map(|line| match line.trim_start().starts_with("token:") {
                true => "    token: of-the-account".to_owned(),
                false => line.to_owned(),
            });
        cluster.file("account", &lines.collect::<Vec<_>>().join("\n"));
        let log = cluster.directory.join("log");
        let child = Command::new(env!("CARGO_BIN_EXE_everflow"))
            .args([
                "run",
                "--kubeconfig",
                "account",
                "--storage-path",
                "store",
                "--enable-leader-election",
            ])
            .args([
                "--receiver-addr=127.0.0.1:0",
                "--event-server-addr=127.0.0.1:0",
            ])
            .args(flags)
            .current_dir(&cluster.directory)
            .env("RUNTIME_NAMESPACE", "flux-system")
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        Engine { child, log }
    }

    fn told(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn without_cluster_admin_the_rights_suffice_for_all_kinds() {
    let directory = tempfile::tempdir().unwrap();
    let tokens = directory.path().join("tokens");
    let account = "of-nobody,nobody,3\nof-the-account,system:serviceaccount:flux-system:everflow,2,\"system:serviceaccounts,\
                   system:serviceaccounts:flux-system,system:authenticated\"\n";
    std::fs::write(&tokens, account).unwrap();
    let file = tokens.to_str().unwrap();
    let cluster = Cluster::start("install-rights", &["--token-auth-file", file]);
    let refused = everflow(
        &cluster,
        &["install", IMAGE, "--token=of-nobody", "--force"],
    );
    assert!(!refused.status.success());
    assert!(told(&refused).contains("forbidden"), "{}", told(&refused));
    assert!(!told(&refused).contains(" created"), "{}", told(&refused));
    let installed = everflow(
        &cluster,
        &["install", IMAGE, "--multitenant", "--timeout=1m"],
    );
    assert!(installed.status.success(), "{}", told(&installed));
    let engine = Engine::start(
        &cluster,
        &[
            "--no-cross-namespace-refs",
            "--default-service-account=default",
        ],
    );
    for arguments in [
        &[
            "create",
            "source",
            "git",
            "app",
            "--url=https://127.0.0.1:1/app",
            "--branch=main",
        ][..],
        &[
            "create",
            "source",
            "helm",
            "charts",
            "--url=http://127.0.0.1:1/charts",
        ],
        &[
            "create",
            "kustomization",
            "app",
            "--source=GitRepository/app",
            "--path=./",
            "--prune",
        ],
        &[
            "create",
            "hr",
            "app",
            "--source=HelmRepository/charts",
            "--chart=app",
        ],
    ] {
        // None of them can become ready.
        let _ = everflow(&cluster, &[arguments, &["--timeout=1ms"]].concat());
    }
    let end = Instant::now() + Duration::from_secs(60);
    let done = [
        "gitrepository/app",
        "helmrepository/charts",
        "helmchart/flux-system-app",
        "kustomization/app",
        "helmrelease/app",
    ];
    loop {
        let table = printed(&everflow(&cluster, &["get", "all"]));
        let is_told = |name: &&str| {
            let mut rows = table.lines().map(|line| line.split('\t').map(str::trim));
            rows.any(|mut cells| cells.next() == Some(*name) && cells.nth(2) == Some("False"))
        };
        if done.iter().all(is_told) {
            break;
        }
        assert!(Instant::now() < end, "{table}\n{}", engine.told());
        std::thread::sleep(Duration::from_millis(200));
    }
    let log = engine.told();
    assert!(!log.to_lowercase().contains("forbidden"), "{log}");
}
