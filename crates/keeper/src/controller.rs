//! One attempt: from a FluxInstance to objects in the cluster, its status, and the report.

use std::time::Duration;

use everflow_api::names::condition as types;
use everflow_api::view;
use everflow_env::BoxFuture;
use everflow_install::instance::build;
use everflow_install::{CONTAINER, DEPLOYMENT, Options};
use everflow_json::Value;
use everflow_runtime::Error;
use everflow_runtime::attempt::{Broken, Context, Controller, Interrupted, Next, Report, Verdict};
use everflow_runtime::client::{At, Resource};
use everflow_runtime::events::{Event, Severity};

use crate::apply::{ApplyClients, Failed};
use crate::status::{
    Facts, Outcome, components, inventory, revision, status, united, with_inventory,
};
use crate::{INSTANCES, NAME, report};

const OWNED: [&str; 3] = [types::READY, types::RECONCILING, types::STALLED];
/// The finalizer of the Flux operator, which would uninstall everything.
const FINALIZER: &str = "fluxcd.controlplane.io/finalizer";
const RECONCILE: &str = "fluxcd.controlplane.io/reconcile";
const EVERY: &str = "fluxcd.controlplane.io/reconcileEvery";
/// How often it is looked whether all is as asked for, and a report is written.
const NOW_AND_THEN: Duration = Duration::from_secs(300);
/// How soon it is looked again whether the pods run.
const ROLLOUT: Duration = Duration::from_secs(5);
const DEPLOYMENTS: Resource = Resource::namespaced("apps", "v1", "deployments", "Deployment");

/// The controller of the FluxInstance `flux` in one namespace.
#[derive(Debug)]
pub struct InstanceController {
    resource: Resource,
    namespace: String,
}

impl InstanceController {
    /// Of the namespace that the controllers run in.
    pub fn new(namespace: &str) -> Self {
        InstanceController {
            resource: INSTANCES,
            namespace: namespace.to_owned(),
        }
    }

    async fn keep(&self, object: &Value, context: &Context) -> Result<Report, Interrupted> {
        if view::namespace(object) != self.namespace || view::name(object) != NAME {
            return Ok(left(Next::At(NOW_AND_THEN)));
        }
        if view::is_deleted(object) {
            return Ok(release(object, context).await);
        }
        let is_off = |mode: &str| mode.eq_ignore_ascii_case("disabled");
        if view::annotation(object, RECONCILE).is_some_and(is_off) {
            let text = "Reconciliation is disabled";
            let event = Event::new(Severity::Info, "ReconciliationDisabled", text).routine();
            return Ok(Report {
                events: vec![event],
                ..left(Next::At(NOW_AND_THEN))
            });
        }
        let clock = &context.env.clock;
        let started = clock.elapsed();
        let mut facts = Facts::default();
        let done = self.bring(object, context, &mut facts).await?;
        facts.now = clock.now();
        facts.took = (clock.elapsed() - started).into();
        Ok(told(object, &facts, done))
    }

    /// Builds, applies, removes and looks.
    async fn bring(
        &self,
        object: &Value,
        context: &Context,
        facts: &mut Facts,
    ) -> Result<(Outcome, Vec<String>), Interrupted> {
        let base = match self.base(context).await {
            Ok(base) => base,
            Err(error) => {
                return Ok(failed(format!(
                    "Deployment/{}/{DEPLOYMENT}: {error}",
                    self.namespace
                )));
            }
        };
        let built = match build(object, &base) {
            Ok(built) => built,
            Err(error) => {
                return Ok((
                    Outcome::Stalled("BuildFailed", error.to_string()),
                    Vec::new(),
                ));
            }
        };
        for note in &built.notes {
            context.log.info(note, &[]);
        }
        facts.revision = revision(&built.objects);
        facts.components = components(&built.options);
        let hands = ApplyClients::new(context);
        let before = inventory(object);
        let all = united(&before, &built.objects);
        if all != before {
            let remembered = with_inventory(object, &all);
            match context.write_status(object, &remembered, &OWNED).await {
                Ok(Some(_)) => {}
                // It went, and with it what it asked for.
                Ok(None) => return Err(Interrupted::Superseded),
                Err(error) => return Ok(failed(error.to_string())),
            }
        }
        facts.inventory = Some(all);
        let applied = match hands.apply(&built.objects).await {
            Ok(applied) => applied,
            Err(Failed::Interrupted(interrupted)) => return Err(interrupted),
            Err(Failed::Object(why)) => return Ok(failed(why)),
        };
        let mut changes = applied.changes;
        match hands.prune(&before, &applied.inventory).await {
            Ok(pruned) => changes.extend(pruned),
            Err(Failed::Interrupted(interrupted)) => return Err(interrupted),
            Err(Failed::Object(why)) => return Ok(failed(why)),
        }
        facts.inventory = Some(applied.inventory);
        facts.is_applied = true;
        let rollout = self.rollout(context).await;
        let now = context.env.clock.now();
        let reported = report::write(&context.client, object, &built.options, &rollout, now).await;
        if let Err(error) = reported {
            context
                .log
                .error("the FluxReport cannot be written", &error.to_string());
        }
        let outcome = match rollout {
            Ok(()) => Outcome::Ready("Reconciliation finished".to_owned()),
            Err(why) => Outcome::Progressing(why),
        };
        Ok((outcome, changes))
    }

    /// What a FluxInstance has no fields for: the image is the one that runs.
    async fn base(&self, context: &Context) -> Result<Options, Error> {
        let mut base = Options {
            namespace: self.namespace.clone(),
            flux_instance: true,
            ..Options::default()
        };
        let at = At::new(&self.namespace, DEPLOYMENT);
        let live = match context.client.get(&DEPLOYMENTS, at).await {
            Ok(live) => live,
            Err(Error::NotFound(_)) => return Ok(base),
            Err(error) => return Err(error),
        };
        let containers = live["spec"]["template"]["spec"]["containers"].as_array();
        let mut containers = containers.into_iter().flatten();
        let own = containers.find(|container| container["name"] == CONTAINER);
        if let Some(image) = own.and_then(|container| container["image"].as_str()) {
            base.image = image.to_owned();
        }
        Ok(base)
    }

    /// Whether all pods are there, or what is missing.
    async fn rollout(&self, context: &Context) -> Result<(), String> {
        let at = At::new(&self.namespace, DEPLOYMENT);
        let live = context.client.get(&DEPLOYMENTS, at).await;
        let live = live.map_err(|error| error.to_string())?;
        let count = |field: &str| live["status"][field].as_i64().unwrap_or(0);
        let wanted = live["spec"]["replicas"].as_i64().unwrap_or(1);
        let is_seen = count("observedGeneration") >= view::generation(&live);
        let (updated, available) = (count("updatedReplicas"), count("availableReplicas"));
        match is_seen && updated >= wanted && available >= wanted {
            true => Ok(()),
            false => Err(format!(
                "Deployment/{}/{DEPLOYMENT}: {available} of {wanted} replicas are available",
                self.namespace
            )),
        }
    }
}

fn failed(why: String) -> (Outcome, Vec<String>) {
    (Outcome::Failed("ReconciliationFailed", why), Vec::new())
}

/// Nothing is said of the object.
fn left(next: Next) -> Report {
    Report {
        status: None,
        events: Vec::new(),
        next,
        verdict: Verdict::Success,
    }
}

/// The installation stays when its FluxInstance goes.
async fn release(object: &Value, context: &Context) -> Report {
    match context.remove_finalizer(object, FINALIZER).await {
        Ok(_) => left(Next::At(NOW_AND_THEN)),
        Err(error) => {
            let why = error.to_string();
            context.log.error("failed to remove the finalizer", &why);
            Report {
                verdict: Verdict::Failure,
                ..left(Next::retry("FinalizerNotRemoved"))
            }
        }
    }
}

/// The report of an attempt that ended.
fn told(object: &Value, facts: &Facts, (outcome, changes): (Outcome, Vec<String>)) -> Report {
    let (reason, message) = outcome.told();
    let every =
        view::annotation(object, EVERY).and_then(|text| everflow_time::Duration::parse(text).ok());
    let every = every.map_or(NOW_AND_THEN, everflow_time::Duration::unsigned);
    let (severity, next, verdict) = match &outcome {
        Outcome::Ready(_) => (Severity::Info, Next::At(every), Verdict::Success),
        Outcome::Progressing(_) => (Severity::Info, Next::At(ROLLOUT), Verdict::Waiting),
        Outcome::Failed(cause, _) => (Severity::Error, Next::retry(*cause), Verdict::Failure),
        Outcome::Stalled(..) => (Severity::Error, Next::At(every), Verdict::Stalled),
    };
    let text = match changes.is_empty() {
        true => message.to_owned(),
        false => format!("{message}\n{}", changes.join("\n")),
    };
    let mut event = Event::new(severity, reason, text);
    if changes.is_empty() && verdict != Verdict::Failure && verdict != Verdict::Stalled {
        event = event.routine();
    }
    Report {
        status: Some(status(object, facts, &outcome)),
        events: vec![event],
        next,
        verdict,
    }
}

impl Controller for InstanceController {
    fn name(&self) -> &str {
        "fluxinstance"
    }

    fn reports_as(&self) -> &str {
        "everflow"
    }

    fn resource(&self) -> &Resource {
        &self.resource
    }

    fn owned_conditions(&self) -> &[&str] {
        &OWNED
    }

    fn concurrency(&self) -> usize {
        1
    }

    fn attempt<'a>(
        &'a self,
        object: &'a Value,
        context: &'a Context,
    ) -> BoxFuture<'a, Result<Report, Interrupted>> {
        Box::pin(self.keep(object, context))
    }

    fn broken(&self, object: &Value, how: &Broken, context: &Context) -> Report {
        let facts = Facts {
            now: context.env.clock.now(),
            ..Facts::default()
        };
        told(object, &facts, failed(how.to_string()))
    }
}
