//! What users and remote hosts do.

use std::collections::BTreeMap;

use everflow_env::MemoryDialer;
use everflow_fetch::archive::{Algorithm, ArchiveWriter};
use everflow_fetch::testing::{Buckets, Push, Registry, Repositories};
use everflow_runtime::client::{At, Client, DeleteOptions, Patch, WriteOptions};
use serde_json::{Map, Value};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::scenario::{Deed, Reference, Scenario};

/// The hosts of a world.
#[derive(Debug, Clone, Default)]
pub struct Hosts {
    git: Repositories,
    buckets: Buckets,
    registry: Registry,
}

impl Hosts {
    /// The hosts of a scenario as they are at the beginning.
    pub fn new(scenario: &Scenario, dialer: &MemoryDialer) -> Self {
        let hosts = Hosts::default();
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
        hosts.git.listen(dialer, "git", 80);
        hosts.buckets.listen(dialer, "bucket", 80);
        hosts.registry.listen(dialer, "registry", 80);
        sink(dialer);
        hosts
    }

    fn commit(&self, repository: &str, files: &Map<String, Value>) {
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
    const LIMIT: u64 = 1 << 24;
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

/// Takes events and says nothing of interest.
fn sink(dialer: &MemoryDialer) {
    let mut incoming = dialer.listen("sink", 80);
    tokio::spawn(async move {
        while let Some(mut stream) = incoming.recv().await {
            tokio::spawn(async move {
                let mut buffer = [0; 16 * 1024];
                let mut seen: Vec<u8> = Vec::new();
                while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                    seen.extend_from_slice(&buffer[..count]);
                    if whole(&seen) {
                        seen.clear();
                        let answer = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n";
                        if stream.write_all(answer).await.is_err() {
                            return;
                        }
                    }
                }
            });
        }
    });
}

/// Whether a request is complete.
fn whole(seen: &[u8]) -> bool {
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
fn numbered(value: &Value, number: u32) -> Value {
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
    deed: &Deed,
    number: u32,
) -> Result<String, (String, String)> {
    match deed {
        Deed::Commit { repository, files } => {
            let files = numbered(&Value::Object(files.clone()), number);
            if let Value::Object(files) = &files {
                hosts.commit(repository, files);
            }
            Ok(format!("commits to {repository}"))
        }
        Deed::Reset { repository, to } => {
            hosts
                .git
                .with(repository, |repository| repository.reset(*to));
            Ok(format!("resets {repository} to commit {to} by force"))
        }
        Deed::DeleteBranch { repository, branch } => {
            hosts
                .git
                .with(repository, |repository| repository.delete_branch(branch));
            Ok(format!("deletes the branch {branch} of {repository}"))
        }
        Deed::Put {
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
        Deed::Push { to, files } => {
            hosts.push(to, files);
            Ok(format!("pushes {to}"))
        }
        Deed::Apply(object) => {
            let object = numbered(object, number);
            let what = format!("applies {} {}", object["kind"], object["metadata"]["name"]);
            apply(client, &object)
                .await
                .map(|()| what.clone())
                .map_err(|why| (what, why))
        }
        Deed::Patch {
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
        Deed::Delete(object) => {
            let what = format!("deletes {} {}", object.kind, object.name);
            match delete(client, object).await {
                Ok(()) => Ok(what),
                Err(why) => Err((what, why)),
            }
        }
    }
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
