//! HelmReleases whose charts are left out, because the network is not to be used.

use std::sync::Arc;

use everflow_api::names::condition::{READY, RECONCILING, STALLED};
use everflow_api::view;
use everflow_env::BoxFuture;
use everflow_json::{Value, json};
use everflow_runtime::attempt::{
    Context, Controller, ControllerWrapper, Interrupted, Report, Verdict,
};

use crate::picture::SKIPPED;

/// What a HelmRelease says whose chart is not there.
const MESSAGE: &str = "nothing was deployed: the chart was not fetched (--offline)";

/// The controller of HelmReleases in a world without network: one whose chart was left out holds up nobody.
#[derive(Debug)]
pub struct SkippedReleases {
    /// The controller itself.
    pub inner: Arc<dyn Controller>,
}

impl ControllerWrapper for SkippedReleases {
    fn inner(&self) -> &dyn Controller {
        &*self.inner
    }

    fn attempt<'a>(
        &'a self,
        object: &'a Value,
        context: &'a Context,
    ) -> BoxFuture<'a, Result<Report, Interrupted>> {
        Box::pin(async move {
            let mut report = self.inner.attempt(object, context).await?;
            let lacks_chart = report.status.as_ref().is_some_and(lacks_chart);
            if lacks_chart && is_left_out(object, report.status.as_ref(), context) {
                if let Some(status) = &mut report.status {
                    skip(status, object, context);
                }
                report.events.clear();
                // It is made again when the chart changes, which the report of the attempt has arranged.
                report.verdict = Verdict::Waiting;
            }
            Ok(report)
        })
    }
}

/// Whether an attempt ended for want of a chart.
fn lacks_chart(status: &Value) -> bool {
    let ready = condition(status, READY);
    let reason = ready.map(|ready| ready["reason"].as_str().unwrap_or_default());
    matches!(reason, Some("SourceNotReady" | "ArtifactFailed"))
}

fn condition<'s>(status: &'s Value, name: &str) -> Option<&'s Value> {
    let mut conditions = status["conditions"].as_array()?.iter();
    conditions.find(|condition| condition["type"] == name)
}

/// Whether the chart, or what it is made from, was left out.
fn is_left_out(object: &Value, status: Option<&Value>, context: &Context) -> bool {
    let own = view::namespace(object);
    let made = status.and_then(|status| status["helmChart"].as_str());
    let (kind, namespace, name) = match made.and_then(|made| made.split_once('/')) {
        Some((namespace, name)) => ("HelmChart", namespace, name),
        None => {
            let reference = &object["spec"]["chartRef"];
            let text = |field: &str| reference[field].as_str().unwrap_or_default();
            let namespace = reference["namespace"].as_str().unwrap_or(own);
            (text("kind"), namespace, text("name"))
        }
    };
    let Some(source) = stored(context, kind, namespace, name) else {
        return false;
    };
    let from = &source["spec"]["sourceRef"];
    let text = |field: &str| from[field].as_str().unwrap_or_default();
    let beneath = || stored(context, text("kind"), namespace, text("name"));
    was_skipped(&source) || beneath().is_some_and(|beneath| was_skipped(&beneath))
}

fn stored(context: &Context, kind: &str, namespace: &str, name: &str) -> Option<Value> {
    Some(context.store(kind)?.get(namespace, name)?.value())
}

fn was_skipped(source: &Value) -> bool {
    view::condition(source, READY).is_some_and(|ready| ready["reason"] == SKIPPED)
}

/// Says so in the status of an attempt.
fn skip(status: &mut Value, object: &Value, context: &Context) {
    let generation = view::generation(object);
    let before = view::condition(object, READY).filter(|ready| ready["reason"] == SKIPPED);
    let now = || json!(context.env.clock.now().truncated().to_string());
    let since = before.map_or_else(now, |before| before["lastTransitionTime"].clone());
    status["observedGeneration"] = json!(generation);
    let Some(conditions) = status["conditions"].as_array_mut() else {
        return;
    };
    let ours = |condition: &Value| {
        let kind = condition["type"].as_str().unwrap_or_default();
        [READY, RECONCILING, STALLED].contains(&kind)
    };
    conditions.retain(|condition| !ours(condition));
    conditions.push(json!({
        "type": READY,
        "status": "True",
        "reason": SKIPPED,
        "message": MESSAGE,
        "observedGeneration": generation,
        "lastTransitionTime": since,
    }));
}
