//! The object whose artifact is the chart.

use everflow_api::Reason;
use everflow_api::common::Artifact;
use everflow_api::error::At as Place;
use everflow_api::helm::{ChartRefKind, HelmRelease};
use everflow_api::names::{condition, group};
use everflow_api::object::Object;
use everflow_api::view;
use everflow_api::wire::Wire;
use everflow_json::Value;
use everflow_release::helm_chart;
use everflow_runtime::Error as ClientError;
use everflow_runtime::attempt::{Context, Next, Verdict};
use everflow_runtime::client::{At, Resource};
use everflow_runtime::queue::WakeOn;

use super::attempt::{Attempt, Halt};
use super::report::silent;
use crate::resources;
use crate::stop::{Failure, RetryPolicy, Stop, Tell};

/// How long a source that has come together with the object may take before it is said that it has nothing yet.
const A_MOMENT: std::time::Duration = std::time::Duration::from_secs(10);

/// Which source is meant.
#[derive(Debug, Clone)]
pub(super) struct SourceName {
    resource: Resource,
    namespace: String,
    name: String,
}

/// What it has produced.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub(super) name: SourceName,
    pub(super) artifact: Artifact,
    /// Whether the digest of the artifact is a part of the chart's version.
    pub(super) tracks_digest: bool,
}

impl SourceName {
    /// Of a HelmRelease; none when it names no chart.
    pub(super) fn of(object: &Object<HelmRelease>) -> Option<Self> {
        if let Some((namespace, name)) = helm_chart::location(object) {
            return Some(SourceName {
                resource: resources::HELM_CHARTS,
                namespace,
                name,
            });
        }
        let reference = object.spec.chart_ref.as_ref()?;
        let namespace = reference.namespace.as_deref();
        Some(SourceName {
            resource: match reference.kind {
                ChartRefKind::OciRepository => resources::OCI_REPOSITORIES,
                ChartRefKind::HelmChart => resources::HELM_CHARTS,
                ChartRefKind::ExternalArtifact => resources::EXTERNAL_ARTIFACTS,
            },
            namespace: match namespace.filter(|namespace| !namespace.is_empty()) {
                Some(namespace) => namespace.to_owned(),
                None => object.metadata.namespace().to_owned(),
            },
            name: reference.name.clone(),
        })
    }

    /// What wakes those who wait for it.
    pub(super) fn wake(&self) -> WakeOn {
        self.resource.wake_on(&self.namespace, &self.name)
    }

    /// What it has produced, as far as the store has heard.
    pub(super) fn artifact(&self, context: &Context) -> Option<Artifact> {
        artifact_of(&self.stored(context)?)
    }

    fn stored(&self, context: &Context) -> Option<Value> {
        let store = context.store(&self.resource.kind)?;
        Some(store.get(&self.namespace, &self.name)?.value())
    }

    /// From the store where all there is has been told; that it is not there is said only by the server.
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
                .passing(error.is_transient())
                .into()),
        }
    }
}

impl Attempt<'_> {
    /// The source with its artifact.
    pub(super) async fn source(&mut self) -> Result<Source, Halt> {
        let Some(name) = SourceName::of(&self.object) else {
            let message = "either spec.chart or spec.chartRef must be set";
            let failure = Failure::new(Reason::ArtifactFailed, message);
            return Err(failure.then(RetryPolicy::Change).into());
        };
        self.may_use(&name)?;
        let Some(object) = name.read(self.context).await? else {
            let kind = &name.resource.kind;
            let message = format!(
                "could not get Source object: {kind}.{} \"{}\" not found (create it in the namespace {}, or \
                 correct spec.chartRef)",
                group::SOURCE,
                name.name,
                name.namespace
            );
            let failure = Failure::new(Reason::ArtifactFailed, message);
            let failure = failure
                .telling(Tell::Nothing)
                .then(RetryPolicy::WaitForSource);
            return Err(failure.into());
        };
        if let Some(why) = not_ready(&object) {
            let mut moments = self.controller.moments();
            let moment = moments.entry(self.context.key.clone()).or_default();
            if why.is_moment && !std::mem::replace(&mut moment.patient, true) {
                drop(moments);
                let next = Next::When {
                    changes: self.wakes(),
                    no_later_than: A_MOMENT,
                };
                self.watch_inputs();
                return Err(Halt::Wait(Box::new(silent(next, Verdict::Waiting))));
            }
            drop(moments);
            let kind = &name.resource.kind;
            let (namespace, name) = (&name.namespace, &name.name);
            let message = format!("{kind} '{namespace}/{name}' is not ready: {}", why.text);
            let failure = Failure::new(Reason::SourceNotReady, message);
            return Err(failure
                .telling(Tell::Nothing)
                .then(RetryPolicy::Wait)
                .into());
        }
        if let Some(moment) = self.controller.moments().get_mut(&self.context.key) {
            moment.patient = false;
        }
        let Some(artifact) = artifact_of(&object) else {
            let failure = Failure::new(Reason::SourceNotReady, "the source has no artifact");
            return Err(failure
                .telling(Tell::Nothing)
                .then(RetryPolicy::Wait)
                .into());
        };
        Ok(Source {
            tracks_digest: name.resource.kind != resources::HELM_CHARTS.kind,
            artifact,
            name,
        })
    }

    fn may_use(&self, name: &SourceName) -> Result<(), Stop> {
        let denied = |why: &str| -> Stop {
            let kind = &name.resource.kind;
            let message = format!(
                "can't access '{kind}/{}/{}', {why}",
                name.namespace, name.name
            );
            Failure::new(Reason::AccessDenied, message)
                .then(RetryPolicy::Change)
                .into()
        };
        let external = name.resource.kind == resources::EXTERNAL_ARTIFACTS.kind;
        if external && !self.options().gates.external_artifact {
            return Err(denied("ExternalArtifact feature gate is disabled"));
        }
        match self
            .options()
            .runtime
            .may_refer(self.namespace(), &name.namespace)
        {
            true => Ok(()),
            false => Err(denied("cross-namespace references have been blocked")),
        }
    }
}

/// Why a source cannot be used yet.
struct NotReady {
    text: String,
    /// Whether its controller has not looked at it yet.
    is_moment: bool,
}

fn not_ready(object: &Value) -> Option<NotReady> {
    let of = |name: &str| {
        let found = view::condition(object, name)?;
        Some((
            found["status"].clone(),
            found["message"].as_str()?.to_owned(),
        ))
    };
    let is_new = object["metadata"]["generation"] != object["status"]["observedGeneration"];
    let has_generation = object["metadata"]["generation"].is_number();
    let external = object["kind"] == resources::EXTERNAL_ARTIFACTS.kind.as_str();
    if is_new && has_generation && !external {
        let ready = of(condition::READY).filter(|(status, _)| *status == "False");
        let text = match ready {
            // It has looked, and failed since.
            Some((_, message)) if artifact_of(object).is_none() => message,
            _ => "latest generation of object has not been reconciled".to_owned(),
        };
        return Some(NotReady {
            is_moment: text.starts_with("latest generation"),
            text,
        });
    }
    if let Some((status, message)) = of(condition::STALLED)
        && status == "True"
    {
        return Some(NotReady {
            text: message,
            is_moment: false,
        });
    }
    if artifact_of(object).is_some() {
        return None;
    }
    let said = of(condition::READY);
    Some(NotReady {
        is_moment: said.as_ref().is_none_or(|(status, _)| *status == "Unknown"),
        text: said.map_or_else(|| "does not have an artifact".to_owned(), |(_, text)| text),
    })
}

fn artifact_of(source: &Value) -> Option<Artifact> {
    let artifact = source.pointer("/status/artifact")?;
    let artifact = Some(artifact).filter(|artifact| artifact.is_object())?;
    Artifact::read(artifact, &Place::Root).ok()
}
