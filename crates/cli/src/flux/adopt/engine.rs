//! Our own engine beside what Flux has left: its objects applied, what they replace noted.

use std::time::{Duration, Instant};

use everflow_api::view;
use everflow_json::{Value, json};
use everflow_runtime::Error;
use everflow_runtime::client::{At, Patch, Resource, Selection, WriteOptions, meta_text};

use super::notes;
use super::stop::{DEPLOYMENTS, MANAGER, until_stopped};
use crate::exit::Failure;
use crate::flux::connection::Session;

/// How long our own pods have to end.
const STOPPING: Duration = Duration::from_secs(120);
/// Kinds that an installation may replace, in which what is to be restored is looked for.
const REPLACEABLE: [(&str, &str); 12] = [
    ("v1", "Service"),
    ("v1", "ServiceAccount"),
    ("v1", "ConfigMap"),
    ("v1", "Secret"),
    ("v1", "ResourceQuota"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("policy/v1", "PodDisruptionBudget"),
    ("apps/v1", "Deployment"),
];

/// The objects of an installation as they are applied to a cluster that has Flux.
pub struct Engine<'a> {
    session: &'a Session,
    steps: Vec<Step>,
}

struct Step {
    resource: Resource,
    object: Value,
    /// What is there before.
    live: Option<Value>,
}

impl<'a> Engine<'a> {
    /// Looks at what is there. Definitions and namespaces that exist stay as they are.
    pub async fn new(session: &'a Session, objects: Vec<Value>) -> Result<Engine<'a>, Failure> {
        let mut steps = Vec::new();
        for object in objects {
            let text = |field: &str| object[field].as_str().unwrap_or_default();
            let resource = session
                .client
                .resource(text("apiVersion"), text("kind"))
                .await;
            let told = |error: Error| {
                Failure::Work(format!(
                    "{}: {}",
                    view::name_of(&object),
                    session.told_of(&error)
                ))
            };
            let resource = resource.map_err(told)?;
            let live = match session.client.get(&resource, At::of(&object)).await {
                Ok(live) => Some(live),
                Err(Error::NotFound(_)) => None,
                Err(error) => return Err(told(error)),
            };
            let stays = matches!(&*resource.kind, "CustomResourceDefinition" | "Namespace");
            if live.is_none() || !stays {
                steps.push(Step {
                    resource,
                    object,
                    live,
                });
            }
        }
        Ok(Engine { session, steps })
    }

    /// How many objects there will be that are not there now, and which will be changed.
    pub fn counts(&self) -> (usize, Vec<String>) {
        let is_new = |step: &&Step| step.live.is_none();
        let changed = self.steps.iter().filter(|step| !is_new(step));
        let names = changed.map(|step| view::name_of(&step.object)).collect();
        (self.steps.iter().filter(is_new).count(), names)
    }

    /// The Deployments.
    pub fn deployments(&self) -> Vec<(String, String)> {
        let deployments = self
            .steps
            .iter()
            .filter(|step| step.resource.kind == "Deployment");
        deployments
            .map(|step| {
                let text = |field| meta_text(&step.object, field).to_owned();
                (text("namespace"), text("name"))
            })
            .collect()
    }

    /// Applies all, or asks the API server whether it would take it.
    pub async fn apply(&self, dry_run: bool) -> Result<(), Failure> {
        for step in &self.steps {
            let object = step.noted();
            let mut by = WriteOptions::by(MANAGER).force();
            if dry_run {
                by = by.dry_run();
            }
            let (at, patch) = (At::of(&object), Patch::Apply(object.clone()));
            let written = self
                .session
                .client
                .patch(&step.resource, at, &patch, &by)
                .await;
            match written {
                Ok(_) => {}
                // What it needs is only made when it is not a rehearsal.
                Err(Error::NotFound(_)) if dry_run => {}
                Err(error) => {
                    let name = view::name_of(&object);
                    let why = self.session.told_of(&error);
                    return Err(Failure::Work(format!("{name}: {why}")));
                }
            }
        }
        Ok(())
    }
}

impl Step {
    /// The object with the note of what it replaces.
    fn noted(&self) -> Value {
        let mut object = self.object.clone();
        if matches!(
            &*self.resource.kind,
            "CustomResourceDefinition" | "Namespace"
        ) {
            return object;
        }
        object["metadata"]["labels"][notes::ENGINE] = json!("true");
        let Some(live) = &self.live else {
            return object;
        };
        if let Some(before) = live["metadata"]["annotations"][notes::BEFORE].as_str() {
            let annotations = &mut object["metadata"]["annotations"];
            annotations[notes::BEFORE] = json!(before);
            put_all(annotations, notes::hands_off(live));
        } else if live["metadata"]["labels"][notes::ENGINE].is_null() {
            let annotations = &mut object["metadata"]["annotations"];
            annotations[notes::BEFORE] = json!(notes::before(live).to_string());
            put_all(annotations, notes::hands_off(live));
        }
        object
    }
}

fn put_all(annotations: &mut Value, more: everflow_json::Map) {
    for (name, value) in &more {
        annotations[&**name] = value.clone();
    }
}

/// Stops our own Deployments; their names.
pub async fn stop(session: &Session) -> Result<Vec<String>, Failure> {
    let told = |error: Error| Failure::Work(session.told_of(&error));
    let selection = Selection::labelled(format!("{}=true", notes::ENGINE));
    let listed = session
        .client
        .list_all(&DEPLOYMENTS, None, &selection)
        .await;
    let mut stopped = Vec::new();
    for live in listed.map_err(told)?.items {
        let patch = Patch::Merge(json!({"spec": {"replicas": 0}}));
        let by = WriteOptions::by(MANAGER);
        let at = At::of(&live);
        session
            .client
            .patch(&DEPLOYMENTS, at, &patch, &by)
            .await
            .map_err(told)?;
        stopped.push((at.namespace.to_owned(), at.name.to_owned()));
    }
    let end = Instant::now() + STOPPING;
    for (namespace, name) in &stopped {
        until_stopped(session, namespace, name, end).await?;
    }
    Ok(stopped.into_iter().map(|(_, name)| name).collect())
}

/// Gives what was there before Everflow back as it was; the names.
pub async fn restore(session: &Session) -> Result<Vec<String>, Failure> {
    let selection = Selection::labelled(format!("{}=true", notes::ENGINE));
    let told = |error: Error| Failure::Work(session.told_of(&error));
    let mut restored = Vec::new();
    for (api_version, kind) in REPLACEABLE {
        let resource = session
            .client
            .resource(api_version, kind)
            .await
            .map_err(told)?;
        let listed = session.client.list_all(&resource, None, &selection).await;
        for live in listed.map_err(told)?.items {
            let Some(before) = notes::restored(&live) else {
                continue;
            };
            let by = WriteOptions::by(MANAGER);
            let written = session
                .client
                .update(&resource, At::of(&live), &before, &by)
                .await;
            written.map_err(told)?;
            restored.push(view::name_as(kind, &live));
        }
    }
    Ok(restored)
}

/// Forgets what was noted: there is nothing to give back to any more.
pub async fn forget(session: &Session) -> Result<(), Failure> {
    let adopted = Selection::labelled(format!("{}=true", notes::ENGINE));
    let flux = Selection::labelled("app.kubernetes.io/part-of=flux");
    let told = |error: Error| Failure::Work(session.told_of(&error));
    for (api_version, kind) in REPLACEABLE {
        let resource = session
            .client
            .resource(api_version, kind)
            .await
            .map_err(told)?;
        for selection in [&adopted, &flux] {
            let listed = session.client.list_all(&resource, None, selection).await;
            for live in listed.map_err(told)?.items {
                let gone = notes::without_notes(&live);
                let is_labelled = !live["metadata"]["labels"][notes::ENGINE].is_null();
                if gone.is_empty() && !is_labelled {
                    continue;
                }
                let patch =
                    json!({"metadata": {"annotations": gone, "labels": {notes::ENGINE: null}}});
                let (patch, by) = (Patch::Merge(patch), WriteOptions::by(MANAGER));
                let written = session
                    .client
                    .patch(&resource, At::of(&live), &patch, &by)
                    .await;
                written.map_err(told)?;
            }
        }
    }
    Ok(())
}
