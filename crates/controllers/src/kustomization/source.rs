//! The source of a Kustomization.

use everflow_api::common::Artifact;
use everflow_api::error::At as Place;
use everflow_api::kustomization::{KustomizationSourceKind, KustomizationSpec};
use everflow_api::names::{ORIGIN_REVISION, condition, group};
use everflow_api::reason::Reason;
use everflow_api::view;
use everflow_api::wire::Wire;
use everflow_json::{Map, Value};
use everflow_runtime::Error as ClientError;
use everflow_runtime::attempt::Context;
use everflow_runtime::client::{At, Resource};
use everflow_runtime::queue::WakeOn;

use crate::stop::{Failure, RetryPolicy, Stop, Tell};
use crate::{Options, resources};

/// Which source is meant.
#[derive(Debug, Clone)]
pub(super) struct SourceName {
    pub(super) resource: Resource,
    pub(super) namespace: String,
    pub(super) name: String,
}

/// What it has produced.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub(super) artifact: Artifact,
    /// The revision at the origin of an OCI artifact.
    pub(super) origin: String,
}

impl SourceName {
    pub(super) fn of(spec: &KustomizationSpec, namespace: &str) -> Self {
        let reference = &spec.source_ref;
        SourceName {
            resource: match reference.kind {
                KustomizationSourceKind::OciRepository => resources::OCI_REPOSITORIES,
                KustomizationSourceKind::GitRepository => resources::GIT_REPOSITORIES,
                KustomizationSourceKind::Bucket => resources::BUCKETS,
                KustomizationSourceKind::ExternalArtifact => resources::EXTERNAL_ARTIFACTS,
            },
            namespace: match reference.namespace.as_deref() {
                None | Some("") => namespace.to_owned(),
                Some(other) => other.to_owned(),
            },
            name: reference.name.clone(),
        }
    }

    /// What wakes those who wait for it.
    pub(super) fn wake(&self) -> WakeOn {
        self.resource.wake_on(&self.namespace, &self.name)
    }

    pub(super) fn shown(&self) -> String {
        format!("{}/{}/{}", self.resource.kind, self.namespace, self.name)
    }

    /// Whether it may be used at all.
    pub(super) fn allowed(&self, namespace: &str, options: &Options) -> Result<(), Stop> {
        let denied = |why: &str| {
            let message = format!("can't access '{}', {why}", self.shown());
            Err(Failure::new(Reason::AccessDenied, message)
                .then(RetryPolicy::Change)
                .into())
        };
        if self.resource.kind == "ExternalArtifact" && !options.gates.external_artifact {
            return denied("ExternalArtifact feature gate is disabled");
        }
        match options.runtime.may_refer(namespace, &self.namespace) {
            true => Ok(()),
            false => denied("cross-namespace references have been blocked"),
        }
    }

    /// The source with its artifact.
    pub(super) async fn find(&self, context: &Context, options: &Options) -> Result<Source, Stop> {
        let Some(object) = self.read(context).await? else {
            let (kind, name) = (&self.resource.kind, &self.name);
            let message = format!(
                "{kind}.{} \"{name}\" not found (create it in the namespace {}, or correct \
                 spec.sourceRef)",
                group::SOURCE,
                self.namespace
            );
            return Err(Failure::new(Reason::ArtifactFailed, message)
                .telling(Tell::Nothing)
                .then(RetryPolicy::WaitForSource)
                .into());
        };
        let Some(artifact) = artifact_of(&object) else {
            let soon = everflow_time::Duration::from(options.runtime.requeue_dependency);
            let mut message = format!("Source artifact not found, retrying in {soon}");
            if let Some(complaint) = view::complaint(&object) {
                message.push_str(&format!("; {} says: {complaint}", self.shown()));
            }
            return Err(Failure::new(Reason::ArtifactFailed, message)
                .telling(Tell::Nothing)
                .then(RetryPolicy::Wait)
                .into());
        };
        let origin = artifact.metadata.get(ORIGIN_REVISION).cloned();
        Ok(Source {
            artifact,
            origin: origin.unwrap_or_default(),
        })
    }

    /// Whether its controller has said nothing about it yet.
    pub(super) fn is_new(&self, context: &Context) -> bool {
        self.stored(context).is_some_and(|object| {
            let ready = view::condition(&object, condition::READY);
            ready.is_none_or(|ready| ready["status"] == "Unknown")
        })
    }

    /// What it has produced, as far as the store has heard.
    pub(super) fn artifact(&self, context: &Context) -> Option<Artifact> {
        artifact_of(&self.stored(context)?)
    }

    /// The source as the store has it, with nothing but its status: that is all that is looked at.
    fn stored(&self, context: &Context) -> Option<Value> {
        let store = context.store(&self.resource.kind)?;
        let status = store.get(&self.namespace, &self.name)?.status();
        let mut object = Map::new();
        object.insert("status".into(), status);
        Some(Value::Object(object))
    }

    /// From the store where all there is has been told. That it is not there is said only by the server: the
    /// store may have missed it.
    async fn read(&self, context: &Context) -> Result<Option<Value>, Stop> {
        let store = context.store(&self.resource.kind);
        if let Some(object) = self.stored(context)
            && store.is_some_and(|store| store.is_synced())
        {
            return Ok(Some(object));
        }
        let at = At::new(&self.namespace, &self.name);
        match context.client.get(&self.resource, at).await {
            Ok(object) => Ok(Some(object)),
            Err(ClientError::NotFound(_)) => Ok(None),
            Err(error) => Err(Failure::new(Reason::ArtifactFailed, error.to_string())
                .telling(Tell::Nothing)
                .into()),
        }
    }
}

/// What a source has produced, by its status.
fn artifact_of(source: &Value) -> Option<Artifact> {
    let artifact = source.pointer("/status/artifact")?;
    let artifact = Some(artifact).filter(|artifact| artifact.is_object())?;
    Artifact::read(artifact, &Place::Root).ok()
}
