//! The facts of a world, in the form of the recording.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::time::Duration;

use everflow_fetch::http::{Client, ClientOptions};
use everflow_fetch::{Deadline, Url};
use everflow_json::{Map, Value, json};
use everflow_runtime::events::EVENTS;

use super::registry::digest;
use super::world::World;

/// What was seen before the step.
#[derive(Debug, Default)]
pub struct Memory {
    events: BTreeMap<String, i64>,
    posted: usize,
}

/// What is there now, and what happened since the last time.
pub async fn collect(world: &World, memory: &mut Memory) -> Value {
    let flux: Vec<Value> = world.flux_objects().await.iter().map(object).collect();
    let facts = json!({
        "artifacts": artifacts(world, &flux).await,
        "events": events(world, memory).await,
        "flux": flux,
        "notifications": notifications(world, memory),
    });
    everflow_json::from_str(&world.symbolic(&facts.to_string())).unwrap()
}

/// An object with its managed fields cut to who and how.
fn object(object: &Value) -> Value {
    let mut object = object.clone();
    let managed = object["metadata"]["managedFields"].take();
    let entries: BTreeSet<String> = managed
        .as_array()
        .into_iter()
        .flatten()
        .map(|entry| {
            let mut cut = Map::new();
            for field in ["manager", "operation", "subresource"] {
                if let Some(value) = entry.get(field) {
                    cut.insert(field.into(), value.clone());
                }
            }
            Value::Object(cut).to_string()
        })
        .collect();
    let entries: Vec<Value> = entries
        .iter()
        .map(|text| everflow_json::from_str(text).unwrap())
        .collect();
    object["metadata"]["managedFields"] = entries.into();
    object
}

async fn events(world: &World, memory: &mut Memory) -> Vec<Value> {
    let all = Default::default();
    let list = world
        .client
        .list_all(&EVENTS, Some(&world.namespace), &all)
        .await
        .unwrap();
    let mut found = Vec::new();
    for event in list.items {
        let name = event["metadata"]["name"].as_str().unwrap().to_owned();
        let count = event["count"].as_i64().unwrap_or(1);
        let before = memory.events.insert(name, count);
        if before == Some(count) {
            continue;
        }
        let mut shown = Map::new();
        for field in ["type", "reason", "message", "source", "reportingComponent"] {
            shown.insert(field.into(), event[field].clone());
        }
        let annotations = event["metadata"].get("annotations").cloned();
        shown.insert(
            "annotations".into(),
            annotations.unwrap_or_else(|| json!({})),
        );
        let involved = &event["involvedObject"];
        let mut reference = Map::new();
        for field in ["apiVersion", "kind", "namespace", "name"] {
            reference.insert(field.into(), involved[field].clone());
        }
        shown.insert("involvedObject".into(), reference.into());
        shown.insert("count".into(), count.into());
        if let Some(before) = before {
            shown.insert("repeated_since_count".into(), before.into());
        }
        found.push(Value::Object(shown));
    }
    found
}

fn notifications(world: &World, memory: &mut Memory) -> Vec<Value> {
    let posted = world.posted.lock().unwrap();
    // What other namespaces have to say is not in the recording.
    let own = |body: &&Value| body["involvedObject"]["namespace"] == world.namespace.as_str();
    let new = posted[memory.posted..].iter().filter(own).map(|body| {
        let mut body = body.clone();
        let map = body.as_object_mut().unwrap();
        map.remove("timestamp");
        map.remove("reportingInstance");
        let involved = map["involvedObject"].as_object_mut().unwrap();
        involved.remove("uid");
        involved.remove("resourceVersion");
        body
    });
    let new = new.collect();
    memory.posted = posted.len();
    new
}

async fn artifacts(world: &World, flux: &[Value]) -> Value {
    let mut all = Map::new();
    for object in flux {
        let Some(url) = object["status"]["artifact"]["url"].as_str() else {
            continue;
        };
        let kind = object["kind"].as_str().unwrap();
        // Someone else's: it has no file of its own.
        if kind == "ExternalArtifact" {
            continue;
        }
        let name = object["metadata"]["name"].as_str().unwrap();
        let client = Client::new(&world.env, ClientOptions::default()).unwrap();
        let deadline = Deadline::after(&world.env.clock, Duration::from_secs(10));
        let url = Url::parse(url).unwrap();
        let shown = match client.get(&url, None, 1 << 30, &deadline).await {
            Ok(bytes) => artifact(&bytes),
            Err(error) => json!({"error": error.to_string()}),
        };
        all.insert(format!("{kind}/{name}").into(), shown);
    }
    all.into()
}

/// What a file is: its digest, and its entries when it is an archive.
pub fn artifact(bytes: &[u8]) -> Value {
    let sum = digest(bytes);
    let mut shown = json!({
        "tarball_sha256": sum.trim_start_matches("sha256:"),
        "tarball_size": bytes.len(),
    });
    match entries(bytes) {
        Some(entries) => shown["files"] = entries.into(),
        None => {
            shown["files"] = json!([]);
            shown["not_tar"] = true.into();
            shown["text"] = String::from_utf8_lossy(bytes).into();
        }
    }
    shown
}

fn entries(bytes: &[u8]) -> Option<Vec<Value>> {
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(bytes)
        .read_to_end(&mut plain)
        .ok()?;
    let mut archive = tar::Archive::new(plain.as_slice());
    let mut entries = Vec::new();
    for entry in archive.entries().ok()? {
        let mut entry = entry.ok()?;
        let mut content = Vec::new();
        entry.read_to_end(&mut content).ok()?;
        let header = entry.header();
        let is_directory = header.entry_type().is_dir();
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let mut shown = json!({
            "path": path,
            "mode": format!("{:04o}", header.mode().ok()?),
            "type": if is_directory { "dir" } else { "file" },
            "size": content.len(),
            "mtime": header.mtime().ok()?,
        });
        if !is_directory {
            shown["sha256"] = digest(&content).trim_start_matches("sha256:").into();
        }
        entries.push(shown);
    }
    Some(entries)
}
