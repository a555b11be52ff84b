//! The source that an object names, and what it has produced.

use std::sync::Arc;

use everflow_api::Reason;
use everflow_api::common::Artifact;
use everflow_api::error::At as Place;
use everflow_api::wire::Wire;
use everflow_json::Value;
use everflow_runtime::Error as ClientError;
use everflow_runtime::attempt::Context;
use everflow_runtime::client::Resource;
use everflow_runtime::queue::WakeOn;
use everflow_runtime::store::CachedObject;

use crate::stop::{Failure, RetryPolicy, Stop};
use crate::{Options, depends, resources};

/// Which source is meant.
#[derive(Debug, Clone)]
pub(crate) struct SourceName {
    pub(crate) resource: Resource,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl SourceName {
    /// What a reference names; without a namespace of its own it is in that of the object.
    pub(crate) fn new(resource: Resource, namespace: Option<&str>, name: &str, own: &str) -> Self {
        SourceName {
            resource,
            namespace: match namespace {
                None | Some("") => own.to_owned(),
                Some(other) => other.to_owned(),
            },
            name: name.to_owned(),
        }
    }

    /// What wakes those who wait for it.
    pub(crate) fn wake(&self) -> WakeOn {
        self.resource.wake_on(&self.namespace, &self.name)
    }

    pub(crate) fn shown(&self) -> String {
        format!("{}/{}/{}", self.resource.kind, self.namespace, self.name)
    }

    /// Whether an object of this namespace may use it at all.
    pub(crate) fn allowed(&self, namespace: &str, options: &Options) -> Result<(), Stop> {
        let denied = |why: &str| {
            let message = format!("can't access '{}', {why}", self.shown());
            Err(Failure::new(Reason::AccessDenied, message)
                .then(RetryPolicy::Change)
                .into())
        };
        let external = self.resource.kind == resources::EXTERNAL_ARTIFACTS.kind;
        if external && !options.gates.external_artifact {
            return denied("ExternalArtifact feature gate is disabled");
        }
        match options.runtime.may_refer(namespace, &self.namespace) {
            true => Ok(()),
            false => denied("cross-namespace references have been blocked"),
        }
    }

    /// The source as the store has it.
    pub(crate) fn stored(&self, context: &Context) -> Option<Arc<CachedObject>> {
        context
            .store(&self.resource.kind)?
            .get(&self.namespace, &self.name)
    }

    /// What it has produced, as far as the store has heard.
    pub(crate) fn artifact(&self, context: &Context) -> Option<Artifact> {
        artifact(self.stored(context)?.status().get("artifact")?)
    }

    /// What `part` takes of the source, or the source as the server has it; none when it is not there.
    pub(crate) async fn read(
        &self,
        context: &Context,
        part: fn(&CachedObject) -> Value,
    ) -> Result<Option<Value>, ClientError> {
        depends::read(&self.resource, &self.namespace, &self.name, context, part).await
    }
}

/// What a source has produced, by its status.
pub(crate) fn artifact_of(source: &Value) -> Option<Artifact> {
    artifact(source.pointer("/status/artifact")?)
}

fn artifact(value: &Value) -> Option<Artifact> {
    let artifact = Some(value).filter(|artifact| artifact.is_object())?;
    Artifact::read(artifact, &Place::Root).ok()
}
