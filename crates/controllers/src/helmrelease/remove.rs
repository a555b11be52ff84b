//! Objects are deleted.

use everflow_api::helm::DeletionPropagation;
use everflow_apply::effects::run_concurrently;
use everflow_env::BoxFuture;
use everflow_json::Value;
use everflow_release::action::{Delete, StepResult};
use everflow_release::manifest::{check_owned, is_kept};
use everflow_runtime::Error as ClientError;
use everflow_runtime::client::DeleteOptions;
use everflow_time::Timestamp;

use super::attempt::{Attempt, Halt};
use super::rounds::Work;
use super::steps::{place, refusal};

impl Attempt<'_> {
    /// Deletes objects, kind by kind; those that ask to be kept, or are another's, stay.
    pub(super) async fn delete(
        &self,
        work: &mut Work,
        delete: &Delete,
    ) -> Result<StepResult, Halt> {
        let mut problems = Vec::new();
        for group in delete
            .objects
            .chunk_by(|one, two| one["kind"] == two["kind"])
        {
            let mut tasks: Vec<BoxFuture<'_, Result<Option<String>, Halt>>> = Vec::new();
            for object in group {
                let shared = &*work;
                tasks.push(Box::pin(self.delete_one(shared, delete, object)));
            }
            for result in run_concurrently(tasks).await {
                problems.extend(result?);
            }
        }
        Ok(match problems.is_empty() {
            true => StepResult::Done,
            false => StepResult::Failed(problems.join("; ")),
        })
    }

    /// Deletes one object; a text says why it cannot be deleted.
    async fn delete_one(
        &self,
        work: &Work,
        delete: &Delete,
        object: &Value,
    ) -> Result<Option<String>, Halt> {
        let (resource, at) = match place(work, object).await? {
            Ok(place) => place,
            // With its kind all objects went.
            Err(_) => return Ok(None),
        };
        let client = &work.target.client;
        let live = match client.get_metadata(&resource, at).await {
            Ok(live) => live,
            Err(ClientError::NotFound(_)) => return Ok(None),
            Err(error) => return Ok(Some(refusal(error)?.to_string())),
        };
        if is_kept(&live) || !belongs(delete, &live) {
            return Ok(None);
        }
        let uid = live["metadata"]["uid"].as_str().unwrap_or_default();
        let mut options = DeleteOptions::uid(uid);
        options.propagation = match delete.propagation {
            DeletionPropagation::Background => "Background",
            DeletionPropagation::Foreground => "Foreground",
            DeletionPropagation::Orphan => "Orphan",
        };
        self.memory(&work.target)
            .forget(&everflow_api::inventory::ObjectId::of(object));
        match client.delete(&resource, at, &options).await {
            Ok(_) | Err(ClientError::NotFound(_)) => Ok(None),
            Err(error) => Ok(Some(refusal(error)?.to_string())),
        }
    }
}

/// Whether an object is one of those that are meant.
fn belongs(delete: &Delete, live: &Value) -> bool {
    if let Some((name, namespace)) = &delete.owner
        && check_owned(live, name, namespace).is_err()
    {
        return false;
    }
    let created = live["metadata"]["creationTimestamp"].as_str();
    let created = created.and_then(Timestamp::parse).unwrap_or_default();
    delete.created_since.is_none_or(|since| created >= since)
}
