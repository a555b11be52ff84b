//! The requests of real clients, as they were recorded: all of them are answered as the real server did.
//!
//! A trace holds what one command sent, not what was there before it. The state is put up step by step from what the
//! recorded answers say: an object that was found is made, one that was not is taken away. Compared are the status, the
//! media type, the kind of what is answered, the text of failures, and of written objects all but metadata and status.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod state;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everflow_cluster::rest::request::target;
use everflow_cluster::{Answer, Body, Request};
use everflow_corpus::Outcome;
use everflow_json::{Value, json};
use state::{Library, TOKEN, World};

#[test]
fn requests_of_real_clients_are_answered() {
    let Some(root) = everflow_corpus::find("apiserver/traces") else {
        return;
    };
    let mut files: Vec<_> = std::fs::read_dir(&root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "jsonl"))
        .collect();
    files.sort();
    let traces: BTreeMap<String, Vec<Value>> = files
        .iter()
        .map(|file| {
            (
                file.file_stem().unwrap().to_string_lossy().into_owned(),
                read(file),
            )
        })
        .collect();
    let library = Library::new(root.parent().unwrap(), traces.values().flatten());
    let work: Vec<_> = traces.iter().collect();
    let next = AtomicUsize::new(0);
    let outcome = Mutex::new(Outcome::default());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((name, requests)) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut world = World::new(&library);
                    for (index, recorded) in requests.iter().enumerate() {
                        let result = replay(&mut world, recorded);
                        let id = format!("{name}#{index}");
                        outcome.lock().unwrap().record(&id, result);
                    }
                }
            });
        }
    });
    let answered: usize = traces.values().map(Vec::len).sum();
    assert_eq!((traces.len(), answered), (138, 845));
    let outcome = outcome.into_inner().unwrap();
    outcome.assert(include_str!("known-differences.txt"));
}

fn read(file: &Path) -> Vec<Value> {
    // Addresses were taken out of the recording.
    let whole = std::fs::read_to_string(file).unwrap();
    let whole = whole.replace("<server>", "http://server");
    let lines = whole.lines().skip(1);
    let mut requests: Vec<Value> = lines
        .map(|line| everflow_json::from_str(line).unwrap())
        .collect();
    // In some runs something between kept protobuf away from the server.
    let name = file.file_stem().unwrap().to_string_lossy();
    if name.starts_with("jsononly-") {
        for request in &mut requests {
            let accept =
                text(request, "accept").replace("application/vnd.kubernetes.protobuf,", "");
            request["accept"] = accept.into();
        }
    }
    requests
}

pub fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

fn replay(world: &mut World<'_>, recorded: &Value) -> Result<(), String> {
    let status = recorded["status"].as_u64().unwrap_or_default();
    // The recorder's own refusals, and the real server's while its caches were cold.
    if recorded["synthetic"].as_bool() == Some(true) || status == 429 {
        return Ok(());
    }
    let mut request = request(world, recorded);
    world.prepare_kinds(recorded);
    let named = target(&request).map_err(|error| error.message.clone())?;
    if let Some(named) = &named {
        world.prepare(named, recorded)?;
        world.renew(named, &mut request);
    }
    if status == 304 {
        let answer = world.server.handle(&request);
        let tag = header(&answer, "etag").ok_or("no ETag")?.to_owned();
        request = request.header("if-none-match", &tag);
    }
    let answer = world.server.handle(&request);
    compare(recorded, &request, answer)
        .map_err(|why| format!("{} {}: {why}", request.method, text(recorded, "path")))
}

fn request(world: &World<'_>, recorded: &Value) -> Request {
    let mut media = text(recorded, "content_type");
    let body = if let Some(body) = recorded.get("request_body") {
        body.to_string().into_bytes()
    } else if let Some(encoded) = recorded["request_base64"].as_str() {
        STANDARD.decode(encoded).unwrap()
    } else if let Some(body) = recorded["request_text"].as_str() {
        body.as_bytes().to_vec()
    } else if recorded.get("request_bytes").is_some() {
        // Too large to be recorded.
        let (body, its_media) = world.library.large_body(recorded);
        media = its_media;
        body.to_string().into_bytes()
    } else {
        Vec::new()
    };
    let mut request = Request::new(text(recorded, "method"), text(recorded, "path"), body)
        .header("user-agent", text(recorded, "user_agent"))
        .header("authorization", &format!("Bearer {TOKEN}"));
    for (name, value) in [
        ("accept", text(recorded, "accept")),
        ("content-type", media),
        ("impersonate-user", text(recorded, "impersonate")),
    ] {
        if !value.is_empty() {
            request = request.header(name, value);
        }
    }
    for (name, value) in recorded["headers"].as_object().into_iter().flatten() {
        request = request.header(name, value.as_str().unwrap());
    }
    for (name, value) in &mut request.query {
        // Revisions are this server's own.
        if name == "resourceVersion" && value != "0" {
            *value = world.server.store().revision().to_string().into();
        }
    }
    request
}

fn header<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    let found = answer.headers.iter().find(|(known, _)| known == name);
    found.map(|(_, value)| value.as_str())
}

fn compare(recorded: &Value, request: &Request, answer: Answer) -> Result<(), String> {
    let body = match &answer.body {
        Body::Full(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Body::Watch(_) => "(events)".to_owned(),
    };
    let short: String = body.chars().take(300).collect();
    if recorded["status"] != answer.status {
        return Err(format!(
            "expected {}, found {} {short}",
            recorded["status"], answer.status
        ));
    }
    let (wanted, found) = (
        recorded["response_content_type"].as_str(),
        header(&answer, "content-type"),
    );
    if wanted != found && answer.status != 304 {
        return Err(format!("expected {wanted:?}, found {found:?}"));
    }
    let is_watch = recorded["watch"].as_bool() == Some(true);
    if is_watch != matches!(answer.body, Body::Watch(_)) && answer.status == 200 {
        return Err(format!("a watch: expected {is_watch}, found {short}"));
    }
    for (key, bytes) in [("response_bytes", "bytes"), ("response_text", "text")] {
        if recorded.get(key).is_some_and(|some| some != "") && body.is_empty() {
            return Err(format!("expected {bytes}, found nothing"));
        }
    }
    let Some(wanted) = recorded.get("response_body") else {
        return Ok(());
    };
    let Ok(found) = everflow_json::from_str::<Value>(&body) else {
        return Err(format!("expected JSON, found {short}"));
    };
    shape(wanted, &found, request)
}

/// Kind, failures, and what was written.
fn shape(wanted: &Value, found: &Value, request: &Request) -> Result<(), String> {
    let same = |pointer: &str| match (wanted.pointer(pointer), found.pointer(pointer)) {
        (wanted, found) if wanted == found => Ok(()),
        (wanted, found) => Err(format!("{pointer}: expected {wanted:?}, found {found:?}")),
    };
    same("/kind")?;
    same("/apiVersion")?;
    if wanted["kind"] == "Status" {
        let parts = ["/status", "/reason", "/message", "/code", "/details/kind"];
        return parts.iter().try_for_each(|pointer| same(pointer));
    }
    if wanted["kind"] == "Table" {
        let names = |table: &Value| -> Vec<Value> {
            let columns = table["columnDefinitions"].as_array();
            let columns = columns.into_iter().flatten();
            columns.map(|column| column["name"].clone()).collect()
        };
        return match names(wanted) == names(found) {
            true => Ok(()),
            false => Err(format!("columns {:?}", names(found))),
        };
    }
    let keys = |value: &Value| -> Vec<String> {
        let keys = value.as_object().into_iter().flatten();
        keys.map(|(key, _)| key.to_string())
            .filter(|key| key != "status")
            .collect()
    };
    if keys(wanted) != keys(found) {
        return Err(format!(
            "expected {:?}, found {:?}",
            keys(wanted),
            keys(found)
        ));
    }
    if wanted.get("metadata").is_none() {
        return Ok(());
    }
    if wanted.get("items").is_none() && !request.path.ends_with("reviews") {
        same("/metadata/namespace")?;
        if wanted["metadata"].get("generateName").is_none() {
            same("/metadata/name")?;
        }
        if ["POST", "PUT", "PATCH"].contains(&request.method.as_str()) {
            return written(wanted, found);
        }
    }
    Ok(())
}

fn written(wanted: &Value, found: &Value) -> Result<(), String> {
    for (key, value) in wanted.as_object().into_iter().flatten() {
        let drawn = |value: &Value| {
            let mut value = value.clone();
            if let Some(spec) = value.as_object_mut() {
                // Addresses are drawn, tokens have a time.
                for key in ["clusterIP", "clusterIPs", "expirationSeconds"] {
                    spec.remove(key);
                }
            }
            value
        };
        let skipped = [
            "metadata",
            "status",
            "involvedObject",
            "firstTimestamp",
            "lastTimestamp",
        ];
        if !skipped.contains(&key.as_str()) && drawn(value) != drawn(&found[key]) {
            return Err(format!("{key}: expected {value}, found {}", found[key]));
        }
    }
    let labels = |value: &Value| {
        let labels = value.pointer("/metadata/labels");
        labels.cloned().unwrap_or_else(|| json!({}))
    };
    match labels(wanted) == labels(found) {
        true => Ok(()),
        false => Err(format!("labels: {} {}", labels(wanted), labels(found))),
    }
}
