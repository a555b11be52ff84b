//! What the real source-controller made of the same artifacts: revisions, digests and sizes of its
//! artifacts, and the messages and reasons of what failed.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everflow_corpus::Outcome;
use everflow_env::{Env, MemoryDialer};
use everflow_json::{Value, json};

use super::cosign::PublicKey;
use super::*;
use crate::testing::{Push, Registry};

const REGISTRY: &str = "127.0.0.1:5000";
/// Where nobody listens.
const DEAD: &str = "127.0.0.1:1";

fn text(value: &Value, pointer: &str) -> String {
    let found = value.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_default().to_owned()
}

fn push(registry: &Registry, scenario: &Value, raw: &str) {
    for one in scenario["oci"].as_array().into_iter().flatten() {
        let repository = match text(one, "/repo") {
            empty if empty.is_empty() => text(scenario, "/namespace"),
            repository => repository,
        };
        let tags: Vec<&str> = one["tags"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tag| tag.as_str().unwrap())
            .collect();
        let layer = |layer: &Value| {
            let content = STANDARD.decode(text(layer, "/base64")).unwrap();
            (text(layer, "/mediaType"), content)
        };
        let mut push = Push {
            layers: one["layers"]
                .as_array()
                .unwrap()
                .iter()
                .map(layer)
                .collect(),
            ..Push::default()
        };
        if let Some(config) = one["config"].as_str() {
            config.clone_into(&mut push.config);
        }
        if let Some(kind) = one["configMediaType"].as_str() {
            kind.clone_into(&mut push.config_media_type);
        }
        for (name, value) in one["annotations"].as_object().into_iter().flatten() {
            let pair = (name.to_string(), value.as_str().unwrap().to_owned());
            push.annotations.push(pair);
        }
        // They stand in the manifest in the order in which they stand in the recording.
        push.annotations.sort_by_key(|(name, _)| raw.find(name));
        registry.push(&repository, &tags, &push);
    }
}

/// One attempt at what a spec asks for, as the status shows it.
async fn attempt(
    env: &Env,
    spec: &Value,
    secrets: &BTreeMap<String, Value>,
    have: &Value,
) -> Result<Value, Error> {
    let deadline = Deadline::after(&env.clock, Duration::from_secs(60));
    let url = text(spec, "/url")
        .replace("$REG", REGISTRY)
        .replace("$DEAD", DEAD);
    let mut remote = Remote::new(url.as_str());
    remote.insecure = spec["insecure"] == json!(true);
    if let Some(secret) = secrets.get(&text(spec, "/secretRef/name")) {
        let mut config = DockerConfig::new();
        let data = secret["stringData"].as_object().unwrap().iter();
        let data = data
            .map(|(key, value)| {
                let value = value.as_str().unwrap().replace("$REG", REGISTRY);
                (key.to_string(), value.into_bytes())
            })
            .collect();
        config.add_secret(&text(secret, "/type"), &data)?;
        if let Ok(repository) = Repository::parse(&url) {
            remote.auth = config.auth_for(&repository);
        }
    }
    let client = OciClient::new(env, remote)?;
    let wanted = OciRef {
        digest: text(spec, "/ref/digest"),
        semver: text(spec, "/ref/semver"),
        semver_filter: text(spec, "/ref/semverFilter"),
        tag: text(spec, "/ref/tag"),
    };
    let media_type = text(spec, "/layerSelector/mediaType");
    let resolution = client.resolve(&wanted, &media_type, &deadline).await?;
    if let Some(secret) = secrets.get(&text(spec, "/verify/secretRef/name")) {
        let mut keys = Vec::new();
        for (_, pem) in secret["stringData"].as_object().unwrap() {
            keys.push(PublicKey::from_pem(pem.as_str().unwrap().as_bytes())?);
        }
        client
            .verify_cosign(&resolution.digest, &keys, &deadline)
            .await?;
    }
    let configured = json!([spec["ignore"], spec["layerSelector"]]);
    if have["revision"] == json!(resolution.revision) && have["configured"] == configured {
        return Ok(have.clone());
    }
    let options = PullOptions {
        media_type,
        operation: match text(spec, "/layerSelector/operation").as_str() {
            "copy" => LayerOperation::Copy,
            _ => LayerOperation::Extract,
        },
        ignore: spec["ignore"].as_str().map(str::to_owned),
        ..PullOptions::default()
    };
    let pulled = client.pull(&resolution, &options, &deadline).await?;
    Ok(json!({
        "configured": configured,
        "revision": resolution.revision,
        "digest": pulled.digest.as_str(),
        "size": pulled.size,
        "metadata": pulled.metadata,
    }))
}

/// What Flux's status must agree with.
fn compare(status: &Value, outcome: &Result<Value, Error>) -> Result<(), String> {
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let ready = conditions
        .iter()
        .find(|condition| condition["type"] == "Ready")
        .cloned()
        .unwrap_or_default();
    match outcome {
        Err(error) => {
            let mut message = error
                .to_string()
                .replace(REGISTRY, "$REG")
                .replace(DEAD, "$DEAD");
            if matches!(error, Error::Signature { .. }) {
                message =
                    format!("failed to verify the signature using provider 'cosign': {message}");
            }
            let expected = text(&ready, "/message");
            if ready["status"] != "False" || !message.starts_with(&expected) {
                return Err(format!("{message:?} instead of {expected:?}"));
            }
            match text(&ready, "/reason") == error.reason() {
                true => Ok(()),
                false => Err(format!("{} instead of {}", error.reason(), ready["reason"])),
            }
        }
        Ok(artifact) => {
            if ready["status"] != "True" {
                return Err(format!("success instead of {}", ready["message"]));
            }
            for field in ["revision", "digest", "size"] {
                let expected = &status["artifact"][field];
                if artifact[field] != *expected {
                    return Err(format!(
                        "{field}: {} instead of {expected}",
                        artifact[field]
                    ));
                }
            }
            let expected = match &status["artifact"]["metadata"] {
                Value::Null => json!({}),
                metadata => metadata.clone(),
            };
            match artifact["metadata"] == expected {
                true => Ok(()),
                false => Err(format!("metadata: {}", artifact["metadata"])),
            }
        }
    }
}

async fn replay(path: &Path) -> Result<(), String> {
    let raw = std::fs::read_to_string(path).unwrap();
    let scenario: Value = everflow_json::from_str(&raw).unwrap();
    let dialer = MemoryDialer::new();
    let registry = Registry::new();
    registry.listen(&dialer, "127.0.0.1", 5000);
    let env = Env::simulated(1, dialer);
    push(&registry, &scenario, &raw);
    let mut secrets = BTreeMap::new();
    for object in scenario["objects"].as_array().into_iter().flatten() {
        if object["kind"] == "Secret" {
            secrets.insert(text(object, "/metadata/name"), object.clone());
        }
    }
    let mut have = Value::Null;
    for step in scenario["steps"].as_array().into_iter().flatten() {
        if let Some(pushed) = step.get("oci_push") {
            let tags: Vec<&str> = pushed["tags"]
                .as_array()
                .unwrap()
                .iter()
                .map(|tag| tag.as_str().unwrap())
                .collect();
            registry.retag(&text(&scenario, "/namespace"), &tags, &text(pushed, "/of"));
        }
        for object in step["then"]["flux"].as_array().into_iter().flatten() {
            if object["kind"] == "HelmChart" {
                chart(&env, object).await?;
            }
            if object["kind"] != "OCIRepository" || object["spec"]["suspend"] == json!(true) {
                continue;
            }
            let outcome = attempt(&env, &object["spec"], &secrets, &have).await;
            compare(&object["status"], &outcome)?;
            if let Ok(artifact) = outcome {
                have = artifact;
            }
        }
    }
    Ok(())
}

/// A chart as the HelmChart asks for it.
async fn chart(env: &Env, object: &Value) -> Result<(), String> {
    let deadline = Deadline::after(&env.clock, Duration::from_secs(60));
    let mut remote = Remote::new(format!(
        "oci://{REGISTRY}/charts/{}",
        text(object, "/spec/chart")
    ));
    remote.insecure = true;
    let client = OciClient::new(env, remote).map_err(|error| error.to_string())?;
    let status = &object["status"];
    let wanted = text(object, "/spec/version");
    let ready = status["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|condition| condition["type"] == "Ready")
        .unwrap();
    let version = match wanted.ends_with('x') {
        false => wanted,
        true => {
            let versions = client.chart_versions(&deadline).await.unwrap();
            let range = everflow_semver::Constraint::parse(&wanted).unwrap();
            match range.latest(versions.iter().map(String::as_str)) {
                Some((version, _)) => version.to_owned(),
                None => return Ok(()),
            }
        }
    };
    match client.chart(&version, &deadline).await {
        Ok(chart) => {
            let digest = digest_of(Default::default(), &chart.bytes);
            match status["artifact"]["digest"] == json!(digest.as_str()) {
                true => Ok(()),
                false => Err(format!("the chart has the digest {digest}")),
            }
        }
        Err(error) => {
            let message = format!("chart pull error: {error}").replace(REGISTRY, "$REG");
            match message.starts_with(&text(ready, "/message")) {
                true => Ok(()),
                false => Err(format!("{message:?} instead of {}", ready["message"])),
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_real_source_controller_agrees() {
    let Some(directory) = everflow_corpus::find("flux/sources") else {
        return;
    };
    let mut paths: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            name.starts_with("oci-")
        })
        .collect();
    paths.sort();
    let mut outcome = Outcome::default();
    for path in paths {
        let id = path.file_stem().unwrap().to_string_lossy().into_owned();
        outcome.record(id, replay(&path).await);
    }
    outcome.assert(include_str!("conformance_known_differences.txt"));
}
