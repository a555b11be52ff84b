//! The recorded scenarios of Flux's GitRepositories: the same revisions, messages, and archives
//! with the same digests.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr
)]

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use everflow_corpus::{Outcome, find};
use everflow_env::{Env, MemoryDialer};
use everflow_fetch::http::{Auth, Proxy};
use everflow_fetch::{Deadline, Url};
use everflow_git::{
    CheckoutOptions, GitAuth, GitClient, GitRef, Include, Remote, Update, write_archive,
};
use everflow_json::Value;
use support::{GitServer, git, git_is_here};

const HOST: &str = "http://git.test:8080";

/// One scenario as it is played.
struct Play {
    env: Env,
    root: tempfile::TempDir,
    namespace: String,
    commits: Vec<String>,
    objects: BTreeMap<String, Value>,
    revisions: BTreeMap<String, String>,
    digests: BTreeMap<String, String>,
}

fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    value
        .pointer(path)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

impl Play {
    fn bare(&self) -> PathBuf {
        self.root.path().join(format!("{}.git", self.namespace))
    }

    fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    fn set_up(&mut self, scenario: &Value) {
        let work = self.work();
        std::fs::create_dir_all(&work).unwrap();
        git(&work, 1, &["init", "-q", "-b", "main"]);
        git(
            self.root.path(),
            1,
            &[
                "init",
                "-q",
                "--bare",
                "-b",
                "main",
                self.bare().to_str().unwrap(),
            ],
        );
        git(
            &work,
            1,
            &["remote", "add", "origin", self.bare().to_str().unwrap()],
        );
        if let Some(files) = scenario["files"].as_object() {
            self.write(files);
            self.commit("init");
        }
        for more in scenario["git"].as_array().into_iter().flatten() {
            self.more(more, &more["files"]);
        }
        if self.namespace == "s-git-submodules" {
            self.add_submodule();
        }
    }

    /// What the note of that scenario describes.
    fn add_submodule(&mut self) {
        let (work, root) = (self.work(), self.root.path());
        let library = root.join("library");
        std::fs::create_dir_all(&library).unwrap();
        git(&library, 1, &["init", "-q", "-b", "main"]);
        std::fs::write(library.join("lib.yaml"), "lib: 1\n").unwrap();
        git(&library, 1, &["add", "-A"]);
        git(&library, 1, &["commit", "-q", "-m", "lib"]);
        let bare = root.join("s-git-submodules-lib.git");
        let (from, to) = (library.to_str().unwrap(), bare.to_str().unwrap());
        git(root, 1, &["clone", "-q", "--bare", from, to]);
        let id = git(&library, 1, &["rev-parse", "HEAD"]);
        let text =
            format!("[submodule \"lib\"]\n\tpath = lib\n\turl = {HOST}/s-git-submodules-lib.git\n");
        std::fs::write(work.join(".gitmodules"), text).unwrap();
        std::fs::create_dir_all(work.join("lib")).unwrap();
        let link = format!("160000,{id},lib");
        git(&work, 1, &["add", "-A"]);
        git(&work, 1, &["update-index", "--add", "--cacheinfo", &link]);
        git(&work, 2, &["commit", "-q", "-m", "submodule"]);
        self.commits.push(git(&work, 1, &["rev-parse", "HEAD"]));
        git(&work, 1, &["push", "-q", "origin", "HEAD"]);
    }

    fn write(&self, files: &everflow_json::Map) {
        for (path, content) in files {
            let full = self.work().join(path);
            std::fs::create_dir_all(full.parent().unwrap()).unwrap();
            let _ = std::fs::remove_file(&full);
            match content {
                Value::String(text) => std::fs::write(&full, text).unwrap(),
                Value::Object(special) if special.contains_key("exec") => {
                    std::fs::write(&full, special["exec"].as_str().unwrap()).unwrap();
                    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
                    std::fs::set_permissions(&full, mode).unwrap();
                }
                Value::Object(special) => {
                    std::os::unix::fs::symlink(special["link"].as_str().unwrap(), &full).unwrap();
                }
                _ => {}
            }
        }
    }

    fn when(&self) -> u32 {
        self.commits.len() as u32 + 1
    }

    fn commit(&mut self, message: &str) {
        let work = self.work();
        git(&work, self.when(), &["add", "-A"]);
        git(
            &work,
            self.when(),
            &["commit", "-q", "--allow-empty", "-m", message],
        );
        self.commits.push(git(&work, 1, &["rev-parse", "HEAD"]));
        git(&work, 1, &["push", "-q", "-f", "origin", "HEAD"]);
    }

    /// A further commit with its tags and branch.
    fn more(&mut self, step: &Value, files: &Value) {
        let work = self.work();
        if let Some(branch) = step["branch"].as_str() {
            let known = git(&work, 1, &["branch", "--list", branch]);
            let flag = if known.is_empty() { "-b" } else { "-q" };
            git(&work, 1, &["checkout", "-q", flag, branch]);
        }
        if let Some(files) = files.as_object() {
            self.write(files);
            let usual = format!("commit {}", self.when());
            self.commit(step["msg"].as_str().unwrap_or(&usual));
        }
        let tags = match &step["tag"] {
            Value::String(tag) => vec![tag.to_string()],
            Value::Array(tags) => tags
                .iter()
                .map(|tag| tag.as_str().unwrap().to_owned())
                .collect(),
            _ => Vec::new(),
        };
        let when = self.commits.len() as u32;
        for tag in tags {
            match step["annotated"].as_bool() {
                Some(true) => git(&work, when, &["tag", "-f", "-a", "-m", "tag", &tag]),
                _ => git(&work, when, &["tag", "-f", &tag]),
            };
            git(&work, 1, &["push", "-q", "-f", "origin", &tag]);
        }
    }

    fn symbols(&self, text: &str) -> String {
        let mut shown = text.replace(HOST, "$GIT").replace("127.0.0.1:1", "$DEAD");
        for (at, id) in self.commits.iter().enumerate() {
            shown = shown.replace(id, &format!("$SHA{}", at + 1));
        }
        shown
    }

    fn real(&self, text: &str) -> String {
        let mut real = text.replace("$GIT", HOST).replace("$DEAD", "127.0.0.1:1");
        for (at, id) in self.commits.iter().enumerate().rev() {
            real = real.replace(&format!("$SHA{}", at + 1), id);
        }
        real
    }

    fn remote(&self, spec: &Value) -> Result<Remote, String> {
        let url = Url::parse(&self.real(text(spec, "/url"))).map_err(|error| error.to_string())?;
        let mut remote = Remote::new(url);
        let secret = |name: &str| self.objects.get(&format!("Secret/{name}"));
        if let Some(data) =
            secret(text(spec, "/secretRef/name")).map(|secret| &secret["stringData"])
        {
            let word = |key: &str| data[key].as_str().map(str::to_owned);
            if let Some(token) = word("bearerToken") {
                remote.auth = GitAuth::Http(Auth::Bearer(token.into()));
            } else if let Some(username) = word("username") {
                let password = word("password").unwrap_or_default().into();
                remote.auth = GitAuth::Http(Auth::Basic { username, password });
            }
        }
        if let Some(proxy) = secret(text(spec, "/proxySecretRef/name")) {
            let address = self.real(text(proxy, "/stringData/address"));
            remote.proxy = Some(Proxy::new(&address, None).unwrap());
        }
        Ok(remote)
    }

    /// What the controller would do with a GitRepository: the revision and digest, or a message.
    async fn reconcile(&mut self, name: &str, spec: &Value) -> Result<(String, String), String> {
        let reference = GitRef {
            branch: text(spec, "/ref/branch").to_owned(),
            tag: text(spec, "/ref/tag").to_owned(),
            semver: text(spec, "/ref/semver").to_owned(),
            name: text(spec, "/ref/name").to_owned(),
            commit: self.real(text(spec, "/ref/commit")),
        };
        let span = match text(spec, "/timeout") {
            "" | "60s" => Duration::from_secs(60),
            _ => Duration::from_millis(300),
        };
        let prefix = |error: everflow_git::Error| match error {
            everflow_git::Error::SparseMissing(_) => {
                format!("failed to sparse checkout directories : {error}")
            }
            error => format!("failed to checkout and determine revision: {error}"),
        };
        let client = GitClient::new(&self.env, self.remote(spec)?).map_err(prefix)?;
        let deadline = Deadline::after(&self.env.clock, span);
        let have = self.revisions.get(name).cloned();
        let submodules = spec["recurseSubmodules"].as_bool().unwrap_or(false);
        // A changed spec fetches again, as Flux does; the recordings show only the outcome.
        let update = client
            .update(&reference, have.as_deref(), submodules, &deadline)
            .await
            .map_err(prefix)?;
        let checkout = match update {
            Update::Fetched(checkout) => checkout,
            Update::Unchanged(resolution) => {
                let checkout = client.fetch(resolution, submodules, &deadline).await;
                Box::new(checkout.map_err(prefix)?)
            }
        };
        let revision = checkout.revision.clone();
        let list = |path: &str| spec[path].as_array().cloned().unwrap_or_default();
        let options = CheckoutOptions {
            ignore: spec["ignore"].as_str().map(str::to_owned),
            sparse: list("sparseCheckout")
                .iter()
                .map(|path| path.as_str().unwrap().to_owned())
                .collect(),
            includes: list("include")
                .iter()
                .map(|include| {
                    let name = text(include, "/repository/name");
                    Include {
                        artifact: format!("out/{name}"),
                        from_path: text(include, "/fromPath").to_owned(),
                        to_path: match text(include, "/toPath") {
                            "" => name.to_owned(),
                            path => path.to_owned(),
                        },
                    }
                })
                .collect(),
            ..CheckoutOptions::default()
        };
        self.env.disk.create_dir("out").unwrap();
        let summary = write_archive(&self.env, *checkout, &format!("out/{name}"), options)
            .await
            .map_err(prefix)?;
        self.revisions.insert(name.to_owned(), revision.clone());
        Ok((revision, summary.digest.hex().to_owned()))
    }

    fn apply(&mut self, object: &Value) {
        let key = format!(
            "{}/{}",
            text(object, "/kind"),
            text(object, "/metadata/name")
        );
        self.objects.insert(key, object.clone());
    }

    fn step(&mut self, step: &Value) {
        let work = self.work();
        for object in match &step["apply"] {
            Value::Array(objects) => objects.clone(),
            Value::Null => Vec::new(),
            object => vec![object.clone()],
        } {
            self.apply(&object);
        }
        if let Some(changes) = step["commit"].as_object() {
            for (path, content) in changes {
                if content.is_null() {
                    std::fs::remove_file(work.join(path)).unwrap();
                }
            }
            self.more(step, &step["commit"]);
        }
        if let Some(branch) = step["git_delete_branch"].as_str() {
            git(&self.bare(), 1, &["branch", "-D", branch]);
        }
        if let Some(message) = step["git_amend"]["message"].as_str() {
            git(
                &work,
                self.when(),
                &["commit", "-q", "--amend", "-m", message],
            );
            self.commits.push(git(&work, 1, &["rev-parse", "HEAD"]));
            git(&work, 1, &["push", "-q", "-f", "origin", "HEAD"]);
        }
        if let Some(tag) = step["git_move_tag"].as_str() {
            git(&work, 1, &["tag", "-f", tag]);
            git(&work, 1, &["push", "-q", "-f", "origin", tag]);
        }
    }

    /// Compares every GitRepository with what was recorded.
    async fn compare(&mut self, step: &Value, then: &Value) -> Result<usize, String> {
        let mut compared = 0;
        for recorded in then["flux"].as_array().into_iter().flatten() {
            if recorded["kind"] != "GitRepository" || recorded["spec"]["suspend"] == true {
                continue;
            }
            let name = text(recorded, "/metadata/name").to_owned();
            // Only what was asked to reconcile has seen what the step changed.
            let asked = step["reconcile"].as_array().map(Vec::as_slice);
            let key = format!("GitRepository/{name}");
            if asked.is_some_and(|asked| !asked.iter().any(|one| one == key.as_str())) {
                continue;
            }
            let condition = |kind: &str| {
                recorded["status"]["conditions"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .find(|one| one["type"] == kind)
            };
            let failed = condition("FetchFailed");
            let stored = condition("ArtifactInStorage");
            let copying = condition("StorageOperationFailed");
            if let Some(copying) = copying {
                let message = copying["message"]
                    .as_str()
                    .unwrap()
                    .replace("$TMP/$RAND/unpack/", "");
                let error = self.reconcile(&name, &recorded["spec"]).await.unwrap_err();
                let error = error.split("revision: ").last().unwrap().to_owned();
                if !message.ends_with(&error) {
                    return Err(format!("{error:?} instead of {message:?}"));
                }
                compared += 1;
                continue;
            }
            if failed.is_none() && stored.is_none() {
                continue;
            }
            let outcome = self.reconcile(&name, &recorded["spec"]).await;
            let key = format!("GitRepository/{name}");
            if let Some(digest) = then["artifacts"][&key]["tarball_sha256"].as_str() {
                self.digests.insert(name.clone(), digest.to_owned());
            }
            match (failed, outcome) {
                (Some(failed), Err(message)) => {
                    let message = self.symbols(&message);
                    let expected = failed["message"].as_str().unwrap();
                    if !same_message(expected, &message) {
                        return Err(format!("{message:?} instead of {expected:?}"));
                    }
                }
                (Some(failed), Ok(_)) => return Err(format!("should fail: {}", failed["message"])),
                (None, Err(message)) => return Err(format!("failed: {message}")),
                (None, Ok((revision, digest))) => {
                    let revision = self.symbols(&revision);
                    let expected = text(recorded, "/status/artifact/revision");
                    if revision != expected {
                        return Err(format!("revision {revision} instead of {expected}"));
                    }
                    if self.digests.get(&name) != Some(&digest) {
                        let expected = self.digests.get(&name);
                        return Err(format!("digest {digest} instead of {expected:?}"));
                    }
                }
            }
            compared += 1;
        }
        Ok(compared)
    }
}

/// Temporary paths and name servers are those of the recording machine.
fn same_message(expected: &str, message: &str) -> bool {
    let expected = expected
        .replace("lstat $TMP/gitrepository-$RAND/", "lstat ")
        .replace(" on $DNS", "");
    message.starts_with(&expected)
}

async fn play(path: &Path) -> Result<usize, String> {
    let scenario: Value = everflow_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let dialer = MemoryDialer::new();
    let mut play = Play {
        env: Env::simulated(1, dialer.clone()),
        root: tempfile::tempdir().unwrap(),
        namespace: scenario["namespace"].as_str().unwrap().to_owned(),
        commits: Vec::new(),
        objects: BTreeMap::new(),
        revisions: BTreeMap::new(),
        digests: BTreeMap::new(),
    };
    play.set_up(&scenario);
    let _server = GitServer::start(&dialer, "git.test", 8080, play.root.path(), true);
    for object in scenario["objects"].as_array().into_iter().flatten() {
        play.apply(object);
    }
    let mut compared = play.compare(&Value::Null, &scenario["then"]).await?;
    for step in scenario["steps"].as_array().into_iter().flatten() {
        play.step(step);
        compared += play.compare(step, &step["then"]).await?;
    }
    Ok(compared)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recorded_repositories_come_out_the_same() {
    let Some(directory) = find("flux/sources") else {
        return;
    };
    if !git_is_here() {
        return;
    }
    let mut names: Vec<PathBuf> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .starts_with("git-")
        })
        .collect();
    names.sort();
    let mut outcome = Outcome::default();
    let mut states = 0;
    for path in names {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let played = play(&path).await;
        states += *played.as_ref().unwrap_or(&0);
        outcome.record(&name, played.map(|_| ()));
    }
    println!("{states} states compared");
    outcome.assert(include_str!("flux_git_known_differences.txt"));
}
