//! A cluster that is to be kept by another repository than so far.

use std::time::Duration;

use everflow_json::{Value, json};
use everflow_runtime::Error;
use everflow_runtime::client::{At, Patch, WriteOptions, annotation};

use super::work;
use crate::exit::Failure;
use crate::flux::connection::Session;
use crate::flux::kinds;
use crate::flux::suspend::MANAGER;

/// On the Kustomization of the sync while it rests: it was not suspended by a person.
const MOVING: &str = "bootstrap.everflow.dev/moving";
/// How long an attempt that was under way has to notice that it is suspended.
const SETTLING: Duration = Duration::from_secs(2);

/// Whether the source of the sync is elsewhere now, or a run before this one broke off while it moved it.
pub async fn is_moved(
    session: &Session,
    namespace: &str,
    objects: &[Value],
) -> Result<bool, Failure> {
    let at = At::new(namespace, namespace);
    let wanted = objects
        .iter()
        .find(|object| object["kind"] == "GitRepository" && At::of(object) == at);
    let Some(wanted) = wanted else {
        return Ok(false);
    };
    let source = live(session, "GitRepository", namespace).await?;
    let differs = source.is_some_and(|source| {
        let (now, then) = (&source["spec"], &wanted["spec"]);
        now["url"] != then["url"] || now["ref"] != then["ref"]
    });
    let sync = live(session, "Kustomization", namespace).await?;
    Ok(sync.is_some_and(|sync| differs || annotation(&sync, MOVING).is_some()))
}

async fn live(session: &Session, kind: &str, namespace: &str) -> Result<Option<Value>, Failure> {
    let kind = kinds::required(kind)?;
    let at = At::new(namespace, namespace);
    match session.client.get(&kind.resource, at).await {
        Ok(live) => Ok(Some(live)),
        Err(Error::NotFound(_) | Error::NoKind { .. }) => Ok(None),
        Err(error) => Err(work(session.told(kind, &error))),
    }
}

/// Lets the Kustomization of the sync rest, unless a person has suspended it.
pub async fn rest(session: &Session, namespace: &str) -> Result<(), Failure> {
    let sync = live(session, "Kustomization", namespace).await?;
    if sync.is_some_and(|sync| sync["spec"]["suspend"] == true) {
        return Ok(());
    }
    let change = json!({"metadata": {"annotations": {MOVING: "true"}}, "spec": {"suspend": true}});
    patch(session, namespace, change).await?;
    tokio::time::sleep(SETTLING).await;
    Ok(())
}

/// Lets it work again.
pub async fn go_on(session: &Session, namespace: &str) -> Result<(), Failure> {
    let sync = live(session, "Kustomization", namespace).await?;
    if sync.is_none_or(|sync| annotation(&sync, MOVING).is_none()) {
        return Ok(());
    }
    let change = json!({"metadata": {"annotations": {MOVING: null}}, "spec": {"suspend": null}});
    patch(session, namespace, change).await
}

async fn patch(session: &Session, namespace: &str, change: Value) -> Result<(), Failure> {
    let kind = kinds::required("Kustomization")?;
    let (patch, by) = (Patch::Merge(change), WriteOptions::by(MANAGER));
    let at = At::new(namespace, namespace);
    let written = session.client.patch(&kind.resource, at, &patch, &by).await;
    written
        .map(drop)
        .map_err(|error| work(session.told(kind, &error)))
}
