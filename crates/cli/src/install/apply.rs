//! Applies the objects of an installation, and waits for what they become.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use everflow_api::inventory::ObjectId;
use everflow_json::Value;
use everflow_runtime::Error;
use everflow_runtime::client::{At, Patch, Resource, WriteOptions, meta_text};

use super::MANAGER;
use super::verb::{DEFINITIONS, DEPLOYMENTS};
use crate::exit::Failure;
use crate::flux::connection::Session;
use crate::flux::say;

/// How often it is looked whether something is so.
const PAUSE: Duration = Duration::from_millis(200);

/// What brings an installation to a cluster before its deadline.
pub struct Installer<'s> {
    session: &'s Session,
    end: Instant,
    timeout: Duration,
}

impl<'s> Installer<'s> {
    pub fn new(session: &'s Session, timeout: Duration) -> Self {
        Installer {
            session,
            end: Instant::now() + timeout,
            timeout,
        }
    }

    /// Tries what takes most rights, without writing anything: what is not allowed is known before anything is changed.
    pub async fn rehearse(&self, objects: &[Value]) -> Result<(), Failure> {
        let is_telling = |object: &&Value| {
            let kind = object["kind"].as_str().unwrap_or_default();
            matches!(kind, "Namespace" | "ClusterRole" | "ClusterRoleBinding")
                || meta_text(object, "name").starts_with("gitrepositories.")
        };
        for object in objects
            .iter()
            .filter(|object| object["kind"] == "PodMonitor")
        {
            self.resource(object).await?;
        }
        for object in objects.iter().filter(is_telling) {
            let resource = self.resource(object).await?;
            let by = WriteOptions::by(MANAGER).force().dry_run();
            self.write(&resource, object, &by).await?;
        }
        Ok(())
    }

    /// Applies objects one after the other, and says what became of each.
    pub async fn apply(&self, objects: &[Value]) -> Result<(), Failure> {
        let by = WriteOptions::by(MANAGER).force();
        for object in objects {
            let subject = ObjectId::of(object).subject();
            let resource = self.resource(object).await?;
            let before = match self.session.client.get(&resource, At::of(object)).await {
                Ok(live) => Some(live),
                Err(Error::NotFound(_)) => None,
                Err(error) => return Err(self.failed(&subject, &error)),
            };
            let after = self.write(&resource, object, &by).await?;
            let revision = |object: &Value| meta_text(object, "resourceVersion").to_owned();
            let done = match before {
                None => "created",
                Some(before) if revision(&before) == revision(&after) => "unchanged",
                Some(_) => "configured",
            };
            say::plain(&format!("{subject} {done}"));
        }
        Ok(())
    }

    async fn write(
        &self,
        resource: &Resource,
        object: &Value,
        by: &WriteOptions,
    ) -> Result<Value, Failure> {
        let patch = Patch::Apply(object.clone());
        let written = self
            .session
            .client
            .patch(resource, At::of(object), &patch, by)
            .await;
        written.map_err(|error| self.failed(&ObjectId::of(object).subject(), &error))
    }

    async fn resource(&self, object: &Value) -> Result<Resource, Failure> {
        let text = |field: &str| object[field].as_str().unwrap_or_default();
        let found = self
            .session
            .client
            .resource(text("apiVersion"), text("kind"));
        found.await.map_err(|error| match (&error, text("kind")) {
            (Error::NoKind { .. }, "PodMonitor") => Failure::Work(format!(
                "{error}: install the Prometheus operator first, or leave --pod-monitor away"
            )),
            _ => self.failed(&ObjectId::of(object).subject(), &error),
        })
    }

    fn failed(&self, subject: &str, error: &Error) -> Failure {
        Failure::Work(format!("{subject}: {}", self.session.told_of(error)))
    }

    /// Waits until the server serves what was defined.
    pub async fn established(&self, definitions: &[Value]) -> Result<(), Failure> {
        for definition in definitions {
            let name = meta_text(definition, "name");
            let what = format!("CustomResourceDefinition/{name}");
            self.until(&what, &DEFINITIONS, "", name, |object| {
                let conditions = object["status"]["conditions"].as_array();
                let mut conditions = conditions.into_iter().flatten();
                match conditions.any(|one| one["type"] == "Established" && one["status"] == "True")
                {
                    true => Ok(()),
                    false => Err("not established".to_owned()),
                }
            })
            .await?;
        }
        Ok(())
    }

    /// Waits until all pods of the Deployments are there and ready.
    pub async fn ready(&self, objects: &[Value]) -> Result<(), Failure> {
        let mut waited: BTreeMap<&str, &str> = BTreeMap::new();
        for object in objects
            .iter()
            .filter(|object| object["kind"] == "Deployment")
        {
            waited.insert(meta_text(object, "name"), meta_text(object, "namespace"));
        }
        for (name, namespace) in waited {
            let what = format!("Deployment/{namespace}/{name}");
            self.until(&what, &DEPLOYMENTS, namespace, name, rolled_out)
                .await?;
            say::success(&format!("{name}: deployment ready"));
        }
        Ok(())
    }

    /// Waits until an object is as it should be, or says what it still was at the deadline.
    async fn until(
        &self,
        what: &str,
        resource: &Resource,
        namespace: &str,
        name: &str,
        test: impl Fn(&Value) -> Result<(), String>,
    ) -> Result<(), Failure> {
        loop {
            let why = match self
                .session
                .client
                .get(resource, At::new(namespace, name))
                .await
            {
                Ok(object) => match test(&object) {
                    Ok(()) => return Ok(()),
                    Err(why) => why,
                },
                // A server that is away for a moment is asked again.
                Err(error) => self.session.told_of(&error),
            };
            if Instant::now() >= self.end {
                let span = everflow_time::Duration::from(self.timeout);
                let look = match namespace {
                    "" => String::new(),
                    _ => format!("; see kubectl -n {namespace} describe deployment {name}"),
                };
                return Err(Failure::Work(format!(
                    "{what} is not ready after {span}: {why}{look}"
                )));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Whether a Deployment has all the pods it should have, of its latest kind.
fn rolled_out(object: &Value) -> Result<(), String> {
    let status = |field: &str| object["status"][field].as_i64().unwrap_or(0);
    let wanted = object["spec"]["replicas"].as_i64().unwrap_or(1);
    if status("observedGeneration") < object["metadata"]["generation"].as_i64().unwrap_or(0) {
        return Err("its controller has not seen it yet".to_owned());
    }
    let (updated, ready) = (status("updatedReplicas"), status("availableReplicas"));
    match updated >= wanted && ready >= wanted && status("replicas") <= wanted {
        true => Ok(()),
        false => Err(format!("{ready} of {wanted} replicas are available")),
    }
}
