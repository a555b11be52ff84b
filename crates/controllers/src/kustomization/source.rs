//! The source of a Kustomization.

use everflow_api::common::Artifact;
use everflow_api::kustomization::{KustomizationSourceKind, KustomizationSpec};
use everflow_api::names::{ORIGIN_REVISION, condition, group};
use everflow_api::reason::Reason;
use everflow_api::view;
use everflow_json::{Map, Value};
use everflow_runtime::attempt::Context;
use everflow_runtime::store::CachedObject;

use crate::source_name::{SourceName, artifact_of};
use crate::stop::{EventText, Failure, RetryPolicy, Stop};
use crate::{Options, resources};

/// What it has produced.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub(super) artifact: Artifact,
    /// The revision at the origin of an OCI artifact.
    pub(super) origin: String,
}

impl SourceName {
    /// Of a Kustomization.
    pub(super) fn of_kustomization(spec: &KustomizationSpec, own: &str) -> Self {
        let reference = &spec.source_ref;
        let resource = match reference.kind {
            KustomizationSourceKind::OciRepository => resources::OCI_REPOSITORIES,
            KustomizationSourceKind::GitRepository => resources::GIT_REPOSITORIES,
            KustomizationSourceKind::Bucket => resources::BUCKETS,
            KustomizationSourceKind::ExternalArtifact => resources::EXTERNAL_ARTIFACTS,
        };
        let namespace = reference.namespace.as_deref();
        SourceName::new(resource, namespace, &reference.name, own)
    }

    /// The source with its artifact.
    pub(super) async fn find(&self, context: &Context, options: &Options) -> Result<Source, Stop> {
        let read = self.read(context, status_alone).await;
        let read = read.map_err(|error| {
            Failure::new(Reason::ArtifactFailed, error.to_string()).telling(EventText::Nothing)
        })?;
        let Some(object) = read else {
            let (kind, name) = (&self.resource.kind, &self.name);
            let message = format!(
                "{kind}.{} \"{name}\" not found (create it in the namespace {}, or correct \
                 spec.sourceRef)",
                group::SOURCE,
                self.namespace
            );
            return Err(Failure::new(Reason::ArtifactFailed, message)
                .telling(EventText::Nothing)
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
                .telling(EventText::Nothing)
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
        self.stored(context).is_some_and(|stored| {
            let object = status_alone(&stored);
            let ready = view::condition(&object, condition::READY);
            ready.is_none_or(|ready| ready["status"] == "Unknown")
        })
    }
}

/// A source with nothing but its status: that is all that is looked at.
fn status_alone(stored: &CachedObject) -> Value {
    let mut object = Map::new();
    object.insert("status".into(), stored.status());
    Value::Object(object)
}
