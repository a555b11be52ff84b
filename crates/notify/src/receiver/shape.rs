//! Bodies that must have the fields of a registry's webhook, where they are there, as texts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everflow_json::Value;
use everflow_time::Timestamp;
use everflow_yaml::sigs::typed::{StructTarget, Target, decode};

use crate::foreign;
use crate::json::Fields;

fn record(fields: Vec<(&str, Target)>) -> Target {
    let fields = fields
        .into_iter()
        .map(|(name, target)| (name.to_owned(), target));
    Target::Struct(StructTarget {
        name: String::new(),
        fields: fields.collect(),
    })
}

fn texts(names: &[&str]) -> Target {
    record(names.iter().map(|name| (*name, Target::String)).collect())
}

/// The first JSON value of a body, of which these fields are known.
fn first(body: &[u8], target: &Target) -> Result<Value, String> {
    let value = foreign::read_first(body)?;
    decode(value, target, false).map_err(|error| error.to_string())
}

fn text(value: &Value, path: &str) -> String {
    value
        .pointer(path)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

/// Docker Hub.
pub(super) fn docker_hub(body: &[u8]) -> Result<String, String> {
    let target = record(vec![
        ("push_data", texts(&["tag"])),
        ("repository", texts(&["repo_url"])),
    ]);
    let read = first(body, &target).map_err(|_| "cannot decode DockerHub webhook payload")?;
    Ok(format!(
        "DockerHub event from {} for tag {}",
        text(&read, "/repository/repo_url"),
        text(&read, "/push_data/tag")
    ))
}

/// Quay.
pub(super) fn quay(body: &[u8]) -> Result<String, String> {
    let tags = Target::Slice(Box::new(Target::String));
    let target = record(vec![("docker_url", Target::String), ("updated_tags", tags)]);
    let read = first(body, &target)
        .map_err(|error| format!("cannot decode Quay webhook payload: {error}"))?;
    Ok(format!("Quay event from {}", text(&read, "/docker_url")))
}

/// Azure Container Registry.
pub(super) fn azure(body: &[u8]) -> Result<String, String> {
    let target = record(vec![
        ("action", Target::String),
        ("target", texts(&["repository", "tag"])),
    ]);
    let read = first(body, &target)
        .map_err(|error| format!("cannot decode ACR webhook payload: {error}"))?;
    Ok(format!(
        "ACR event from {} for tag {}",
        text(&read, "/target/repository"),
        text(&read, "/target/tag")
    ))
}

/// Nexus: nothing may follow the value.
pub(super) fn nexus(body: &[u8]) -> Result<String, String> {
    let wrong = |error: String| format!("cannot decode Nexus webhook payload: {error}");
    let value = foreign::read(body).map_err(wrong)?;
    let read = decode(value, &texts(&["action", "repositoryName"]), false)
        .map_err(|error| wrong(error.to_string()))?;
    Ok(format!(
        "Nexus event from {}",
        text(&read, "/repositoryName")
    ))
}

/// Google's registry: an event within a message of Pub/Sub. Gives the event alone, and a summary of it.
pub(super) fn google(body: &[u8]) -> Result<(Vec<u8>, String), String> {
    let message = texts(&["data", "messageId", "publishTime", "subscription"]);
    let read = first(body, &record(vec![("message", message)]))
        .map_err(|error| format!("cannot decode GCR webhook payload: {error}"))?;
    let published = text(&read, "/message/publishTime");
    if !published.is_empty() && Timestamp::parse(&published).is_none() {
        return Err(format!(
            "cannot decode GCR webhook payload: publishTime {published:?} is no time"
        ));
    }
    let wrong = |error: String| format!("cannot decode GCR webhook body: {error}");
    let data = STANDARD
        .decode(text(&read, "/message/data"))
        .unwrap_or_default();
    let value = foreign::read(&data).map_err(wrong)?;
    let event = decode(value, &texts(&["action", "digest", "tag"]), false)
        .map_err(|error| wrong(error.to_string()))?;
    let [action, digest, tag] = ["/action", "/digest", "/tag"].map(|path| text(&event, path));
    let summary = format!("GCR event from {digest} for tag {tag}");
    let unwrapped = Fields::new()
        .with("action", action)
        .with("digest", digest)
        .with("tag", tag)
        .done()
        .print();
    Ok((unwrapped.into_bytes(), summary))
}
