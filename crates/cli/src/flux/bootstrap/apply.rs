//! Objects brought to the cluster in the order in which they need each other.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use everflow_apply::health::{Health, assess};
use everflow_apply::order::staged;
use everflow_json::Value;
use everflow_runtime::Error;
use everflow_runtime::client::{At, Patch, Resource, WriteOptions};

use super::work;
use crate::exit::Failure;
use crate::flux::connection::Session;
use crate::flux::suspend::MANAGER;

/// How often is looked again.
const PAUSE: Duration = Duration::from_millis(200);

/// Applies objects: definitions and namespaces first, and the rest once these are there.
pub async fn apply_all(
    session: &Session,
    objects: Vec<Value>,
    timeout: Duration,
) -> Result<(), Failure> {
    let end = Instant::now() + timeout;
    for (stage, objects) in staged(objects, &BTreeSet::new()) {
        let mut applied = Vec::new();
        for object in &objects {
            applied.push(apply(session, object, end).await?);
        }
        if stage.settles() {
            for (resource, object) in applied.iter().zip(&objects) {
                settle(session, resource, object, end).await?;
            }
        }
    }
    Ok(())
}

async fn apply(session: &Session, object: &Value, end: Instant) -> Result<Resource, Failure> {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let name = everflow_api::view::name_of(object);
    let told = |error: Error| work(format!("{name}: {}", session.told_of(&error)));
    let resource = loop {
        match session.client.resource(api_version, kind).await {
            Ok(resource) => break resource,
            // Its definition may be on its way.
            Err(Error::NoKind { .. } | Error::NotFound(_)) if Instant::now() + PAUSE < end => {
                session.client.forget_version(api_version);
                tokio::time::sleep(PAUSE).await;
            }
            Err(error) => return Err(told(error)),
        }
    };
    let patch = Patch::Apply(object.clone());
    let by = WriteOptions::by(MANAGER).force();
    let at = At::of(object);
    session
        .client
        .patch(&resource, at, &patch, &by)
        .await
        .map_err(told)?;
    Ok(resource)
}

/// Waits until an object is as it was applied.
async fn settle(
    session: &Session,
    resource: &Resource,
    object: &Value,
    end: Instant,
) -> Result<(), Failure> {
    loop {
        let live = session.client.get(resource, At::of(object)).await;
        let live = live.map_err(|error| work(session.told_of(&error)))?;
        let standing = assess(&live, session.clock.now());
        if standing.health == Health::Current {
            return Ok(());
        }
        if Instant::now() + PAUSE > end {
            let name = everflow_api::view::name_of(object);
            return Err(work(format!(
                "{name} is not there in time: {}",
                standing.message
            )));
        }
        tokio::time::sleep(PAUSE).await;
    }
}
