//! Artifacts as people fetch them: by the Service, from any replica.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use everflow_env::{Dialer as _, MemoryDialer};
use everflow_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::oracles::Finding;
use crate::replica::SERVICE;
use crate::shared::Shared;

/// How often somebody fetches all there is from every replica.
const EVERY: Duration = Duration::from_secs(7);
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// What has been named for so long, by replicas with which nothing was wrong for so long, is served by each of them.
const SETTLED: Duration = Duration::from_secs(90);
/// The tables of the kinds with artifacts.
const TABLES: [&str; 5] = [
    "source.toolkit.fluxcd.io/gitrepositories",
    "source.toolkit.fluxcd.io/ocirepositories",
    "source.toolkit.fluxcd.io/helmrepositories",
    "source.toolkit.fluxcd.io/buckets",
    "source.toolkit.fluxcd.io/helmcharts",
];

/// Where a replica serves artifacts.
pub fn host(replica: usize) -> String {
    format!("{SERVICE}-{replica}")
}

/// Passes each connection to a Service on to one of those behind it who listens, in turns.
pub fn balance(dialer: &MemoryDialer, replicas: usize) {
    let mut incoming = dialer.listen(SERVICE, 80);
    let dialer = dialer.clone();
    tokio::spawn(async move {
        let mut turn = 0;
        while let Some(mut stream) = incoming.recv().await {
            for _ in 0..replicas {
                turn = (turn + 1) % replicas;
                if let Ok(mut behind) = dialer.connect(&host(turn), 80).await {
                    tokio::spawn(async move {
                        let _ = tokio::io::copy_bidirectional(&mut stream, &mut behind).await;
                    });
                    break;
                }
            }
        }
    });
}

/// What a status names.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Named {
    path: String,
    digest: String,
}

fn named(object: &Value) -> Option<Named> {
    let artifact = object.pointer("/status/artifact")?;
    let going = !object["metadata"]["deletionTimestamp"].is_null();
    let text = |field: &str| artifact[field].as_str().map(str::to_owned);
    let named = Named {
        path: text("path")?,
        digest: text("digest")?,
    };
    (!going).then_some(named)
}

/// All that statuses name now.
fn all_named(shared: &Shared) -> BTreeMap<(&'static str, String), Named> {
    let mut all = BTreeMap::new();
    let Some(server) = shared.server() else {
        return all;
    };
    for table in TABLES {
        for stored in server.store().list(table, "", None, 0).items {
            let text = |field: &str| stored.value["metadata"][field].as_str().unwrap_or_default();
            let key = format!("{}/{}", text("namespace"), text("name"));
            all.extend(named(&stored.value).map(|named| ((table, key), named)));
        }
    }
    all
}

/// Fetches what statuses name from every replica, again and again, and compares the digests.
pub async fn fetch_for_ever(shared: Arc<Shared>, dialer: MemoryDialer, replicas: usize) {
    let mut since: BTreeMap<(&'static str, String), (Named, Duration)> = BTreeMap::new();
    loop {
        tokio::time::sleep(EVERY).await;
        let now = shared.history.now();
        let all = all_named(&shared);
        since.retain(|place, (known, _)| all.get(place) == Some(known));
        for (place, named) in &all {
            let entry = since.entry(place.clone());
            let (_, first) = entry.or_insert_with(|| (named.clone(), now)).clone();
            let settled = now.saturating_sub(first) > SETTLED
                && (0..replicas).all(|replica| is_settled(&shared, replica));
            for replica in 0..replicas {
                let answer = tokio::time::timeout(PATIENCE, fetch(&dialer, replica, &named.path));
                let answer = answer.await.unwrap_or(None);
                // What is named meanwhile is another matter.
                if all_named(&shared).get(place) != Some(named) {
                    break;
                }
                let flaw = match answer {
                    Some(found) if found != named.digest => "with another digest",
                    None if settled => "not at all",
                    _ => continue,
                };
                let text = format!(
                    "replica {replica} serves {} of {}, {flaw}",
                    named.path, place.1
                );
                let at = shared.history.now();
                shared.ask(|_| {
                    vec![Finding {
                        oracle: "artifacts are served",
                        at,
                        text,
                    }]
                });
            }
        }
    }
}

fn is_settled(shared: &Shared, replica: usize) -> bool {
    let now = shared.history.now();
    let since = shared.untroubled_since(replica);
    since.is_some_and(|since| now.saturating_sub(since) > SETTLED)
}

/// The digest of what a replica serves, if it serves it.
async fn fetch(dialer: &MemoryDialer, replica: usize, path: &str) -> Option<String> {
    let mut stream = dialer.connect(&host(replica), 80).await.ok()?;
    let request = format!("GET /{path} HTTP/1.1\r\nHost: {SERVICE}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.ok()?;
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let (head, body) = (answer.get(..end)?, answer.get(end + 4..)?);
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let whole = length.is_none_or(|length| length.trim().parse() == Ok(body.len()));
    if !head.starts_with("http/1.1 200") || !whole {
        return None;
    }
    let digest: String = Sha256::digest(body)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Some(format!("sha256:{digest}"))
}
