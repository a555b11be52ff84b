//! Flux's controllers stopped and started.

use std::time::{Duration, Instant};

use everflow_json::{Value, json};
use everflow_runtime::Error;
use everflow_runtime::client::{
    At, Patch, Resource, Selection, WriteOptions, annotation, meta_text,
};

use super::find::{Install, Manager};
use super::notes;
use crate::exit::Failure;
use crate::flux::connection::Session;

pub static DEPLOYMENTS: Resource = Resource::namespaced("apps", "v1", "deployments", "Deployment");
/// Who writes what an adoption changes.
pub const MANAGER: &str = "everflow-adopt";
/// How long pods have to end.
const STOPPING: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(300);
/// What makes the operator leave an instance alone.
const OPERATOR_OFF: &str = "fluxcd.controlplane.io/reconcile";
/// What that was before.
const OPERATOR_BEFORE: &str = "adopt.everflow.dev/operator";
static INSTANCES: Resource = Resource::namespaced(
    "fluxcd.controlplane.io",
    "v1",
    "fluxinstances",
    "FluxInstance",
);

fn told(session: &Session, error: &Error) -> Failure {
    Failure::Work(session.told_of(error))
}

/// Stops the controllers whose work this program does, and waits until they are gone. With `hands_off` others
/// are kept from starting them again.
pub async fn stop_controllers(
    session: &Session,
    install: &Install,
    hands_off: bool,
) -> Result<(), Failure> {
    if hands_off && install.manager == Manager::Operator {
        pause_operator(session).await?;
    }
    let replaced = install.controllers.iter().filter(|one| one.is_replaced());
    for controller in replaced.clone() {
        let at = At::new(&controller.namespace, &controller.name);
        let live = session.client.get(&DEPLOYMENTS, at).await;
        let live = live.map_err(|error| told(session, &error))?;
        let mut annotations = match hands_off {
            true => notes::hands_off(&live),
            false => everflow_json::Map::new(),
        };
        if controller.replicas > 0 {
            annotations.insert(
                notes::REPLICAS.into(),
                json!(controller.replicas.to_string()),
            );
        }
        let patch = json!({"metadata": {"annotations": annotations}, "spec": {"replicas": 0}});
        let (patch, by) = (Patch::Merge(patch), WriteOptions::by(MANAGER));
        let written = session.client.patch(&DEPLOYMENTS, at, &patch, &by).await;
        written.map_err(|error| told(session, &error))?;
    }
    let end = Instant::now() + STOPPING;
    for controller in replaced {
        until_stopped(session, &controller.namespace, &controller.name, end).await?;
    }
    Ok(())
}

/// Waits until a Deployment has no pods.
pub async fn until_stopped(
    session: &Session,
    namespace: &str,
    name: &str,
    end: Instant,
) -> Result<(), Failure> {
    loop {
        let live = session.client.get(&DEPLOYMENTS, At::new(namespace, name));
        let live = match live.await {
            Ok(live) => live,
            // Whoever owns it has deleted it.
            Err(Error::NotFound(_)) => return Ok(()),
            Err(error) => return Err(told(session, &error)),
        };
        let is_seen = live["status"]["observedGeneration"] == live["metadata"]["generation"];
        let pods = live["status"]["replicas"].as_i64().unwrap_or(0);
        if is_seen && pods == 0 {
            return Ok(());
        }
        if Instant::now() + PAUSE > end {
            return Err(Failure::Work(format!(
                "{namespace}/{name} does not stop: {pods} of its pods are there after {}s; two engines must not \
                 work at once. Find out why it does not end, and run this again",
                STOPPING.as_secs()
            )));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Gives the controllers of an installation their replicas back; their names.
pub async fn start_controllers(
    session: &Session,
    install: &Install,
) -> Result<Vec<(String, String)>, Failure> {
    let mut started = Vec::new();
    for controller in install.controllers.iter().filter(|one| one.is_replaced()) {
        let at = At::new(&controller.namespace, &controller.name);
        let live = session.client.get(&DEPLOYMENTS, at).await;
        let live = live.map_err(|error| told(session, &error))?;
        let Some(replicas) = controller.noted else {
            continue;
        };
        let annotations = notes::without_notes(&live);
        let patch =
            json!({"metadata": {"annotations": annotations}, "spec": {"replicas": replicas}});
        let (patch, by) = (Patch::Merge(patch), WriteOptions::by(MANAGER));
        let written = session.client.patch(&DEPLOYMENTS, at, &patch, &by).await;
        written.map_err(|error| told(session, &error))?;
        started.push((controller.namespace.clone(), controller.name.clone()));
    }
    Ok(started)
}

async fn instances(session: &Session) -> Result<Vec<Value>, Failure> {
    let all = Selection::default();
    match session.client.list_all(&INSTANCES, None, &all).await {
        Ok(listed) => Ok(listed.items),
        Err(Error::NotFound(_) | Error::NoKind { .. }) => Ok(Vec::new()),
        Err(error) => Err(told(session, &error)),
    }
}

async fn annotate(session: &Session, instance: &Value, annotations: Value) -> Result<(), Failure> {
    let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
    let (at, by) = (At::of(instance), WriteOptions::by(MANAGER));
    let written = session.client.patch(&INSTANCES, at, &patch, &by).await;
    written.map(drop).map_err(|error| told(session, &error))
}

/// Keeps the operator from starting the controllers again.
async fn pause_operator(session: &Session) -> Result<(), Failure> {
    for instance in instances(session).await? {
        if annotation(&instance, OPERATOR_BEFORE).is_some() {
            continue;
        }
        let before = annotation(&instance, OPERATOR_OFF).unwrap_or_default();
        let off = json!({OPERATOR_BEFORE: before, OPERATOR_OFF: "disabled"});
        annotate(session, &instance, off).await?;
    }
    Ok(())
}

/// Lets the operator work again; the names of the instances.
pub async fn resume_operator(session: &Session) -> Result<Vec<String>, Failure> {
    let mut resumed = Vec::new();
    for instance in instances(session).await? {
        let Some(before) = annotation(&instance, OPERATOR_BEFORE) else {
            continue;
        };
        let before = match before {
            "" => Value::Null,
            before => json!(before),
        };
        let on = json!({OPERATOR_BEFORE: null, OPERATOR_OFF: before});
        annotate(session, &instance, on).await?;
        resumed.push(meta_text(&instance, "name").to_owned());
    }
    Ok(resumed)
}
