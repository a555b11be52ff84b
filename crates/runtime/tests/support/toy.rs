//! A toy controller: a ConfigMap for each toy, a finalizer, a status.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everflow_env::{BoxFuture, watch};
use everflow_json::{Value, json};
use everflow_runtime::attempt::{Broken, Context, Controller, Interrupted, Next, Report, Verdict};
use everflow_runtime::client::{
    At, Client, DeleteOptions, Patch, Resource, WriteOptions, annotation, generation, meta_text,
};
use everflow_runtime::engine::{Builder, Engine, Handle};
use everflow_runtime::events::{Event, Severity, recorder};
use everflow_runtime::lease::Leadership;
use everflow_runtime::log::Logger;
use everflow_runtime::metadata::Edited;
use everflow_runtime::metrics::Metrics;
use everflow_runtime::reflector::Watched;
use everflow_runtime::shards::Shards;
use everflow_runtime::{Error, Options, Signal};
use tokio::task::JoinHandle;

use super::{TOYS, World};

pub const MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");
pub const FINALIZER: &str = "finalizers.example.com";

/// What all attempts together did.
#[derive(Debug, Default)]
pub struct Counts {
    pub attempts: AtomicU64,
    pub interrupted: AtomicU64,
    pub boxes: Mutex<Vec<String>>,
}

#[derive(Debug, Clone, Default)]
pub struct ToyController {
    pub counts: Arc<Counts>,
    /// How long making a box takes.
    pub work: Duration,
}

fn status(object: &Value, context: &Context, ready: Result<String, (&str, String)>) -> Value {
    let generation = generation(object);
    let (holds, reason, message) = match ready {
        Ok(message) => ("True", "Succeeded", message),
        Err((reason, message)) => ("False", reason, message),
    };
    let present = object
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    let before = present
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == "Ready");
    let same = before.filter(|before| {
        before["status"] == holds && before["reason"] == reason && before["message"] == message
    });
    let moment = match same {
        Some(before) => before["lastTransitionTime"].clone(),
        None => context.env.clock.now().rfc3339().into(),
    };
    let mut status = json!({
        "observedGeneration": generation,
        "size": object["spec"]["size"],
        "conditions": [{
            "type": "Ready", "status": holds, "reason": reason, "message": message,
            "observedGeneration": generation, "lastTransitionTime": moment,
        }],
    });
    if let Some(request) = annotation(object, "reconcile.fluxcd.io/requestedAt") {
        status["lastHandledReconcileAt"] = request.into();
    }
    status
}

impl ToyController {
    async fn toy(&self, object: &Value, context: &Context) -> Result<Report, Stop> {
        self.counts.attempts.fetch_add(1, Ordering::SeqCst);
        let name = meta_text(object, "name");
        let at = At::new(meta_text(object, "namespace"), name);
        if !meta_text(object, "deletionTimestamp").is_empty() {
            match context
                .client
                .delete(&MAPS, at, &DeleteOptions::default())
                .await
            {
                Ok(_) | Err(Error::NotFound(_)) => {}
                Err(error) => return Err(error.into()),
            }
            context.check()?;
            context.remove_finalizer(object, FINALIZER).await?;
            return Ok(report(
                None,
                Next::At(Duration::from_secs(60)),
                Verdict::Success,
            ));
        }
        if object["spec"]["suspend"] == true {
            return Ok(report(
                None,
                Next::At(Duration::from_secs(3_600)),
                Verdict::Success,
            ));
        }
        if object["spec"]["panic"] == true {
            panic!("a toy broke");
        }
        if object["spec"]["hang"] == true {
            std::future::pending::<()>().await;
        }
        if context.ensure_finalizer(object, FINALIZER).await? == Edited::Gone {
            return Err(Interrupted::Superseded.into());
        }
        context.check()?;
        context.env.clock.sleep(self.work).await;
        context.check()?;
        if let Some(after) = object["spec"]["after"].as_str() {
            let other = context.store("Toy").unwrap().get(at.namespace, after);
            let ready = other.is_some_and(|other| {
                other.value().pointer("/status/conditions/0/status") == Some(&"True".into())
            });
            if !ready {
                let status = status(
                    object,
                    context,
                    Err(("DependencyNotReady", format!("{after} is not ready"))),
                );
                let changes = vec![TOYS.wake_on(at.namespace, after)];
                let next = Next::When {
                    changes,
                    no_later_than: Duration::from_secs(300),
                };
                return Ok(report(Some(status), next, Verdict::Waiting));
            }
        }
        if let Some(needs) = object["spec"]["needs"].as_str() {
            let watched = Watched::all(MAPS).metadata();
            let store = context.watch(&watched);
            store.synced().await;
            if store.get(at.namespace, needs).is_none() {
                let why = format!("no ConfigMap {needs}");
                let status = status(object, context, Err(("Missing", why)));
                let changes = vec![MAPS.wake_on(at.namespace, needs)];
                let next = Next::When {
                    changes,
                    no_later_than: Duration::from_secs(300),
                };
                return Ok(report(Some(status), next, Verdict::Waiting));
            }
            context.release_watches(&[]);
        }
        let size = object["spec"]["size"].to_string();
        let map = Patch::Apply(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
            "data": {"size": size},
        }));
        let by = WriteOptions::by("toy-controller").force();
        context.client.patch(&MAPS, at, &map, &by).await?;
        self.counts
            .boxes
            .lock()
            .unwrap()
            .push(format!("{name}={size}"));
        context.check()?;
        let done = status(object, context, Ok(format!("made a box of size {size}")));
        let mut report = report(
            Some(done),
            Next::At(Duration::from_secs(600)),
            Verdict::Success,
        );
        if object.pointer("/status/size") != Some(&object["spec"]["size"]) {
            let event = Event::new(
                Severity::Info,
                "Succeeded",
                format!("made a box of size {size}"),
            );
            report.events.push(event.with("example.com/size", size));
        }
        Ok(report)
    }
}

fn report(status: Option<Value>, next: Next, verdict: Verdict) -> Report {
    Report {
        status,
        events: Vec::new(),
        next,
        verdict,
    }
}

enum Stop {
    Interrupted(Interrupted),
    Failed(Error),
}

impl From<Interrupted> for Stop {
    fn from(why: Interrupted) -> Self {
        Stop::Interrupted(why)
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Failed(error)
    }
}

impl Controller for ToyController {
    fn name(&self) -> &str {
        "toy"
    }
    fn reports_as(&self) -> &str {
        "toy-controller"
    }
    fn resource(&self) -> &Resource {
        const { &TOYS }
    }
    fn owned_conditions(&self) -> &[&str] {
        &["Ready", "Reconciling", "Stalled"]
    }
    fn deadline(&self, _: &Value) -> Duration {
        Duration::from_secs(120)
    }
    fn attempt<'a>(
        &'a self,
        object: &'a Value,
        context: &'a Context,
    ) -> BoxFuture<'a, Result<Report, Interrupted>> {
        Box::pin(async move {
            match self.toy(object, context).await {
                Ok(report) => Ok(report),
                Err(Stop::Interrupted(why)) => {
                    self.counts.interrupted.fetch_add(1, Ordering::SeqCst);
                    Err(why)
                }
                Err(Stop::Failed(Error::Fenced { .. })) => Err(Interrupted::NotLeading),
                Err(Stop::Failed(error)) => {
                    let status = status(object, context, Err(("Failed", error.to_string())));
                    Ok(report(
                        Some(status),
                        Next::retry(error.reason()),
                        Verdict::Failure,
                    ))
                }
            }
        })
    }
    fn broken(&self, object: &Value, how: &Broken, context: &Context) -> Report {
        let status = status(object, context, Err(("Failed", how.to_string())));
        report(Some(status), Next::retry("Broken"), Verdict::Failure)
    }
}

/// An engine that runs.
pub struct Running {
    pub handle: Handle,
    pub counts: Arc<Counts>,
    pub metrics: Metrics,
    pub stop: Signal,
    pub task: JoinHandle<()>,
}

impl Running {
    pub fn start(world: &World, work: Duration) -> Running {
        Running::start_with(world, &world.client, work, None)
    }

    pub fn start_with(
        world: &World,
        client: &Client,
        work: Duration,
        leadership: Option<watch::Receiver<Leadership>>,
    ) -> Running {
        Running::start_watching(world, client, work, leadership, None)
    }

    /// The same, with a kind that is watched beside the toys.
    pub fn start_watching(
        world: &World,
        client: &Client,
        work: Duration,
        leadership: Option<watch::Receiver<Leadership>>,
        beside: Option<Resource>,
    ) -> Running {
        Running::start_engine(world, client, work, beside, |engine, stop| {
            Box::pin(engine.run(leadership, stop))
        })
    }

    /// One that works on the objects of the shards that are held.
    pub fn start_shards(
        world: &World,
        client: &Client,
        work: Duration,
        shards: watch::Receiver<Shards>,
    ) -> Running {
        Running::start_engine(world, client, work, None, |engine, stop| {
            Box::pin(engine.run_shards(shards, stop))
        })
    }

    fn start_engine(
        world: &World,
        client: &Client,
        work: Duration,
        beside: Option<Resource>,
        run: impl FnOnce(Engine, Signal) -> BoxFuture<'static, ()>,
    ) -> Running {
        let (env, metrics) = (world.env.clone(), Metrics::new());
        let log = Logger::silent(env.clock.clone());
        let controller = ToyController {
            work,
            ..ToyController::default()
        };
        let counts = controller.counts.clone();
        let (recorder, event_sender) = recorder(&env, client, &metrics, None, "test").unwrap();
        let mut builder = Builder::new(
            env,
            client.clone(),
            Options::default(),
            log,
            metrics.clone(),
        )
        .controller(controller, |change| match (&change.old, &change.new) {
            (Some(old), Some(new)) => old.value()["status"] != new.value()["status"],
            _ => true,
        });
        if let Some(resource) = beside {
            builder = builder.watch(Watched::all(resource), |_| false);
        }
        let engine = builder.build(recorder);
        let (handle, stop) = (engine.handle(), Signal::new());
        let running = run(engine, stop.clone());
        let task = tokio::spawn(async move {
            let event_sender = std::pin::pin!(event_sender.run());
            let running = std::pin::pin!(running);
            futures_util::future::select(running, event_sender).await;
        });
        Running {
            handle,
            counts,
            metrics,
            stop,
            task,
        }
    }

    /// Ends it as kill -9 would.
    pub async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    /// No object in the queue is without a next attempt.
    pub fn assert_queue_sound(&self) {
        assert_eq!(self.handle.orphans().1, vec![]);
    }

    /// No object is without a next attempt.
    pub fn assert_no_orphan(&self) {
        assert_eq!(self.handle.orphans(), (vec![], vec![]));
    }
}

/// Whether a toy is Ready, for its newest spec, with the box it asks for.
pub async fn settled(world: &World, name: &str) -> Result<(), String> {
    let toy = world
        .user
        .get(&TOYS, At::new("apps", name))
        .await
        .map_err(|error| error.to_string())?;
    let ready = toy["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == "Ready");
    let ready = ready.ok_or("not Ready at all")?;
    let map = world.user.get(&MAPS, At::new("apps", name)).await;
    let size = map
        .map(|map| map["data"]["size"].clone())
        .unwrap_or_default();
    let good = ready["status"] == "True"
        && toy["status"]["observedGeneration"] == toy["metadata"]["generation"]
        && ready["observedGeneration"] == toy["metadata"]["generation"]
        && toy["status"]["lastHandledReconcileAt"].as_str()
            == annotation(&toy, "reconcile.fluxcd.io/requestedAt")
        && size.as_str() == Some(&*toy["spec"]["size"].to_string());
    match good {
        true => Ok(()),
        false => Err(format!("size {size}, {}", toy)),
    }
}
