//! What the API servers' audit logs say of who wrote what when.

use std::collections::BTreeMap;
use std::io::BufRead as _;
use std::path::PathBuf;

use everflow_json::Value;
use everflow_runtime::queue::Key;
use everflow_runtime::shards::shard_of;

use crate::delivery::NAMESPACE;

/// The number of shards that the replicas of the tests share.
pub const SHARDS: usize = 6;

/// A write that an API server carried out.
#[derive(Debug, Clone)]
struct Write {
    user: String,
    verb: String,
    resource: String,
    name: String,
    namespace: String,
    /// When the request came, and when it was answered; sorted as text.
    came: String,
    done: String,
    code: u64,
    object: Value,
}

/// Reads the successful writes that were no dry runs.
fn read(logs: &[PathBuf]) -> Vec<Write> {
    let mut writes = Vec::new();
    for log in logs {
        let Ok(file) = std::fs::File::open(log) else {
            continue;
        };
        for line in std::io::BufReader::new(file).lines() {
            let Ok(event) = everflow_json::from_str::<Value>(&line.unwrap()) else {
                continue;
            };
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let code = event["responseStatus"]["code"].as_u64().unwrap_or_default();
            if !(200..300).contains(&code) || text(&event["requestURI"]).contains("dryRun=All") {
                continue;
            }
            let at = &event["objectRef"];
            writes.push(Write {
                user: text(&event["user"]["username"]),
                verb: text(&event["verb"]),
                resource: text(&at["resource"]),
                name: text(&at["name"]),
                namespace: text(&at["namespace"]),
                came: text(&event["requestReceivedTimestamp"]),
                done: text(&event["stageTimestamp"]),
                code,
                object: event["responseObject"].clone(),
            });
        }
    }
    writes.sort_by(|one, other| one.done.cmp(&other.done));
    writes
}

/// Who holds each shard from when on: the user who wrote the Lease, and the identity in it.
type Holders = BTreeMap<usize, Vec<(String, String, String)>>;

fn holders(writes: &[Write]) -> Holders {
    let mut holders = Holders::new();
    let suffix = format!("-of-{SHARDS}");
    let leases = writes.iter().filter(|write| write.resource == "leases");
    let mut leases: Vec<&Write> = leases.collect();
    // Answers of two servers, and of one, are not logged in the order in which the writes took effect.
    leases.sort_by_key(|write| version(write));
    for write in leases {
        let name = match write.name.is_empty() {
            true => write.object["metadata"]["name"]
                .as_str()
                .unwrap_or_default(),
            false => write.name.as_str(),
        };
        let shard = name
            .rsplit_once("-shard-")
            .and_then(|(_, rest)| rest.strip_suffix(&suffix)?.parse().ok());
        let Some(shard) = shard else {
            continue;
        };
        let holder = write.object["spec"]["holderIdentity"]
            .as_str()
            .unwrap_or_default();
        let entry = (write.done.clone(), write.user.clone(), holder.to_owned());
        holders.entry(shard).or_default().push(entry);
    }
    holders
}

/// The object of Flux that a write was made for.
fn owner(write: &Write) -> Option<Key> {
    let of = |kind: &str, name: &str| Some(Key::new(kind, NAMESPACE, name));
    match write.resource.as_str() {
        "kustomizations" => return of("Kustomization", &write.name),
        "helmreleases" => return of("HelmRelease", &write.name),
        "gitrepositories" => return of("GitRepository", &write.name),
        "helmrepositories" => return of("HelmRepository", &write.name),
        _ => {}
    }
    // By the names that the load gives its objects; a deleted object is not always in the answer.
    let object = write.object["metadata"]["name"]
        .as_str()
        .unwrap_or_default();
    let name = if write.name.is_empty() {
        object
    } else {
        &write.name
    };
    if let Some(rest) = name.strip_prefix("app-") {
        let number = rest.split('-').next().unwrap_or_default();
        return of("Kustomization", &format!("app-{number}"));
    }
    let name = name.strip_prefix("sh.helm.release.v1.").unwrap_or(name);
    let rest = name.strip_prefix("web-")?;
    let number: String = rest.chars().take_while(char::is_ascii_digit).collect();
    of("HelmRelease", &format!("web-{number}"))
}

/// What the logs show that must not be.
pub fn findings(logs: &[PathBuf]) -> Vec<String> {
    let writes = read(logs);
    let mut found = Vec::new();
    if writes.is_empty() {
        return vec!["the audit logs are empty".to_owned()];
    }
    found.extend(after_an_epoch(&writes));
    found.extend(done_twice(&writes));
    found.extend(going_back(&writes));
    found
}

/// How many requests of engines were answered until now, by verb and resource.
pub fn requests(logs: &[PathBuf]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for log in logs {
        let file = std::fs::File::open(log).unwrap();
        for line in std::io::BufReader::new(file).lines() {
            let event: Value = everflow_json::from_str(&line.unwrap()).unwrap_or_default();
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            // A long request is told when it begins, and again when it ends.
            let counted =
                text(&event["stage"]) == "ResponseStarted" || text(&event["verb"]) != "watch";
            if counted && text(&event["user"]["username"]).starts_with("engine-") {
                let at = &event["objectRef"];
                let parts = [
                    text(&event["verb"]),
                    text(&at["resource"]),
                    text(&at["subresource"]),
                ];
                *counts.entry(parts.join(" ").trim().to_owned()).or_default() += 1;
            }
        }
    }
    counts
}

/// How many writes of engines were looked at.
pub fn count(logs: &[PathBuf]) -> usize {
    let writes = read(logs);
    writes.iter().filter(|write| is_effect(write)).count()
}

fn is_effect(write: &Write) -> bool {
    write.user.starts_with("engine-") && write.namespace == NAMESPACE && write.resource != "events"
}

/// Writes that came to a server after somebody else had taken the shard, or it was released.
fn after_an_epoch(writes: &[Write]) -> Vec<String> {
    let holders = holders(writes);
    let mut found = Vec::new();
    for write in writes.iter().filter(|write| is_effect(write)) {
        let Some(owner) = owner(write) else {
            continue;
        };
        let shard = shard_of(&owner, SHARDS);
        let of_shard = holders.get(&shard).map(Vec::as_slice).unwrap_or_default();
        let last = of_shard
            .iter()
            .rev()
            .find(|(since, ..)| *since <= write.came);
        let holds = last.is_some_and(|(_, user, holder)| *user == write.user && !holder.is_empty());
        if !holds {
            found.push(format!(
                "{} {} {} {} for {owner} at {}, when shard {shard} was held by {last:?}",
                write.user, write.verb, write.resource, write.name, write.came
            ));
        }
    }
    found
}

/// Hooks that ran twice for one revision, records that were made twice.
fn done_twice(writes: &[Write]) -> Vec<String> {
    let mut made: BTreeMap<String, usize> = BTreeMap::new();
    for write in writes
        .iter()
        .filter(|write| is_effect(write) && write.code == 201)
    {
        let name = write.object["metadata"]["name"]
            .as_str()
            .unwrap_or_default();
        let what = match write.resource.as_str() {
            "jobs" => {
                let revision = write.object["metadata"]["annotations"]["revision"].as_str();
                format!("hook {name} of revision {}", revision.unwrap_or_default())
            }
            "secrets" => format!("record {name}"),
            "configmaps" => format!("ConfigMap {name}"),
            _ => continue,
        };
        *made.entry(what).or_default() += 1;
    }
    let twice = made.into_iter().filter(|(_, times)| *times > 1);
    twice
        .map(|(what, times)| format!("{what} was made {times} times"))
        .collect()
}

/// The version that a write has made.
fn version(write: &Write) -> u64 {
    let version = write.object["metadata"]["resourceVersion"].as_str();
    version
        .and_then(|text| text.parse().ok())
        .unwrap_or_default()
}

/// Objects that were given an older content after a newer one.
fn going_back(writes: &[Write]) -> Vec<String> {
    let mut newest: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    let mut found = Vec::new();
    let mut maps: Vec<&Write> = writes
        .iter()
        .filter(|write| {
            is_effect(write) && write.resource == "configmaps" && write.verb != "delete"
        })
        .collect();
    maps.sort_by_key(|write| version(write));
    for write in maps {
        let data = &write.object["data"];
        let level = data["level"]
            .as_str()
            .or(data["color"].as_str())
            .unwrap_or_default();
        let Ok(level) = level.trim_start_matches('c').parse::<u64>() else {
            continue;
        };
        let before = newest.entry(&write.name).or_default();
        if level < before.0 {
            found.push(format!(
                "{} went back from {} to {level} at {}",
                write.name, before.0, write.came
            ));
        }
        *before = (level.max(before.0), version(write));
    }
    found
}
