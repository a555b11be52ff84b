//! `everflow up`, `test` and `diff` as a user runs them, on the example repository.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use everflow_json::Value;

fn everflow(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_everflow"))
        .args(arguments)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The example, in a place where it can be changed.
struct Example {
    root: PathBuf,
}

impl Example {
    fn new(name: &str) -> Self {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("up-{name}"));
        let _ = fs::remove_dir_all(&root);
        copy(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/quickstart"),
            &root,
        );
        Example { root }
    }

    fn path(&self) -> &str {
        self.root.to_str().unwrap()
    }

    fn write(&self, file: &str, content: &str) {
        fs::write(self.root.join(file), content).unwrap();
    }

    fn run(&self, verb: &str, more: &[&str]) -> Output {
        let common = [verb, self.path(), "--offline", "--timeout", "60s"];
        let all: Vec<&str> = common.iter().chain(more).copied().collect();
        everflow(&all)
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

#[test]
fn the_example_comes_up_for_both_clusters() {
    let example = Example::new("both");
    for cluster in ["staging", "production"] {
        let entry = format!("clusters/{cluster}");
        let output = example.run("up", &["--entry", &entry, "-o", "json"]);
        let said = text(&output.stdout);
        assert!(output.status.success(), "{said}\n{}", text(&output.stderr));
        let data: Value = everflow_json::from_str(&said).unwrap();
        assert_eq!(data["ready"], true, "{said}");
        let names: Vec<&str> = data["kustomizations"]
            .as_array()
            .unwrap()
            .iter()
            .map(|node| node["name"].as_str().unwrap())
            .collect();
        assert_eq!(
            names,
            ["apps", "definitions", "flux-system", "infrastructure"]
        );
    }
}

#[test]
fn several_places_to_begin_are_listed() {
    let output = Example::new("several").run("up", &[]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(
        said.contains("clusters/production") && said.contains("--entry"),
        "{said}"
    );
}

#[test]
fn causes_are_printed_before_their_consequences() {
    let example = Example::new("broken");
    example.write("infrastructure/databases/orders.yaml", "apiVersion: shop.example.com/v1\nkind: Database\nmetadata:\n  name: orders\n  namespace: databases\nspec:\n  engine: ${engine}\n  size: 1Gi\n");
    let output = example.run("up", &["--entry", "clusters/staging"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stdout);
    let summary = said.split("\n\n").nth(1).unwrap_or_default().to_owned();
    let cause = summary.find("✗ Kustomization/flux-system/infrastructure");
    let effect = summary.find("⊘ Kustomization/flux-system/apps");
    assert!(cause.is_some() && cause < effect, "{said}");
    assert!(said.contains("engine"), "{said}");
    assert!(text(&output.stderr).contains("infrastructure"), "{said}");
}

#[test]
fn golden_manifests_are_written_and_compared() {
    let example = Example::new("golden");
    let golden = example.root.join("../up-golden-files");
    let _ = fs::remove_dir_all(&golden);
    let golden = golden.to_str().unwrap();
    let at = ["--entry", "clusters/staging", "--golden", golden];
    let written = example.run("test", &[&at[..], &["--update-golden"]].concat());
    assert!(
        written.status.success(),
        "{}{}",
        text(&written.stdout),
        text(&written.stderr)
    );
    let apps = fs::read_to_string(Path::new(golden).join("flux-system.apps.yaml")).unwrap();
    assert!(apps.contains("shop.staging.example.com"), "{apps}");
    assert!(
        !apps.contains("clusterIP") && !apps.contains("only-for-staging"),
        "{apps}"
    );
    let same = example.run("test", &at);
    assert!(
        same.status.success(),
        "{}{}",
        text(&same.stdout),
        text(&same.stderr)
    );
    example.write("clusters/staging/settings.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: cluster-settings\n  namespace: flux-system\ndata:\n  cluster: staging\n  domain: other.example.com\n  database_size: 1Gi\n");
    let changed = example.run("test", &at);
    assert_eq!(changed.status.code(), Some(1));
    assert!(
        text(&changed.stderr).contains("+     - host: shop.other.example.com")
            || text(&changed.stderr).contains("other.example.com"),
        "{}",
        text(&changed.stderr)
    );
}

#[test]
fn a_reference_that_leads_nowhere_fails_the_test() {
    let example = Example::new("dangling");
    let file = "clusters/staging/apps.yaml";
    let apps = fs::read_to_string(example.root.join(file)).unwrap();
    example.write(file, &apps.replace("name: infrastructure", "name: infra"));
    let output = example.run("test", &["--entry", "clusters/staging"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stdout);
    assert!(
        said.contains("spec.dependsOn[0] refers to Kustomization/flux-system/infra"),
        "{said}"
    );
}

#[test]
fn a_diff_names_what_would_change() {
    let example = Example::new("diff");
    let git = |arguments: &[&str]| {
        let done = Command::new("git")
            .args(["-c", "user.name=Dev", "-c", "user.email=dev@example.com"])
            .args(arguments)
            .current_dir(&example.root)
            .output();
        done.is_ok_and(|output| output.status.success())
    };
    if !git(&["init", "-q"]) {
        println!("skipped: there is no git on this machine");
        return;
    }
    assert!(git(&["add", "-A"]) && git(&["commit", "-qm", "before"]));
    let at = ["--entry", "clusters/production", "--against", "HEAD"];
    let same = example.run("diff", &at);
    assert!(
        same.status.success(),
        "{}{}",
        text(&same.stdout),
        text(&same.stderr)
    );
    let file = "apps/production/kustomization.yaml";
    let before = fs::read_to_string(example.root.join(file)).unwrap();
    example.write(file, &before.replace("value: 3", "value: 5"));
    let changed = example.run("diff", &at);
    assert_eq!(changed.status.code(), Some(1));
    let said = text(&changed.stdout);
    assert!(said.contains("► Deployment/shop/shop configured"), "{said}");
    assert!(
        said.contains("-   replicas: 3") && said.contains("+   replicas: 5"),
        "{said}"
    );
    assert_eq!(said.matches('►').count(), 1, "{said}");
    // The commit has two places to begin, the directory only one by now.
    fs::remove_dir_all(example.root.join("clusters/staging")).unwrap();
    let alone = example.run("diff", &["--against", "HEAD"]);
    assert_eq!(alone.status.code(), Some(1), "{}", text(&alone.stderr));
    assert_eq!(text(&alone.stdout), said);
}
