//! What users and remote hosts do.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use everflow_api::names::group;
use everflow_env::MemoryDialer;
use everflow_fetch::archive::{Algorithm, ArchiveWriter, Limit};
use everflow_fetch::testing::{Buckets, Push, Registry};
use everflow_git::testing::Repositories;
use everflow_json::{Map, Value, json};
use everflow_runtime::client::{At, Client, DeleteOptions, Patch, WriteOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::history::Actor;
use crate::scenario::{Page, Reference, Scenario, UserOperation};
use crate::shared::Shared;

/// When a user comes again who found something missing.
const AGAIN: Duration = Duration::from_secs(1);
/// What asks for an attempt.
const REQUESTED_AT: &str = "reconcile.fluxcd.io/requestedAt";

/// The hosts of a world.
#[derive(Debug, Clone, Default)]
pub struct Hosts {
    git: Repositories,
    buckets: Buckets,
    registry: Registry,
    web: Web,
    /// The way to hosts.
    pub dialer: MemoryDialer,
}

/// What a plain web server has, by path.
type Web = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

impl Hosts {
    /// The hosts of a scenario as they are at the beginning.
    pub fn new(scenario: &Scenario, dialer: &MemoryDialer) -> Self {
        let hosts = Hosts {
            dialer: dialer.clone(),
            ..Hosts::default()
        };
        for (name, files) in &scenario.git {
            hosts.commit(name, files);
        }
        for (bucket, objects) in &scenario.buckets {
            hosts.buckets.create(bucket);
            for (key, content) in objects {
                hosts.buckets.put(bucket, key, content.as_bytes());
            }
        }
        for (to, files) in &scenario.registry {
            hosts.push(to, files);
        }
        for (path, content) in &scenario.web {
            hosts.serve(path, Some(content));
        }
        listen(dialer, "web", hosts.web.clone());
        hosts.git.listen(dialer, "git", 80);
        hosts.buckets.listen(dialer, "bucket", 80);
        hosts.registry.listen(dialer, "registry", 80);
        listen(dialer, "sink", Web::default());
        hosts
    }

    fn serve(&self, path: &str, content: Option<&Page>) {
        let mut web = self.web.lock().unwrap_or_else(PoisonError::into_inner);
        match content {
            Some(Page::Text(text)) => web.insert(path.to_owned(), text.clone().into_bytes()),
            Some(Page::Archive(files)) => web.insert(path.to_owned(), packed(files)),
            None => web.remove(path),
        };
    }

    fn commit(&self, repository: &str, files: &Map) {
        self.git.with(repository, |repository| {
            repository.write(files);
            let message = format!("commit {}", repository.commits.len() + 1);
            repository.commit(&message);
        });
    }

    fn push(&self, to: &str, files: &BTreeMap<String, String>) {
        let (repository, tag) = to.rsplit_once(':').unwrap_or((to, "latest"));
        let push = Push::content(packed(files));
        self.registry.push(repository, &[tag], &push);
    }
}

/// An archive of files.
fn packed(files: &BTreeMap<String, String>) -> Vec<u8> {
    const LIMIT: Limit = Limit::new(1 << 24, "--artifact-max-size");
    let packed = || {
        let mut archive = ArchiveWriter::new(Vec::new(), Algorithm::Sha256, LIMIT)?;
        for (path, content) in files {
            let length = content.len() as u64;
            archive.file(path.as_bytes(), false, length, &mut content.as_bytes())?;
        }
        archive.finish()
    };
    packed().map(|(bytes, _)| bytes).unwrap_or_default()
}

/// How much a web server reads at once.
const AT_ONCE: usize = 16 * 1024;

/// A web server. What is posted to it is taken, and nothing of interest is said.
fn listen(dialer: &MemoryDialer, host: &str, web: Web) {
    let mut incoming = dialer.listen(host, 80);
    tokio::spawn(async move {
        while let Some(mut stream) = incoming.recv().await {
            let web = web.clone();
            tokio::spawn(async move {
                let mut seen: Vec<u8> = Vec::with_capacity(AT_ONCE);
                while let Ok(1..) = stream.read_buf(&mut seen).await {
                    if whole(&seen) {
                        let answer = answer(&seen, &web);
                        seen.clear();
                        if stream.write_all(&answer).await.is_err() {
                            return;
                        }
                    }
                    seen.reserve(AT_ONCE);
                }
            });
        }
    });
}

fn answer(request: &[u8], web: &Web) -> Vec<u8> {
    let head = String::from_utf8_lossy(request);
    let mut words = head.split(' ');
    let (method, target) = (words.next(), words.next().unwrap_or_default());
    let path = target.split('?').next().unwrap_or_default();
    let web = web.lock().unwrap_or_else(PoisonError::into_inner);
    let (status, body) = match (method, web.get(path.trim_start_matches('/'))) {
        (Some("POST"), _) => ("202 Accepted", &[][..]),
        (_, Some(content)) => ("200 OK", content.as_slice()),
        (_, None) => ("404 Not Found", &[][..]),
    };
    let mut answer = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    answer.extend_from_slice(body);
    answer
}

/// Whether a request is complete.
pub(crate) fn whole(seen: &[u8]) -> bool {
    let Some(end) = seen.windows(4).position(|window| window == b"\r\n\r\n") else {
        return false;
    };
    let head = String::from_utf8_lossy(&seen[..end]).to_lowercase();
    let length = head.lines().find_map(|line| {
        line.strip_prefix("content-length: ")?
            .trim()
            .parse::<usize>()
            .ok()
    });
    seen.len() >= end + 4 + length.unwrap_or_default()
}

/// Replaces the number of the repetition in all texts.
pub fn numbered(value: &Value, number: u32) -> Value {
    match value {
        Value::String(text) if text.contains("$N") => {
            text.replace("$N", &number.to_string()).into()
        }
        Value::Array(items) => items.iter().map(|item| numbered(item, number)).collect(),
        Value::Object(map) => {
            let map = map
                .iter()
                .map(|(key, value)| (key.clone(), numbered(value, number)));
            Value::Object(map.collect())
        }
        other => other.clone(),
    }
}

/// Does what a user does. The text says what that was; an error is what the API said.
pub async fn act(
    hosts: &Hosts,
    client: &Client,
    deed: &UserOperation,
    number: u32,
) -> Result<String, (String, String)> {
    match deed {
        UserOperation::Commit { repository, files } => {
            let files = numbered(&Value::Object(files.clone()), number);
            if let Value::Object(files) = &files {
                hosts.commit(repository, files);
            }
            Ok(format!("commits to {repository}"))
        }
        UserOperation::Reset { repository, to } => {
            hosts
                .git
                .with(repository, |repository| repository.reset(*to));
            Ok(format!("resets {repository} to commit {to} by force"))
        }
        UserOperation::DeleteBranch { repository, branch } => {
            hosts
                .git
                .with(repository, |repository| repository.delete_branch(branch));
            Ok(format!("deletes the branch {branch} of {repository}"))
        }
        UserOperation::Tag { repository, tag } => {
            hosts
                .git
                .with(repository, |repository| repository.tag(tag, false));
            Ok(format!("moves the tag {tag} of {repository}"))
        }
        UserOperation::Branch { repository, branch } => {
            hosts
                .git
                .with(repository, |repository| repository.branch(branch));
            Ok(format!("makes the branch {branch} of {repository}"))
        }
        UserOperation::Lock { access, secret } => {
            hosts.buckets.require_signed(access, secret);
            Ok(format!("locks the buckets with the key {access}"))
        }
        UserOperation::Put {
            bucket,
            key,
            content,
        } => {
            match content {
                Some(content) => hosts.buckets.put(bucket, key, content.as_bytes()),
                None => hosts.buckets.remove(bucket, key),
            }
            Ok(format!("changes {key} in the bucket {bucket}"))
        }
        UserOperation::Serve { path, content } => {
            hosts.serve(path, content.as_ref());
            Ok(format!("changes {path} on the web server"))
        }
        UserOperation::Push { to, files } => {
            hosts.push(to, files);
            Ok(format!("pushes {to}"))
        }
        UserOperation::Apply(object) => {
            let object = numbered(object, number);
            let what = format!("applies {} {}", object["kind"], object["metadata"]["name"]);
            if is_going(client, &object).await {
                let why =
                    "not found: a place for the new one, while the old one is still being deleted";
                return Err((what, why.to_owned()));
            }
            apply(client, &object)
                .await
                .map(|()| what.clone())
                .map_err(|why| (what, why))
        }
        UserOperation::Patch {
            object,
            merge,
            manager,
            subresource,
        } => {
            let what = format!("changes {} {}", object.kind, object.name);
            let merge = numbered(merge, number);
            let by = WriteOptions::by(manager.as_deref().unwrap_or("user"));
            let done = async {
                let resource = client.resource(&object.api_version, &object.kind).await?;
                let mut at = At::new(&object.namespace, &object.name);
                if subresource.as_deref() == Some("status") {
                    at = at.status();
                }
                client.patch(&resource, at, &Patch::Merge(merge), &by).await
            };
            match done.await {
                Ok(_) => Ok(what),
                Err(error) => Err((what, error.to_string())),
            }
        }
        UserOperation::Helm {
            release,
            namespace,
            does,
        } => {
            let what = format!("has the helm CLI at release {namespace}/{release}: {does:?}");
            let now = client.clock().now();
            let done = crate::helm_cli::act(client, release, namespace, *does, now).await;
            done.map(|()| what.clone()).map_err(|why| (what, why))
        }
        // Calls are made where the world is at hand.
        UserOperation::Call(_) => Ok(String::new()),
        UserOperation::Delete(object) => {
            let what = format!("deletes {} {}", object.kind, object.name);
            match delete(client, object).await {
                Ok(()) => Ok(what),
                Err(why) => Err((what, why)),
            }
        }
    }
}

/// Does what a user does. Who finds an object missing comes again.
pub async fn perform(
    shared: &Arc<Shared>,
    hosts: &Hosts,
    client: &Client,
    deed: &UserOperation,
    number: u32,
) {
    loop {
        let done = match deed {
            UserOperation::Call(call) => {
                crate::notify::call(shared, &hosts.dialer, client, call).await
            }
            _ => act(hosts, client, deed, number).await,
        };
        // Who meets servers that start again comes again, too.
        let missing =
            matches!(&done, Err((_, why)) if why.contains("not found") || why.contains("lost"));
        shared.history.note(Actor::User, || match done {
            Ok(what) => what,
            Err((what, why)) => format!("{what}: {why}"),
        });
        if !missing {
            return;
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Asks all sources to look at once.
pub async fn call_webhooks(client: &Client, objects: &[Value], number: u32) {
    let asked = json!({"metadata": {"annotations": {REQUESTED_AT: number.to_string()}}});
    let by = WriteOptions::by("webhook");
    for object in objects {
        let text = |field: &str| object[field].as_str().unwrap_or_default();
        if !text("apiVersion").starts_with(group::SOURCE) {
            continue;
        }
        // Who is gone need not be asked.
        if let Ok(resource) = client.resource(text("apiVersion"), text("kind")).await {
            let patch = Patch::Merge(asked.clone());
            let _ = client.patch(&resource, At::of(object), &patch, &by).await;
        }
    }
}

/// Whether an object is being deleted: what is applied now would go with it.
async fn is_going(client: &Client, object: &Value) -> bool {
    let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let live = async {
        let resource = client.resource(&text("apiVersion"), &text("kind")).await?;
        client.get(&resource, At::of(object)).await
    };
    let live = live.await;
    live.is_ok_and(|live| !live["metadata"]["deletionTimestamp"].is_null())
}

/// Applies an object as a user.
pub async fn apply(client: &Client, object: &Value) -> Result<(), String> {
    let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let by = WriteOptions::by("user").force();
    let done = async {
        let resource = client.resource(&text("apiVersion"), &text("kind")).await?;
        let patch = Patch::Apply(object.clone());
        client.patch(&resource, At::of(object), &patch, &by).await
    };
    done.await.map(drop).map_err(|error| error.to_string())
}

async fn delete(client: &Client, object: &Reference) -> Result<(), String> {
    let done = async {
        let resource = client.resource(&object.api_version, &object.kind).await?;
        let at = At::new(&object.namespace, &object.name);
        client
            .delete(&resource, at, &DeleteOptions::default())
            .await
    };
    match done.await {
        Ok(_) | Err(everflow_runtime::Error::NotFound(_)) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}
