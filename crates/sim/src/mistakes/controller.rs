//! Mistakes of controllers.

use std::sync::Arc;
use std::time::Duration;

use everflow_api::names::FINALIZER;
use everflow_apply::inventory::Inventory;
use everflow_env::BoxFuture;
use everflow_fetch::{Deadline, Url};
use everflow_git::{GitClient, GitRef, Remote};
use everflow_json::Value;
use everflow_runtime::attempt::{
    Context, Controller, ControllerWrapper, Interrupted, Next, Report, Verdict,
};
use everflow_runtime::client::{At, DeleteOptions};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{Mistake, NEVER};

/// For how long a worker is held that waits for health.
const HELD: Duration = Duration::from_secs(300);

/// A controller that makes a mistake before or after each attempt.
#[derive(Debug)]
pub(crate) struct MistakenController {
    pub inner: Arc<dyn Controller>,
    pub mistake: Mistake,
}

impl ControllerWrapper for MistakenController {
    fn inner(&self) -> &dyn Controller {
        &*self.inner
    }

    fn attempt<'a>(
        &'a self,
        object: &'a Value,
        context: &'a Context,
    ) -> BoxFuture<'a, Result<Report, Interrupted>> {
        Box::pin(async move {
            if let Some(report) = self.before(object, context).await {
                return Ok(report);
            }
            let mut report = self.inner.attempt(object, context).await?;
            self.after(object, &mut report, context).await;
            Ok(report)
        })
    }
}

impl MistakenController {
    /// What is done first; a report keeps the attempt from being made.
    async fn before(&self, object: &Value, context: &Context) -> Option<Report> {
        let kind = object["kind"].as_str().unwrap_or_default();
        match self.mistake {
            Mistake::FinalizerRemovedFirst if kind == "Kustomization" => {
                if !object["metadata"]["deletionTimestamp"].is_null() {
                    let _ = context.remove_finalizer(object, FINALIZER).await;
                }
                None
            }
            Mistake::ReleaseReadyRemembered if kind == "HelmRelease" => remembered(object),
            Mistake::ReadyRemembered if !matches!(kind, "Kustomization" | "HelmRelease") => {
                remembered(object)
            }
            Mistake::OldCommitAskedFor if kind == "GitRepository" => {
                match asked_for_old_commit(object, context).await {
                    Some(false) => {
                        let next = Next::retry("GitOperationFailed");
                        Some(silent(next, Verdict::Failure))
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// What is done with the report before anyone hears of it.
    async fn after(&self, object: &Value, report: &mut Report, context: &Context) {
        let status = report.status.as_mut();
        let is_kustomization = object["kind"] == "Kustomization";
        let ready = status.as_ref().and_then(|status| ready(status).cloned());
        let reason = ready.as_ref().and_then(|ready| ready["reason"].as_str());
        let not_built =
            is_kustomization && matches!(reason, Some("ArtifactFailed" | "BuildFailed"));
        let waits =
            is_kustomization && report.verdict == Verdict::Waiting && reason == Some("Progressing");
        match self.mistake {
            Mistake::ObservedOnlyOnSuccess if is_kustomization => {
                if let Some(status) = status.filter(|_| report.verdict != Verdict::Success) {
                    status["observedGeneration"] = object["status"]["observedGeneration"].clone();
                }
            }
            Mistake::NoRetryWhenStalled if report.verdict == Verdict::Stalled => {
                report.next = Next::At(NEVER);
            }
            Mistake::FailureTakenAsEmpty if not_built => delete_all(object, context).await,
            Mistake::WaitHoldsWorker if waits => context.env.clock.sleep(HELD).await,
            Mistake::EventsAwaited if !report.events.is_empty() => post_and_wait(context).await,
            _ => {}
        }
    }
}

/// Nothing is done for an object that says that it is Ready.
fn remembered(object: &Value) -> Option<Report> {
    let observed = &object["status"]["observedGeneration"];
    let known = *observed == object["metadata"]["generation"];
    let deleted = !object["metadata"]["deletionTimestamp"].is_null();
    let ready = ready(&object["status"]).is_some_and(|ready| ready["status"] == "True");
    let next = Next::At(Duration::from_secs(600));
    (known && ready && !deleted).then(|| silent(next, Verdict::Success))
}

fn silent(next: Next, verdict: Verdict) -> Report {
    Report {
        status: None,
        events: Vec::new(),
        next,
        verdict,
    }
}

/// The Ready condition of a status.
fn ready(status: &Value) -> Option<&Value> {
    let conditions = status["conditions"].as_array()?;
    conditions
        .iter()
        .find(|condition| condition["type"] == "Ready")
}

/// Asks the remote for the commit that is stored; whether it has it, where one is stored.
async fn asked_for_old_commit(object: &Value, context: &Context) -> Option<bool> {
    let revision = object.pointer("/status/artifact/revision")?.as_str()?;
    let commit = revision.rsplit(':').next()?.to_owned();
    let url = Url::parse(object["spec"]["url"].as_str()?).ok()?;
    let client = GitClient::new(&context.env, Remote::new(url)).ok()?;
    let deadline = Deadline::after(&context.env.clock, Duration::from_secs(60));
    let reference = GitRef {
        commit,
        ..GitRef::default()
    };
    let asked = client.update(&reference, None, false, &deadline).await;
    Some(asked.is_ok())
}

/// Deletes whatever the inventory names.
async fn delete_all(object: &Value, context: &Context) {
    let inventory = Inventory::read(&object["status"]["inventory"]).unwrap_or_default();
    for entry in inventory.entries() {
        let (client, id) = (&context.client, &entry.id);
        let Ok(resource) = client.resource(&entry.api_version(), &id.kind).await else {
            continue;
        };
        let namespace = match resource.namespaced {
            true => id.namespace.as_str(),
            false => "",
        };
        let at = At::new(namespace, &id.name);
        let _ = client
            .delete(&resource, at, &DeleteOptions::default())
            .await;
    }
}

/// Waits for whoever takes events, for as long as that takes.
async fn post_and_wait(context: &Context) {
    if let Ok(mut stream) = context.env.dialer.connect("sink", 80).await {
        let request = b"POST / HTTP/1.1\r\nHost: sink\r\nContent-Length: 0\r\n\r\n";
        let _ = stream.write_all(request).await;
        let _ = stream.read_u8().await;
    }
}
