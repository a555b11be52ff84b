//! Client-side merging, as Helm 3 does it: of what was asked for before, what is asked for, and what there is.

use everflow_api::names::manager;
use everflow_json::Value;
use everflow_merge::{merge_patch, strategic};
use everflow_release::action::Apply;
use everflow_runtime::Error as ClientError;
use everflow_runtime::client::{At, Patch, Resource, WriteOptions};

use super::attempt::Halt;
use super::rounds::Work;
use super::steps::refusal;

/// The server does not take an object.
#[derive(Debug)]
pub(super) struct Refused {
    /// Whether it was to be created.
    pub(super) created: bool,
    /// Why not.
    pub(super) why: String,
}

/// Creates an object, or patches it with what has changed.
pub(super) async fn merge(
    work: &Work,
    resource: &Resource,
    at: At<'_>,
    object: &Value,
    before: Option<&Value>,
    apply: &Apply,
) -> Result<Result<Value, Refused>, Halt> {
    let client = &work.target.client;
    let options = WriteOptions::by(manager::HELM);
    let refused = |created: bool, error: ClientError| -> Result<Refused, Halt> {
        let why = refusal(error)?.to_string();
        Ok(Refused { created, why })
    };
    let live = match client.get(resource, at).await {
        Ok(live) => live,
        Err(ClientError::NotFound(_)) => {
            let created = client
                .create(resource, at.namespace, object, &options)
                .await;
            return match created {
                Ok(live) => Ok(Ok(live)),
                Err(error) => Ok(Err(refused(true, error)?)),
            };
        }
        Err(error) => return Ok(Err(refused(false, error)?)),
    };
    let original = before.unwrap_or(&live);
    let patch = match patch_of(resource, original, object, &live, apply) {
        Ok(patch) => patch,
        Err(why) => {
            return Ok(Err(Refused {
                created: false,
                why,
            }));
        }
    };
    let Some(patch) = patch else {
        return Ok(Ok(live));
    };
    match client.patch(resource, at, &patch, &options).await {
        Ok(live) => Ok(Ok(live)),
        Err(error) => Ok(Err(refused(false, error)?)),
    }
}

/// What has to change; none when nothing has to.
fn patch_of(
    resource: &Resource,
    original: &Value,
    wanted: &Value,
    live: &Value,
    apply: &Apply,
) -> Result<Option<Patch>, String> {
    let (group, version, kind) = (&resource.group, &resource.version, &resource.kind);
    let schema = everflow_schema::builtin().schema(group, version, kind);
    let is_empty = |patch: &Value| patch.as_object().is_none_or(|map| map.is_empty());
    let patch = match schema {
        Some(schema) => {
            let patch = strategic::create_three_way(original, wanted, live, schema);
            let patch = patch.map_err(|error| format!("failed to create patch: {error}"))?;
            (!is_empty(&patch)).then_some(Patch::Strategic(patch))
        }
        None => {
            let patch = match apply.three_way_for_custom {
                true => merge_patch::create_three_way(original, wanted, live),
                false => merge_patch::create(original, wanted),
            };
            let patch = patch.map_err(|error| format!("failed to create patch: {error}"))?;
            (!is_empty(&patch)).then_some(Patch::Merge(patch))
        }
    };
    Ok(patch)
}
