//! The action for GitHub and Gitea, the hook, the manifest for krew and the workflows: they can be read, they use
//! commands that exist, and the action does what it says.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

#[path = "common/commands.rs"]
mod commands;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use commands::{Commands, in_shell};
use everflow_json::Value;

const WORKFLOWS: [&str; 2] = [".github/workflows/ci.yml", ".github/workflows/release.yml"];
const SCRIPTS: [&str; 4] = [
    ".github/action/install.sh",
    ".github/action/run.sh",
    "packaging/krew/fill.sh",
    "docs/book.sh",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn yaml(path: &str) -> Value {
    let read = everflow_yaml::sigs::yaml_to_json(text(path).as_bytes());
    read.unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// What steps run, of an action or of all jobs of a workflow.
fn run_steps(file: &Value) -> Vec<String> {
    let jobs = file["jobs"].as_object().into_iter().flatten();
    let lists = jobs
        .map(|(_, job)| &job["steps"])
        .chain([&file["runs"]["steps"]]);
    let steps = lists.flat_map(|steps| steps.as_array().into_iter().flatten());
    steps
        .filter_map(|step| step["run"].as_str().map(str::to_owned))
        .collect()
}

#[test]
fn commands_of_action_hook_and_workflows_exist_with_their_flags() {
    let program = Commands::of_the_program("action");
    let mut shell: Vec<(String, String)> = SCRIPTS
        .iter()
        .map(|path| ((*path).to_owned(), text(path)))
        .collect();
    for path in WORKFLOWS.iter().chain(&["action.yml"]) {
        shell.extend(
            run_steps(&yaml(path))
                .into_iter()
                .map(|step| ((*path).to_owned(), step)),
        );
    }
    for hook in yaml(".pre-commit-hooks.yaml").as_array().unwrap() {
        shell.push((
            ".pre-commit-hooks.yaml".to_owned(),
            hook["entry"].as_str().unwrap().to_owned(),
        ));
        assert_eq!(hook["pass_filenames"], false);
        regex::Regex::new(hook["files"].as_str().unwrap()).unwrap();
    }
    let mut verbs = Vec::new();
    for (path, script) in shell {
        for words in in_shell(&script) {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            program
                .check(&words)
                .unwrap_or_else(|why| panic!("{path}: {why}"));
            verbs.push(words[0].to_owned());
        }
    }
    for verb in ["test", "diff", "man", "version"] {
        assert!(verbs.iter().any(|used| used == verb), "{verb}: {verbs:?}");
    }
}

/// Scripts that steps and documents name are there, and bash can read them.
#[test]
fn scripts_can_be_read_by_bash() {
    for script in SCRIPTS {
        let read = Command::new("bash")
            .arg("-n")
            .arg(root().join(script))
            .status()
            .unwrap();
        assert!(read.success(), "{script}");
    }
    for path in WORKFLOWS.iter().chain(&["action.yml"]) {
        for step in run_steps(&yaml(path)) {
            for word in step.split_whitespace().filter(|word| word.contains(".sh")) {
                let word = word.trim_matches('"').replace("$GITHUB_ACTION_PATH/", "");
                assert!(root().join(&word).exists(), "{path}: {word}");
            }
        }
    }
}

/// Inputs reach the scripts by the environment only: one that is put into a script could run commands.
#[test]
fn workflow_scripts_contain_no_expressions() {
    for path in WORKFLOWS.iter().chain(&["action.yml"]) {
        for step in run_steps(&yaml(path)) {
            assert!(!step.contains("${{"), "{path}: {step}");
        }
    }
}

#[test]
fn releases_are_those_that_action_and_krew_fetch() {
    let release = yaml(".github/workflows/release.yml");
    let matrix = release["jobs"]["build"]["strategy"]["matrix"]["include"]
        .as_array()
        .unwrap();
    let built: Vec<&str> = matrix
        .iter()
        .map(|one| one["target"].as_str().unwrap())
        .collect();
    assert_eq!(built.len(), 4);
    let install = text(".github/action/install.sh");
    let krew = yaml("packaging/krew/everflow.yaml");
    let platforms = krew["spec"]["platforms"].as_array().unwrap();
    assert_eq!(platforms.len(), built.len());
    for target in built {
        assert!(install.contains(&format!("target={target} ;;")), "{target}");
        let archive = format!("/everflow-{target}.tar.gz");
        let fits = |platform: &&Value| platform["uri"].as_str().unwrap().ends_with(&archive);
        assert!(platforms.iter().any(|platform| fits(&platform)), "{target}");
    }
}

#[test]
fn krew_manifest_is_filled_with_version_and_checksums() {
    let directory = place("krew");
    let targets = [
        "x86_64-unknown-linux-musl",
        "aarch64-unknown-linux-musl",
        "x86_64-apple-darwin",
        "aarch64-apple-darwin",
    ];
    let sums: Vec<String> = targets
        .iter()
        .enumerate()
        .map(|(at, target)| format!("{}  everflow-{target}.tar.gz\n", at.to_string().repeat(64)))
        .collect();
    fs::write(directory.join("SHA256SUMS"), sums.concat()).unwrap();
    fs::write(directory.join("few"), &sums[0]).unwrap();
    let fill = |sums: &str| {
        Command::new("bash")
            .arg(root().join("packaging/krew/fill.sh"))
            .arg("v1.2.3")
            .arg(directory.join(sums))
            .output()
            .unwrap()
    };
    let filled = fill("SHA256SUMS");
    assert!(
        filled.status.success(),
        "{}",
        String::from_utf8_lossy(&filled.stderr)
    );
    let manifest = everflow_yaml::sigs::yaml_to_json(&filled.stdout).unwrap();
    assert_eq!(manifest["spec"]["version"], "v1.2.3");
    assert_eq!(manifest["spec"]["platforms"][1]["sha256"], "1".repeat(64));
    let uri = manifest["spec"]["platforms"][3]["uri"].as_str().unwrap();
    assert!(
        uri.ends_with("/v1.2.3/everflow-aarch64-apple-darwin.tar.gz"),
        "{uri}"
    );

    let few = fill("few");
    assert!(!few.status.success());
    assert!(String::from_utf8_lossy(&few.stderr).contains("aarch64-apple-darwin"));
}

fn place(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("action-{name}"));
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    directory
}

/// A clone of the example with one commit, on which a pull request works.
struct PullRequest {
    directory: PathBuf,
}

impl PullRequest {
    fn new(name: &str) -> Self {
        let pull = PullRequest {
            directory: place(name),
        };
        let copied = Command::new("cp")
            .arg("-r")
            .arg(root().join("examples/quickstart"))
            .arg(pull.repository())
            .status();
        assert!(copied.unwrap().success());
        pull.git(&["init", "--quiet", "--initial-branch=main"]);
        pull.commit();
        pull.git(&["update-ref", "refs/remotes/origin/main", "HEAD"]);
        fs::write(
            pull.directory.join("event.json"),
            r#"{"pull_request": {"number": 7}}"#,
        )
        .unwrap();
        pull
    }

    fn repository(&self) -> PathBuf {
        self.directory.join("repository")
    }

    fn git(&self, arguments: &[&str]) {
        let done = Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@example.com"])
            .args(["-c", "commit.gpgsign=false"])
            .args(arguments)
            .current_dir(self.repository())
            .status();
        assert!(done.unwrap().success(), "{arguments:?}");
    }

    fn commit(&self) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", "change"]);
    }

    fn change(&self, file: &str, from: &str, to: &str) {
        let path = self.repository().join(file);
        let old = fs::read_to_string(&path).unwrap();
        assert!(old.contains(from), "{file}");
        fs::write(path, old.replace(from, to)).unwrap();
        self.commit();
    }

    /// Runs the action. `curl` is one that writes down how it is called, and answers with `comments`.
    fn run(&self, entries: &str, comments: &str) -> Output {
        let programs = self.directory.join("bin");
        fs::create_dir_all(&programs).unwrap();
        let curl = programs.join("curl");
        let calls = self.directory.join("calls");
        let _ = fs::remove_file(&calls);
        let script = format!(
            "#!/bin/sh\necho \"$@\" >>'{}'\ncase \"$*\" in *'--request GET'*) printf '%s' '{comments}' ;; esac\n",
            calls.display()
        );
        fs::write(&curl, script).unwrap();
        fs::set_permissions(&curl, fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
        let _ = fs::remove_file(self.directory.join("output"));
        Command::new("bash")
            .arg(root().join(".github/action/run.sh"))
            .current_dir(self.repository())
            .env("PATH", path)
            .env("EVERFLOW", env!("CARGO_BIN_EXE_everflow"))
            .env("ENTRIES", entries)
            .env("TOKEN", "t")
            .env("RUNNER_TEMP", &self.directory)
            .env("GITHUB_BASE_REF", "main")
            .env("GITHUB_OUTPUT", self.directory.join("output"))
            .env("GITHUB_EVENT_PATH", self.directory.join("event.json"))
            .env("GITHUB_API_URL", "https://git.example.com/api/v1")
            .env("GITHUB_REPOSITORY", "team/platform")
            .env_remove("GITHUB_STEP_SUMMARY")
            .output()
            .unwrap()
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.directory.join(file)).unwrap_or_default()
    }

    fn summary(&self) -> String {
        self.read("everflow-summary/summary.md")
    }
}

const BOTH: &str = "clusters/staging\nclusters/production\n";

#[test]
fn summary_shows_what_changes_for_each_cluster() {
    let pull = PullRequest::new("changes");
    pull.change(
        "apps/production/kustomization.yaml",
        "newTag: 1.0.1",
        "newTag: 1.0.2",
    );
    let ended = pull.run(BOTH, "[]");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    let summary = pull.summary();
    assert!(summary.starts_with("<!-- everflow -->\n"), "{summary}");
    assert!(
        summary.contains("| `clusters/staging` | yes | no |"),
        "{summary}"
    );
    assert!(
        summary.contains("| `clusters/production` | yes | yes |"),
        "{summary}"
    );
    assert!(
        summary.contains("<code>Deployment/shop/shop</code> configured"),
        "{summary}"
    );
    assert!(
        summary.contains("image: registry.example.com/shop:1.0.2"),
        "{summary}"
    );
    let output = pull.read("output");
    assert!(output.contains("ready=true\nchanged=true\n"), "{output}");
    let calls = pull.read("calls");
    assert!(calls.contains("--request POST"), "{calls}");
    assert!(
        calls.contains("https://git.example.com/api/v1/repos/team/platform/issues/7/comments"),
        "{calls}"
    );
    let body: Value = everflow_json::from_str(&pull.read("everflow-summary/comment.json")).unwrap();
    assert_eq!(body["body"].as_str(), Some(summary.as_str()));
}

#[test]
fn comment_of_the_push_before_is_replaced() {
    let pull = PullRequest::new("again");
    let known = r#"[{"id": 5, "body": "nice"}, {"id": 6, "body": "<!-- everflow -->\nold"}]"#;
    let ended = pull.run("clusters/staging", known);
    assert!(
        ended.status.success(),
        "{}",
        String::from_utf8_lossy(&ended.stderr)
    );
    assert!(pull.read("output").contains("changed=false"));
    let calls = pull.read("calls");
    assert!(
        calls.contains("--request PATCH") && calls.contains("/issues/comments/6"),
        "{calls}"
    );
    assert!(!calls.contains("POST"), "{calls}");
}

#[test]
fn failed_kustomization_fails_the_job_with_its_message() {
    let pull = PullRequest::new("broken");
    pull.change(
        "infrastructure/databases/orders.yaml",
        "  engine: postgres\n",
        "",
    );
    let ended = pull.run("clusters/staging", "[]");
    assert_eq!(ended.status.code(), Some(1));
    let summary = pull.summary();
    assert!(summary.contains("| `clusters/staging` | no |"), "{summary}");
    assert!(
        summary.contains("orders.yaml") && summary.contains("spec.engine"),
        "{summary}"
    );
    assert!(pull.read("output").contains("ready=false"));
    assert!(pull.read("calls").contains("--request POST"));
}

#[test]
fn revision_that_is_not_in_the_clone_is_told_with_the_remedy() {
    let pull = PullRequest::new("shallow");
    pull.git(&["update-ref", "-d", "refs/remotes/origin/main"]);
    let ended = pull.run("clusters/staging", "[]");
    assert_eq!(ended.status.code(), Some(1));
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.contains("fetch-depth: 0"), "{said}");
}

/// The example workflow in the documents names inputs that the action has.
#[test]
fn inputs_in_the_documents_are_those_of_the_action() {
    let page = text("docs/ci.md");
    let action = yaml("action.yml");
    let inputs = action["inputs"].as_object().unwrap();
    for (name, _) in inputs {
        assert!(
            page.contains(&format!("| `{name}` |")),
            "{name} is not in docs/ci.md"
        );
    }
    let table = page.lines().filter_map(|line| line.strip_prefix("| `"));
    for row in table {
        let name = row.split('`').next().unwrap();
        assert!(
            inputs.iter().any(|(known, _)| known == name),
            "{name} is no input"
        );
    }
}
