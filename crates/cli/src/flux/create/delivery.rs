//! Brings an object to the cluster and waits until it is reconciled.

use everflow_json::Value;
use everflow_runtime::Error;
use everflow_runtime::client::{At, WriteOptions};

use super::secret::{self, Credentials};
use super::{Creation, work};
use crate::exit::Failure;
use crate::flux::connection::Session;
use crate::flux::kinds::Kind;
use crate::flux::suspend::MANAGER;
use crate::flux::{readiness, row, say};

/// What is told about a kind on its way.
struct Words {
    /// Whether it is told that the object is generated.
    generates: bool,
    /// What the object is called.
    thing: String,
    /// What is created or updated.
    made: String,
    /// The end: `NAME is ready`, or that reconciliation completed.
    names_object: bool,
    /// What stands before the revision.
    revision: Option<&'static str>,
}

fn words(kind: &Kind) -> Words {
    let name = kind.name();
    let fetched = Some("fetched revision: ");
    let source = |generates: bool, made: &str| Words {
        generates,
        thing: format!("{name} source"),
        made: made.to_owned(),
        names_object: false,
        revision: fetched,
    };
    let plain = |generates: bool, names_object: bool, revision| Words {
        generates,
        thing: name.to_owned(),
        made: name.to_owned(),
        names_object,
        revision,
    };
    match name {
        "GitRepository" | "Bucket" => source(true, &format!("{name} source")),
        "HelmRepository" => source(true, "source"),
        // It is told of its generation before.
        "HelmChart" => source(false, "source"),
        "OCIRepository" => plain(false, false, fetched),
        "Kustomization" | "HelmRelease" => plain(true, true, Some("applied revision ")),
        "ImageRepository" | "ImagePolicy" | "ImageUpdateAutomation" => plain(true, false, None),
        _ => plain(true, true, None),
    }
}

/// Brings an object to the cluster, its credentials first, and waits until it is reconciled.
pub async fn deliver(
    creation: &Creation<'_>,
    kind: &Kind,
    object: &Value,
    credentials: Credentials,
) -> Result<(), Failure> {
    let session = creation.connection.open()?;
    let words = words(kind);
    if words.generates {
        say::generation(&format!("generating {}", words.thing));
    }
    let mut object = object.clone();
    if let Some(name) = secret::apply_credentials(&session, credentials).await? {
        object["spec"]["secretRef"]["name"] = name.into();
    }
    say::action(&format!("applying {}", words.thing));
    let verb = match upsert(&session, kind, &object).await? {
        Made::Created => "created",
        Made::Updated => "updated",
    };
    say::success(&format!("{} {verb}", words.made));
    say::waiting(&format!("waiting for {} reconciliation", words.thing));
    let at = At::of(&object);
    let timeout = creation.connection.timeout;
    let ready = readiness::wait(&session, kind, at, timeout, |_| true)
        .await
        .map_err(Failure::Work)?;
    match words.names_object {
        true => say::success(&format!("{} {} is ready", kind.name(), at.name)),
        false => say::success(&format!("{} reconciliation completed", words.thing)),
    }
    if let Some(path) = ready["status"]["webhookPath"].as_str() {
        say::success(&format!("generated webhook URL {path}"));
    }
    tell_revision(kind, &words, &ready)
}

fn tell_revision(kind: &Kind, words: &Words, ready: &Value) -> Result<(), Failure> {
    let Some(before) = words.revision.filter(|_| !row::is_static(kind, ready)) else {
        return Ok(());
    };
    let revision = row::revision(kind, ready);
    if revision.is_empty() && kind.is_source() {
        return Err(work(format!(
            "{} reconciliation completed but no artifact was found",
            words.thing
        )));
    }
    say::success(&format!("{before}{revision}"));
    Ok(())
}

/// Whether the object was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Made {
    Created,
    Updated,
}

/// Creates the object, or gives the one that is there its labels and its spec.
async fn upsert(session: &Session, kind: &Kind, object: &Value) -> Result<Made, Failure> {
    let failed = |error: Error| Failure::Work(session.told(kind, &error));
    let at = At::of(object);
    let by = WriteOptions::by(MANAGER);
    let client = &session.client;
    match client.get(&kind.resource, at).await {
        Ok(mut existing) => {
            existing["spec"] = object["spec"].clone();
            set_labels(&mut existing, object);
            client
                .update(&kind.resource, at, &existing, &by)
                .await
                .map_err(failed)?;
            Ok(Made::Updated)
        }
        Err(Error::NotFound(refusal)) if refusal.details["name"].is_string() => {
            client
                .create(&kind.resource, at.namespace, object, &by)
                .await
                .map_err(failed)?;
            Ok(Made::Created)
        }
        Err(error) => Err(failed(error)),
    }
}

/// The labels of one object become those of another.
fn set_labels(existing: &mut Value, object: &Value) {
    let labels = object["metadata"]["labels"].clone();
    if let Some(metadata) = existing["metadata"].as_object_mut() {
        match labels {
            Value::Null => {
                metadata.remove("labels");
            }
            labels => {
                metadata.insert("labels".into(), labels);
            }
        }
    }
}
