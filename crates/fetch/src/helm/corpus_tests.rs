//! What the real source-controller did, as far as it can be told without a cluster: the indexes it
//! stored, the versions it chose, the charts it packaged and what it said.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everflow_corpus::Outcome;
use everflow_env::disk::{read_all, write_whole};
use everflow_env::{BoxFuture, Env, MemoryDialer};
use everflow_json::Value;

use super::*;
use crate::archive::{Algorithm, digest_of};
use crate::testing::{answer, serve};

/// Stands for the abbreviation of every commit.
const SHORT: &str = "0123456789ab";

type Files = BTreeMap<String, Vec<u8>>;

#[derive(Debug)]
struct Anyone(Env);

impl Repositories for Anyone {
    fn at<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Arc<dyn ChartSource>, Error>> {
        Box::pin(async move {
            let client = HelmClient::new(&self.0, Repository::new(Url::parse(url)?))?;
            Ok(Arc::new(HttpCharts::new(client, None)) as Arc<dyn ChartSource>)
        })
    }
}

/// A scenario as it unfolds.
struct Scene<'o> {
    name: String,
    namespace: String,
    charts: Files,
    tree: Files,
    outcome: &'o mut Outcome,
}

fn bytes_of(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        Value::Object(object) => match (object.get("base64"), object.get("exec")) {
            (Some(text), _) => STANDARD.decode(text.as_str()?).ok(),
            (_, Some(text)) => Some(text.as_str()?.as_bytes().to_vec()),
            _ => None,
        },
        _ => None,
    }
}

fn take(files: &mut Files, value: &Value) {
    for (name, content) in value.as_object().into_iter().flatten() {
        match bytes_of(content) {
            Some(bytes) => files.insert(name.to_string(), bytes),
            None => files.remove(name.as_str()),
        };
    }
}

fn text<'v>(value: &'v Value, path: &str) -> &'v str {
    value
        .pointer(path)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn condition<'v>(object: &'v Value, kind: &str) -> Option<&'v Value> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    conditions.iter().find(|found| text(found, "/type") == kind)
}

/// A message as it would read here.
fn here(message: &str) -> String {
    let mut message = message
        .replace("$HELM", "http://helm.example")
        .replace("404 File not found", "404 Not Found")
        .replace("$TMP/helmchart-$RAND/source", "");
    for commit in ["$SHA1", "$SHA2", "$SHA3", "$SHA4"] {
        message = message.replace(&format!("{commit}:short"), SHORT);
    }
    message
}

impl Scene<'_> {
    async fn facts(&mut self, step: usize, then: &Value) {
        let objects: Vec<&Value> = then["flux"].as_array().into_iter().flatten().collect();
        for object in &objects {
            let id = format!("{}#{step}/{}", self.name, text(object, "/kind"));
            let checked = match text(object, "/kind") {
                "HelmRepository" => self.repository(object).await,
                "HelmChart" => {
                    let artifacts = &then["artifacts"];
                    match text(object, "/spec/sourceRef/kind") {
                        "HelmRepository" => self.remote(object, &objects).await,
                        "GitRepository" => self.local(object, artifacts).await,
                        _ => None,
                    }
                }
                _ => None,
            };
            if let Some(result) = checked {
                self.outcome.record(id, result);
            }
        }
    }

    fn env(&self) -> Env {
        let dialer = MemoryDialer::new();
        let (charts, namespace) = (self.charts.clone(), self.namespace.clone());
        serve(&dialer, "helm.example", 80, move |seen| {
            let path = seen.line().split(' ').nth(1).unwrap_or_default();
            let file = path.strip_prefix(&format!("/{namespace}/"));
            match file.and_then(|file| charts.get(file)) {
                Some(bytes) => answer("200 OK", "", bytes),
                None => answer("404 Not Found", "", b""),
            }
        });
        Env::simulated(1, dialer)
    }

    fn client(&self, env: &Env, repository: &Value) -> Option<HelmClient> {
        let url = here(text(repository, "/spec/url"));
        if text(repository, "/spec/type") == "oci" || !url.starts_with("http://helm.example/s-") {
            return None;
        }
        let url = normalize_url(&url).ok()?;
        HelmClient::new(env, Repository::new(Url::parse(&url).ok()?)).ok()
    }

    /// None when the outcome depends on more than the index.
    async fn repository(&self, object: &Value) -> Option<Result<(), String>> {
        let env = self.env();
        let client = self.client(&env, object)?;
        let artifact = object
            .pointer("/status/artifact")
            .filter(|found| found.is_object());
        let ready = condition(object, "Ready")?;
        let message = text(ready, "/message");
        let deadline = Deadline::after(&env.clock, Duration::from_secs(5));
        let fetched = client.fetch_index(Algorithm::Sha256, &deadline).await;
        let loaded = match fetched {
            Ok(fetched) => fetched.load(Algorithm::Sha256).await,
            Err(error) => Err(error),
        };
        Some(match (loaded, artifact) {
            (Ok(loaded), Some(artifact))
                if text(artifact, "/revision") == loaded.revision.as_str() =>
            {
                let got = (loaded.digest.to_string(), loaded.size, loaded.file_name());
                let path = text(artifact, "/path");
                let file = path.rsplit('/').next().unwrap_or(path).to_owned();
                let size = artifact["size"].as_u64().unwrap_or_default();
                let expected = (text(artifact, "/digest").to_owned(), size, file);
                same(&got, &expected)
            }
            (Err(error), _) if text(ready, "/status") == "False" => {
                let prefix = match error.reason() {
                    "IndexationFailed" => "failed to load Helm repository from index YAML: ",
                    _ => "failed to fetch Helm repository index: ",
                };
                let reason = error.reason().to_owned();
                let expected = (text(ready, "/reason").to_owned(), here(message));
                same(&(reason, format!("{prefix}{error}")), &expected)
            }
            _ => return None,
        })
    }

    fn options(&self, object: &Value, generation: bool) -> BuildOptions {
        let files = object
            .pointer("/spec/valuesFiles")
            .and_then(Value::as_array);
        let mut options = BuildOptions {
            values_files: files
                .into_iter()
                .flatten()
                .filter_map(|file| file.as_str().map(str::to_owned))
                .collect(),
            ignore_missing_values_files: object["spec"]["ignoreMissingValuesFiles"] == true,
            verify: object.pointer("/spec/verify").is_some(),
            ..BuildOptions::default()
        };
        if !generation && text(object, "/spec/reconcileStrategy") == "Revision" {
            options.version_metadata = SHORT.to_owned();
        }
        if !options.effective_values_files().is_empty() {
            let number = object["metadata"]["generation"].to_string();
            options.version_metadata = match options.version_metadata.as_str() {
                "" => number,
                revision => format!("{revision}.{number}"),
            };
        }
        options
    }

    async fn remote(&self, object: &Value, objects: &[&Value]) -> Option<Result<(), String>> {
        let env = self.env();
        let wanted = text(object, "/spec/sourceRef/name");
        let repository = objects.iter().find(|other| {
            text(other, "/kind") == "HelmRepository" && text(other, "/metadata/name") == wanted
        })?;
        repository
            .pointer("/status/artifact")
            .filter(|found| found.is_object())?;
        let source = HttpCharts::new(self.client(&env, repository)?, None);
        let options = self.options(object, true);
        let deadline = Deadline::after(&env.clock, Duration::from_secs(5));
        let (chart, version) = (text(object, "/spec/chart"), text(object, "/spec/version"));
        let build = build_remote(&env, &source, chart, version, options, &deadline).await;
        let ready = condition(object, "Ready")?;
        Some(match build {
            Err(error) => same_error(&error, ready),
            Ok(build) => {
                let ChartArchive::New { digest, size, .. } = &build.archive else {
                    return None;
                };
                let artifact = &object["status"]["artifact"];
                let got = (
                    build.summary(),
                    build.file_name(),
                    digest.to_string(),
                    *size,
                );
                let path = text(artifact, "/path");
                let expected = (
                    here(text(ready, "/message")),
                    path.rsplit('/').next().unwrap_or(path).to_owned(),
                    text(artifact, "/digest").to_owned(),
                    artifact["size"].as_u64().unwrap_or_default(),
                );
                same(&got, &expected)
            }
        })
    }

    async fn local(&self, object: &Value, artifacts: &Value) -> Option<Result<(), String>> {
        let env = self.env();
        for (path, bytes) in &self.tree {
            write_whole(&*env.disk, &format!("tmp/tree/{path}"), bytes).ok()?;
        }
        let chart = LocalChart {
            root: "tmp/tree".to_owned(),
            path: text(object, "/spec/chart").to_owned(),
        };
        let options = self.options(object, false);
        let has_commit = options.version_metadata.contains(SHORT);
        let deadline = Deadline::after(&env.clock, Duration::from_secs(5));
        let anyone = Anyone(env.clone());
        let build = build_local(&env, chart, &anyone, options, &deadline).await;
        let ready = condition(object, "Ready")?;
        let build = match build {
            Err(error) => return Some(same_error(&error, ready)),
            Ok(build) => build,
        };
        let ChartArchive::New { path, .. } = &build.archive else {
            return None;
        };
        let name = format!("HelmChart/{}", text(object, "/metadata/name"));
        let artifact = &artifacts[&name];
        let mut got = vec![build.summary()];
        let mut expected = vec![here(text(ready, "/message"))];
        if let Some(files) = artifact["files"].as_array() {
            let bytes = read_all(&*env.disk, path, 1 << 24).ok()?;
            got.extend(entries(&bytes, has_commit));
            expected.extend(files.iter().map(|file| {
                let path = text(file, "/path");
                let (mode, digest) = (text(file, "/mode"), text(file, "/sha256"));
                shown(path, mode.trim_start_matches('0'), digest, has_commit)
            }));
        }
        Some(same(&got, &expected))
    }
}

/// A commit's id is in `Chart.yaml`, and is not ours.
fn shown(path: &str, mode: &str, digest: &str, has_commit: bool) -> String {
    match has_commit && path.ends_with("app/Chart.yaml") {
        true => format!("{path} {mode}"),
        false => format!("{path} {mode} {digest}"),
    }
}

fn entries(bytes: &[u8], has_commit: bool) -> Vec<String> {
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(bytes));
    let entries = archive.entries().unwrap();
    entries
        .map(|entry| {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().to_str().unwrap().to_owned();
            let mode = format!("{:o}", entry.header().mode().unwrap());
            let mut content = Vec::new();
            std::io::Read::read_to_end(&mut entry, &mut content).unwrap();
            let digest = digest_of(Algorithm::Sha256, &content);
            shown(&path, &mode, digest.hex(), has_commit)
        })
        .collect()
}

fn same<T: PartialEq + std::fmt::Debug>(got: &T, expected: &T) -> Result<(), String> {
    match got == expected {
        true => Ok(()),
        false => Err(format!("got {got:?}, Flux {expected:?}")),
    }
}

/// Reasons are the same, and messages up to the words of the system about connections.
fn same_error(error: &Error, ready: &Value) -> Result<(), String> {
    let message = here(text(ready, "/message"));
    let cut = |text: &str| text.split(": dial tcp").next().unwrap_or(text).to_owned();
    let got = (error.reason().to_owned(), cut(&error.to_string()));
    same(&got, &(text(ready, "/reason").to_owned(), cut(&message)))
}

#[tokio::test(start_paused = true)]
async fn recorded_scenarios_come_out_the_same() {
    let Some(directory) = everflow_corpus::find("flux/sources") else {
        return;
    };
    let mut outcome = Outcome::default();
    let mut paths: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with("helm-"))
        })
        .collect();
    paths.sort();
    for path in paths {
        let scenario: Value = everflow_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let mut scene = Scene {
            name: text(&scenario, "/name").to_owned(),
            namespace: text(&scenario, "/namespace").to_owned(),
            charts: Files::new(),
            tree: Files::new(),
            outcome: &mut outcome,
        };
        take(&mut scene.charts, &scenario["charts"]);
        take(&mut scene.tree, &scenario["files"]);
        for commit in scenario["git"].as_array().into_iter().flatten() {
            take(&mut scene.tree, &commit["files"]);
        }
        scene.facts(0, &scenario["then"]).await;
        let steps = scenario["steps"].as_array();
        for (number, step) in steps.into_iter().flatten().enumerate() {
            take(&mut scene.charts, &step["charts"]);
            take(&mut scene.tree, &step["commit"]);
            scene.facts(number + 1, &step["then"]).await;
        }
    }
    assert!(outcome.total() > 60, "{} facts", outcome.total());
    outcome.assert(include_str!("corpus_known.txt"));
}
