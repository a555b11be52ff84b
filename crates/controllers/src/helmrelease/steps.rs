//! The effects of the steps of actions.

use everflow_api::inventory::ObjectId;
use everflow_api::names::manager;
use everflow_json::{Value, json};
use everflow_release::action::{Expected, Run, Step, StepResult};
use everflow_release::manifest::check_owned;
use everflow_release::record::RecordWrite;
use everflow_release::record::mark::PROGRESS;
use everflow_runtime::Error as ClientError;
use everflow_runtime::client::{At, DeleteOptions, Patch, Resource, WriteOptions};
use everflow_time::Timestamp;

use super::attempt::{Attempt, Halt};
use super::rounds::Work;
use crate::resources;

const NAMESPACES: Resource = Resource::cluster("", "v1", "namespaces", "Namespace");

/// The collection of an object and its place in it; or why there is none.
pub(super) async fn place<'o>(
    work: &Work,
    object: &'o Value,
) -> Result<Result<(Resource, At<'o>), String>, Halt> {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let resource = work
        .target
        .client
        .resource(text("apiVersion"), text("kind"))
        .await;
    match resource {
        Ok(resource) => {
            let mut at = At::of(object);
            if !resource.namespaced {
                at.namespace = "";
            }
            Ok(Ok((resource, at)))
        }
        Err(error @ ClientError::NoKind { .. }) => Ok(Err(error.to_string())),
        Err(error) => Err(Halt::unanswered(error)),
    }
}

/// A refusal that stands whatever is done now; any other error means that nothing is known.
pub(super) fn refusal(error: ClientError) -> Result<ClientError, Halt> {
    // The server says 500 of a field that its schema does not have.
    let is_schema = error.refusal().is_some_and(|refusal| {
        refusal
            .message
            .contains("failed to create typed patch object")
    });
    let is_final = is_schema || (error.refusal().is_some() && !error.is_transient());
    match is_final {
        true => Ok(error),
        false => Err(Halt::unanswered(error)),
    }
}

impl Attempt<'_> {
    /// Carries a step out.
    pub(super) async fn effect(
        &mut self,
        work: &mut Work,
        run: &Run,
        step: &Step,
    ) -> Result<StepResult, Halt> {
        self.log_step(work, step);
        match step {
            Step::ApplyDefinitions { .. } | Step::Over(_) => Ok(StepResult::Done),
            Step::CheckOwnership { objects } => self.check_ownership(work, run, objects).await,
            Step::CreateNamespace(namespace) => self.create_namespace(work, namespace).await,
            Step::WriteRecord { write, expected } => self.write_record(work, write, expected).await,
            Step::NoteProgress {
                secret,
                progress,
                expected,
            } => self.note_progress(work, secret, progress, expected).await,
            Step::DeleteRecords { secrets } => self.delete_records(work, secrets).await,
            Step::DeleteHook(hook) => self.delete_hook(work, hook).await,
            Step::CreateHook {
                objects,
                server_side,
            } => self.create_hook(work, objects, *server_side).await,
            Step::AwaitHook(hook) => self.await_hook(work, hook).await,
            Step::PrintHookLogs { objects } => {
                if !self.options().kustomize.alone {
                    self.print_hook_logs(work, objects).await;
                }
                Ok(StepResult::Done)
            }
            Step::Apply(apply) => self.apply(work, run, apply).await,
            Step::Delete(delete) => self.delete(work, delete).await,
            Step::AwaitHealth(wait) => self.await_health(work, wait).await,
            Step::AwaitDeletion(wait) => self.await_deletion(work, wait).await,
        }
    }

    fn log_step(&self, work: &mut Work, step: &Step) {
        const LINES: usize = 20;
        let names = |objects: &[Value]| {
            let names = objects.iter().map(|object| ObjectId::of(object).subject());
            names.collect::<Vec<String>>().join(", ")
        };
        let line = match step {
            Step::Apply(apply) => format!("applying {}", names(&apply.objects)),
            Step::Delete(delete) => format!("deleting {}", names(&delete.objects)),
            Step::CreateHook { objects, .. } => format!("creating hook {}", names(objects)),
            Step::AwaitHook(hook) => format!("waiting for hook {}", names(&hook.objects)),
            Step::AwaitHealth(wait) => format!("waiting for {}", names(&wait.objects)),
            Step::AwaitDeletion(wait) => format!("waiting for the end of {}", names(&wait.objects)),
            _ => return,
        };
        let line = format!("{}: {line}", self.now());
        if work.log.len() >= LINES {
            work.log.remove(0);
        }
        work.log.push(line);
    }

    async fn check_ownership(
        &self,
        work: &Work,
        run: &Run,
        objects: &[Value],
    ) -> Result<StepResult, Halt> {
        let record = run.record();
        for object in objects {
            let (resource, at) = match place(work, object).await? {
                Ok(place) => place,
                Err(why) => return Ok(StepResult::Failed(why)),
            };
            match work.target.client.get(&resource, at).await {
                Ok(live) => {
                    if let Err(why) = check_owned(&live, &record.name, &record.namespace) {
                        return Ok(StepResult::Failed(why));
                    }
                }
                Err(ClientError::NotFound(_)) => {}
                Err(error) => return Ok(StepResult::Failed(refusal(error)?.to_string())),
            }
        }
        Ok(StepResult::Done)
    }

    async fn create_namespace(&self, work: &Work, namespace: &Value) -> Result<StepResult, Halt> {
        let by = WriteOptions::by(manager::HELM);
        let client = &work.target.client;
        match client.create(&NAMESPACES, "", namespace, &by).await {
            Ok(_) | Err(ClientError::AlreadyExists(_)) => Ok(StepResult::Done),
            Err(error) => Ok(StepResult::Failed(refusal(error)?.to_string())),
        }
    }

    /// Writes a record, if its Secret is as it was last seen.
    pub(super) async fn write_record(
        &self,
        work: &mut Work,
        write: &RecordWrite,
        expected: &Expected,
    ) -> Result<StepResult, Halt> {
        let client = work.target.client.clone();
        let name = write.secret_name();
        let namespace = &write.storage_namespace;
        let by = WriteOptions::by(manager::HELM);
        let secret = match expected {
            Expected::Absent => write.created(self.now()),
            Expected::Version(_) => write.updated(self.now()),
        };
        let mut secret = match secret {
            Ok(secret) => secret,
            Err(error) => return Ok(StepResult::Failed(error.to_string())),
        };
        let written = match expected {
            Expected::Absent => {
                let secrets = &resources::SECRETS;
                client.create(secrets, namespace, &secret, &by).await
            }
            Expected::Version(version) => {
                secret["metadata"]["resourceVersion"] = json!(version);
                let at = At::new(namespace, &name);
                client.update(&resources::SECRETS, at, &secret, &by).await
            }
        };
        self.written(work, written)
    }

    async fn note_progress(
        &self,
        work: &mut Work,
        secret: &str,
        progress: &str,
        expected: &Expected,
    ) -> Result<StepResult, Halt> {
        self.annotate_record(work, secret, (PROGRESS, progress), expected)
            .await
    }

    /// Notes something beside a record, and writes nothing else.
    pub(super) async fn annotate_record(
        &self,
        work: &mut Work,
        secret: &str,
        (name, text): (&str, &str),
        expected: &Expected,
    ) -> Result<StepResult, Halt> {
        let mut patch = json!({"metadata": {"annotations": {(name): text}}});
        if let Expected::Version(version) = expected {
            patch["metadata"]["resourceVersion"] = json!(version);
        }
        let namespace = work.release.storage_namespace.clone();
        let by = WriteOptions::by(manager::HELM);
        let client = work.target.client.clone();
        let at = At::new(&namespace, secret);
        let patch = Patch::Merge(patch);
        let written = client.patch(&resources::SECRETS, at, &patch, &by).await;
        self.written(work, written)
    }

    fn written(
        &self,
        work: &mut Work,
        written: Result<Value, ClientError>,
    ) -> Result<StepResult, Halt> {
        match written {
            Ok(secret) => {
                let text = |field: &str| secret["metadata"][field].as_str().unwrap_or_default();
                let result = StepResult::Written {
                    resource_version: text("resourceVersion").to_owned(),
                    created: Timestamp::parse(text("creationTimestamp")),
                };
                work.records.put(secret);
                Ok(result)
            }
            Err(error @ (ClientError::AlreadyExists(_) | ClientError::Conflict(_))) => Err(
                Halt::Again(format!("the record was written by another: {error}")),
            ),
            Err(ClientError::NotFound(refusal)) if refusal.details["kind"] == "secrets" => {
                Err(Halt::Again(format!("the record has gone: {refusal}")))
            }
            Err(error) => Ok(StepResult::Failed(refusal(error)?.to_string())),
        }
    }

    async fn delete_records(
        &self,
        work: &mut Work,
        secrets: &[String],
    ) -> Result<StepResult, Halt> {
        let namespace = work.release.storage_namespace.clone();
        for name in secrets {
            let uid = work.records.secret(name);
            let uid = uid.and_then(|secret| secret["metadata"]["uid"].as_str());
            let options = DeleteOptions::uid(uid.unwrap_or_default());
            let at = At::new(&namespace, name);
            let client = &work.target.client;
            match client.delete(&resources::SECRETS, at, &options).await {
                Ok(_) | Err(ClientError::NotFound(_)) => work.records.forget(name),
                Err(error @ ClientError::Conflict(_)) => {
                    return Err(Halt::Again(error.to_string()));
                }
                Err(error) => return Ok(StepResult::Failed(refusal(error)?.to_string())),
            }
        }
        Ok(StepResult::Done)
    }
}
