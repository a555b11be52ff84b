//! The HelmChart that `spec.chart` asks for: made, changed, moved and removed with its HelmRelease.

use everflow_api::Reason;
use everflow_api::names::{label, manager};
use everflow_json::Value;
use everflow_release::helm_chart::{self, described};
use everflow_runtime::Error as ClientError;
use everflow_runtime::attempt::Interrupted;
use everflow_runtime::client::{At, DeleteOptions, Patch, WriteOptions};
use everflow_runtime::events::{Event, Severity};

use super::attempt::Attempt;
use crate::resources;
use crate::stop::{EventText, Failure, RetryPolicy, Stop};

impl Attempt<'_> {
    /// Sees to it that the HelmChart is what `spec.chart` asks for, and that no other is left.
    pub(super) async fn sync_chart_object(&mut self) -> Result<(), Stop> {
        let place = helm_chart::location(&self.object);
        let runtime = &self.options().runtime;
        let is_denied = |namespace: &str| !runtime.may_refer(self.namespace(), namespace);
        if let Some((namespace, name)) = place.filter(|(namespace, _)| is_denied(namespace)) {
            let message = format!(
                "can't access 'HelmChart/{namespace}/{name}', cross-namespace references have been blocked"
            );
            return Err(Failure::new(Reason::AccessDenied, message)
                .then(RetryPolicy::Change)
                .into());
        }
        let plan = helm_chart::plan(&self.object);
        if let Some((namespace, name)) = &plan.delete {
            self.delete_chart_object(namespace, name).await?;
        }
        if let Some(wanted) = &plan.apply {
            self.apply_chart_object(wanted).await?;
            let at = At::of(wanted);
            self.object.status.helm_chart = Some(format!("{}/{}", at.namespace, at.name));
        }
        Ok(())
    }

    async fn apply_chart_object(&mut self, wanted: &Value) -> Result<(), Stop> {
        let at = At::of(wanted);
        let store = self.context.store(&resources::HELM_CHARTS.kind);
        let known = store.and_then(|store| store.get(at.namespace, at.name));
        if let Some(known) = &known
            && !known.deleting
            && has_all_of(&known.value(), wanted)
        {
            return Ok(());
        }
        let options = WriteOptions::by(manager::HELM)
            .force()
            .without_managed_fields();
        let patch = Patch::Apply(wanted.clone());
        let client = &self.context.client;
        let applied = client
            .patch(&resources::HELM_CHARTS, at, &patch, &options)
            .await;
        let live = applied.map_err(|error| failed("apply", wanted, &error))?;
        self.context.learn(&live);
        let is_new = known.is_none() && live["metadata"]["generation"] == 1;
        let (reason, what) = match is_new {
            true => (Reason::HelmChartCreated, "Created"),
            false => (Reason::HelmChartConfigured, "Configured"),
        };
        self.tell_of_chart(reason, format!("{what} {}", described(wanted)));
        Ok(())
    }

    /// Deletes a HelmChart that was made for this object.
    pub(super) async fn delete_chart_object(
        &mut self,
        namespace: &str,
        name: &str,
    ) -> Result<(), Stop> {
        let client = self.context.client.clone();
        let at = At::new(namespace, name);
        let shown = |error: &ClientError| {
            let message = format!("failed to delete HelmChart '{namespace}/{name}': {error}");
            refused(message, error)
        };
        match client.get(&resources::HELM_CHARTS, at).await {
            Err(ClientError::NotFound(_) | ClientError::NoKind { .. }) => {}
            Err(error) => return Err(shown(&error)),
            Ok(live) if !self.made_for_us(&live) => {}
            Ok(live) => {
                let uid = live["metadata"]["uid"].as_str().unwrap_or_default();
                let options = DeleteOptions::uid(uid);
                match client.delete(&resources::HELM_CHARTS, at, &options).await {
                    Ok(_) | Err(ClientError::NotFound(_)) => {}
                    Err(error) => return Err(shown(&error)),
                }
                let message = format!("deleted HelmChart '{namespace}/{name}'");
                self.tell_of_chart(Reason::HelmChartDeleted, message);
            }
        }
        self.object.status.helm_chart = None;
        Ok(())
    }

    fn made_for_us(&self, live: &Value) -> bool {
        let labels = &live["metadata"]["labels"];
        labels[label::HELM_RELEASE_NAME] == self.object.metadata.name.as_str()
            && labels[label::HELM_RELEASE_NAMESPACE] == self.namespace()
    }

    fn tell_of_chart(&mut self, reason: Reason, message: String) {
        let event = Event::new(Severity::Trace, reason.as_str(), message);
        self.events.push(event);
    }
}

/// Whether a live object has the spec, the labels and the annotations that are asked for.
fn has_all_of(live: &Value, wanted: &Value) -> bool {
    let has_entries = |field: &str| {
        let entries = wanted["metadata"][field].as_object();
        let mut entries = entries.into_iter().flatten();
        entries.all(|(key, value)| live["metadata"][field].get(key.as_str()) == Some(value))
    };
    live["spec"] == wanted["spec"] && has_entries("labels") && has_entries("annotations")
}

fn failed(what: &str, wanted: &Value, error: &ClientError) -> Stop {
    let at = At::of(wanted);
    let message = format!(
        "failed to {what} HelmChart '{}/{}': {error}",
        at.namespace, at.name
    );
    refused(message, error)
}

fn refused(message: String, error: &ClientError) -> Stop {
    if let ClientError::Fenced { .. } = error {
        return Stop::Interrupted(Interrupted::NotLeading);
    }
    Failure::new(Reason::HelmChartSyncErr, message)
        .telling(EventText::Message)
        .passing(error.is_transient())
        .into()
}
