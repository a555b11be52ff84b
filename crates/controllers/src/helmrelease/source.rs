//! The object whose artifact is the chart.

use everflow_api::Reason;
use everflow_api::common::Artifact;
use everflow_api::helm::{ChartRefKind, HelmRelease};
use everflow_api::names::{condition, group};
use everflow_api::object::Object;
use everflow_api::view;
use everflow_json::Value;
use everflow_release::helm_chart;
use everflow_runtime::attempt::{Next, Verdict};
use everflow_runtime::store::CachedObject;

use super::attempt::{Attempt, Halt};
use crate::resources;
use crate::skeleton::{A_MOMENT, silent};
use crate::source_name::{SourceName, artifact_of};
use crate::stop::{EventText, Failure, RetryPolicy};

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
    pub(super) fn of_release(object: &Object<HelmRelease>) -> Option<Self> {
        if let Some((namespace, name)) = helm_chart::location(object) {
            return Some(SourceName {
                resource: resources::HELM_CHARTS,
                namespace,
                name,
            });
        }
        let reference = object.spec.chart_ref.as_ref()?;
        let resource = match reference.kind {
            ChartRefKind::OciRepository => resources::OCI_REPOSITORIES,
            ChartRefKind::HelmChart => resources::HELM_CHARTS,
            ChartRefKind::ExternalArtifact => resources::EXTERNAL_ARTIFACTS,
        };
        let namespace = reference.namespace.as_deref();
        let own = object.metadata.namespace();
        Some(SourceName::new(resource, namespace, &reference.name, own))
    }
}

impl Attempt<'_> {
    /// The source with its artifact.
    pub(super) async fn source(&mut self) -> Result<Source, Halt> {
        let Some(name) = SourceName::of_release(&self.object) else {
            let message = "either spec.chart or spec.chartRef must be set";
            let failure = Failure::new(Reason::ArtifactFailed, message);
            return Err(failure.then(RetryPolicy::Change).into());
        };
        name.allowed(self.namespace(), self.options())?;
        let read = name.read(self.context, CachedObject::value).await;
        let read = read.map_err(|error| {
            Failure::new(Reason::ArtifactFailed, error.to_string())
                .telling(EventText::Nothing)
                .passing(error.is_transient())
        })?;
        let Some(object) = read else {
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
                .telling(EventText::Nothing)
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
                .telling(EventText::Nothing)
                .then(RetryPolicy::Wait)
                .into());
        }
        if let Some(moment) = self.controller.moments().get_mut(&self.context.key) {
            moment.patient = false;
        }
        let Some(artifact) = artifact_of(&object) else {
            let failure = Failure::new(Reason::SourceNotReady, "the source has no artifact");
            return Err(failure
                .telling(EventText::Nothing)
                .then(RetryPolicy::Wait)
                .into());
        };
        Ok(Source {
            tracks_digest: name.resource.kind != resources::HELM_CHARTS.kind,
            artifact,
            name,
        })
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
