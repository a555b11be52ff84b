//! Objects are brought to what they are to be.

use everflow_api::inventory::ObjectId;
use everflow_api::names::manager;
use everflow_apply::effects::run_concurrently;
use everflow_apply::takeover::own_updates;
use everflow_env::BoxFuture;
use everflow_json::Value;
use everflow_release::action::{ActionKind, Apply, Run, StepResult};
use everflow_release::status::messages::{apply_failed, create_failed};
use everflow_runtime::Error as ClientError;
use everflow_runtime::client::{At, Patch, Resource, WriteOptions};

use super::attempt::{Attempt, Halt};
use super::client_side;
use super::rounds::Work;
use super::steps::{place, refusal};

/// What came of one object: how it is now, or why not.
type Outcome = Result<Result<Value, String>, Halt>;

/// A version that no object has: the server takes it only where there is no object yet.
const NO_VERSION: &str = "1";

impl Attempt<'_> {
    /// Applies the objects of one kind, side by side.
    pub(super) async fn apply(
        &self,
        work: &mut Work,
        run: &Run,
        apply: &Apply,
    ) -> Result<StepResult, Halt> {
        let kind = run.plan().kind;
        let memory = self.memory(&work.target);
        let mut tasks: Vec<BoxFuture<'_, Outcome>> = Vec::new();
        for (object, before) in apply.objects.iter().zip(&apply.before) {
            memory.begin(&ObjectId::of(object));
            let shared = &*work;
            tasks.push(Box::pin(self.apply_one(
                shared,
                kind,
                apply,
                object,
                before.as_ref(),
            )));
        }
        let outcomes = run_concurrently(tasks).await;
        let mut failed = None;
        let mut halted = None;
        for (object, outcome) in apply.objects.iter().zip(outcomes) {
            let id = ObjectId::of(object);
            match outcome {
                Ok(Ok(live)) => {
                    memory.remember(&id, object, &live);
                    work.lives.insert(id, live);
                }
                Ok(Err(why)) => {
                    memory.forget(&id);
                    failed = failed.or(Some(why));
                }
                Err(halt) => {
                    memory.forget(&id);
                    halted = halted.or(Some(halt));
                }
            }
        }
        match (halted, failed) {
            (Some(halt), _) => Err(halt),
            (None, Some(why)) => Ok(StepResult::Failed(why)),
            (None, None) => Ok(StepResult::Done),
        }
    }

    async fn apply_one(
        &self,
        work: &Work,
        kind: ActionKind,
        apply: &Apply,
        object: &Value,
        before: Option<&Value>,
    ) -> Outcome {
        let (resource, at) = match place(work, object).await? {
            Ok(place) => place,
            Err(why) => return Ok(Err(why)),
        };
        if apply.replace {
            return self.replace(work, &resource, at, object).await;
        }
        if !apply.server_side {
            let merged = client_side::merge(work, &resource, at, object, before, apply).await;
            return self.worded(merged, object, kind);
        }
        let options = self.apply_options(kind).force();
        let patch = Patch::Apply(object.clone());
        let client = &work.target.client;
        let applied = match client.patch(&resource, at, &patch, &options).await {
            Ok(live) if apply.migrate_fields => {
                return self.migrate(work, &resource, at, object, live).await;
            }
            Ok(live) => return Ok(Ok(live)),
            Err(error) => refusal(error)?,
        };
        let is_conflict = matches!(applied, ClientError::Conflict(_));
        let why = apply_failed(object, &applied.to_string(), is_conflict);
        if kind == ActionKind::Install {
            return Ok(Err(why));
        }
        // What is missing would have been created.
        match client.get_metadata(&resource, at).await {
            Err(ClientError::NotFound(_)) => Ok(Err(create_failed(&why))),
            _ => Ok(Err(why)),
        }
    }

    fn worded(
        &self,
        merged: Result<Result<Value, client_side::Refused>, Halt>,
        object: &Value,
        kind: ActionKind,
    ) -> Outcome {
        let refused = match merged? {
            Ok(live) => return Ok(Ok(live)),
            Err(refused) => refused,
        };
        let id = ObjectId::of(object);
        Ok(Err(match (refused.created, kind) {
            (true, ActionKind::Install) => refused.why,
            (true, _) => create_failed(&refused.why),
            (false, _) => format!(
                "cannot patch \"{}\" with kind {}: {}",
                id.name, id.kind, refused.why
            ),
        }))
    }

    /// How objects are written.
    pub(super) fn apply_options(&self, kind: ActionKind) -> WriteOptions {
        let spec = &self.object.spec;
        let lenient = match kind {
            ActionKind::Install => spec
                .install
                .as_ref()
                .is_some_and(|install| install.disable_open_api_validation),
            ActionKind::Upgrade => spec
                .upgrade
                .as_ref()
                .is_some_and(|upgrade| upgrade.disable_open_api_validation),
            _ => false,
        };
        let mut options = WriteOptions::by(manager::HELM);
        options.field_validation = match lenient {
            true => "Ignore",
            false => "Strict",
        };
        options
    }

    /// Fields that our client merged before are handed over to the server's merging; then what is not asked for any
    /// more can go.
    async fn migrate(
        &self,
        work: &Work,
        resource: &Resource,
        at: At<'_>,
        object: &Value,
        live: Value,
    ) -> Outcome {
        let Some(patch) = own_updates(manager::HELM, &live) else {
            return Ok(Ok(live));
        };
        let client = &work.target.client;
        let options = WriteOptions::by(manager::HELM);
        let handed = client
            .patch(resource, at, &Patch::Json(patch), &options)
            .await;
        if let Err(error) = handed {
            return Ok(Err(refusal(error)?.to_string()));
        }
        let patch = Patch::Apply(object.clone());
        match client.patch(resource, at, &patch, &options.force()).await {
            Ok(live) => Ok(Ok(live)),
            Err(error) => {
                let error = refusal(error)?;
                Ok(Err(apply_failed(object, &error.to_string(), false)))
            }
        }
    }

    /// Puts an object in the place of the one that is there.
    async fn replace(
        &self,
        work: &Work,
        resource: &Resource,
        at: At<'_>,
        object: &Value,
    ) -> Outcome {
        let client = &work.target.client;
        let options = WriteOptions::by(manager::HELM);
        let live = match client.get_metadata(resource, at).await {
            Ok(live) => live,
            Err(ClientError::NotFound(_)) => {
                let created = client
                    .create(resource, at.namespace, object, &options)
                    .await;
                return match created {
                    Ok(live) => Ok(Ok(live)),
                    Err(error) => Ok(Err(create_failed(&refusal(error)?.to_string()))),
                };
            }
            Err(error) => return Ok(Err(refusal(error)?.to_string())),
        };
        let mut object = object.clone();
        object["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
        match client.update(resource, at, &object, &options).await {
            Ok(live) => Ok(Ok(live)),
            Err(error) => {
                let error = refusal(error)?;
                Ok(Err(format!("failed to replace object: {error}")))
            }
        }
    }

    /// Creates the objects of a hook. Those that are there are left as they are.
    pub(super) async fn create_hook(
        &self,
        work: &mut Work,
        objects: &[Value],
        server_side: bool,
    ) -> Result<StepResult, Halt> {
        for object in objects {
            let (resource, at) = match place(work, object).await? {
                Ok(place) => place,
                Err(why) => return Ok(StepResult::Failed(why)),
            };
            let client = &work.target.client;
            let options = WriteOptions::by(manager::HELM);
            let created = match server_side {
                true => {
                    let mut new = object.clone();
                    new["metadata"]["resourceVersion"] = NO_VERSION.into();
                    client
                        .patch(&resource, at, &Patch::Apply(new), &options)
                        .await
                }
                false => {
                    client
                        .create(&resource, at.namespace, object, &options)
                        .await
                }
            };
            match created {
                Ok(live) => {
                    work.lives.insert(ObjectId::of(object), live);
                }
                Err(ClientError::AlreadyExists(_) | ClientError::Conflict(_)) => {}
                Err(error) => {
                    let error = refusal(error)?;
                    let why = match server_side {
                        true => apply_failed(object, &error.to_string(), false),
                        false => error.to_string(),
                    };
                    return Ok(StepResult::Failed(why));
                }
            }
        }
        Ok(StepResult::Done)
    }
}
