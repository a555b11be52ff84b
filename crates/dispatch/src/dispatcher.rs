//! Takes events, matches them, queues what is to be sent, and has it sent.
//!
//! One task owns all of it. It never waits for a provider: attempts run beside it and come back with how they ended.

mod intake;
mod room;
mod shared;
mod work;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everflow_api::Object;
use everflow_api::notification::Provider;
use everflow_env::Env;
use everflow_json::Value;
use everflow_notify::Event;
use everflow_notify::dedup::{Deduplicator, Verdict};
use everflow_notify::dispatch::Options as DispatchOptions;
use everflow_notify::grouping::{Grouper, Limits};
use everflow_runtime::Signal;
use everflow_runtime::client::Client;
use everflow_runtime::events::{EventSink, Notice, Recorder};
use everflow_runtime::log::Logger;
use everflow_runtime::metrics::Metrics;
use everflow_runtime::reflector::{Reflector, ReflectorOptions, Watched};
use everflow_runtime::store::Store;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::alerts::{self, AlertIndex};
use crate::deliver::{Delivered, Sender};
use crate::journal::{Entry, Journal, Record};
use crate::lanes::Lanes;
use crate::options::{Options, span};
use crate::report::Reports;
use crate::resources::{ALERTS, PROVIDERS};
use room::Room;
use shared::Shared;

/// How long to wait for what other replicas have told before events are looked at.
const FIRST_LISTS: Duration = Duration::from_secs(15);
/// So many events are taken in between two writes to the disk.
const BATCH: usize = 256;
/// How long attempts have to end when the program stops. What has not ended is made again by the next process.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// What a dispatcher is made from.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The world. The queue is on its disk.
    pub env: Env,
    /// The API server.
    pub client: Client,
    /// The log.
    pub log: Logger,
    /// The metrics.
    pub metrics: Metrics,
    /// Takes Events on Alerts. It must not have the dispatcher itself as a sink.
    pub recorder: Recorder,
    /// The name of this machine.
    pub host_name: String,
    /// How notifications are sent.
    pub options: Options,
}

/// What comes in.
#[derive(Debug)]
pub(crate) enum Input {
    /// An event of a controller in this process.
    Notice(Box<Notice>),
    /// An event that was posted, and who waits for what becomes of it.
    Posted(Box<Event>, oneshot::Sender<Verdict>),
    /// An event that is new, with the labels of its object.
    Labelled(Box<Offered>),
}

/// An event that is new, on its way to the Alerts.
#[derive(Debug)]
pub(crate) struct Offered {
    event: Event,
    identity: [u8; 32],
    labels: Labels,
    answer: Option<(oneshot::Sender<Verdict>, Verdict)>,
}

/// What is known of the labels of an event's object.
#[derive(Debug)]
enum Labels {
    NotAsked,
    Unavailable,
    Known(BTreeMap<String, String>),
}

/// Hands events to a dispatcher. Clones share it.
#[derive(Debug, Clone)]
pub struct Intake {
    queue: mpsc::Sender<Input>,
}

impl Intake {
    /// Hands in an event that was posted, and waits until it is known whether it is new and what is to be sent of it is
    /// safe on disk; none when the dispatcher has too much to do or is gone.
    pub async fn post(&self, event: Event) -> Option<Verdict> {
        let (answer, heard) = oneshot::channel();
        let input = Input::Posted(Box::new(event), answer);
        self.queue.try_send(input).ok()?;
        heard.await.ok()
    }
}

impl EventSink for Intake {
    fn name(&self) -> &'static str {
        "dispatcher"
    }

    fn take(&self, notice: Notice) -> bool {
        self.queue.try_send(Input::Notice(Box::new(notice))).is_ok()
    }
}

/// An attempt that has ended.
struct Finished {
    entry: Arc<Entry>,
    tries: u32,
    delivered: Delivered,
}

/// Sends notifications.
#[derive(Debug)]
pub struct Dispatcher {
    env: Env,
    client: Client,
    options: Options,
    sender: Sender,
    host_name: String,
    queue: mpsc::Receiver<Input>,
    /// For what comes back from looking up labels.
    back: mpsc::Sender<Input>,
    alerts: Store,
    providers: Store,
    reflectors: Vec<Reflector>,
    index: AlertIndex,
    dedup: Deduplicator,
    grouper: Grouper,
    /// Groups that wait, by Alert and object.
    held: BTreeMap<(String, String), Arc<Entry>>,
    lanes: Lanes,
    journal: Option<Arc<Mutex<Journal>>>,
    shared: Option<Shared>,
    /// Lines for the journal.
    records: Vec<Record>,
    /// Who hears of its event after the next write.
    answers: Vec<(oneshot::Sender<Verdict>, Verdict)>,
    reports: Reports,
    room: Room,
    next_id: u64,
}

/// A dispatcher, and what hands events to it. Nothing runs yet.
pub fn dispatcher(setup: Setup) -> (Intake, Dispatcher) {
    let options = setup.options;
    let (sender, queue) = mpsc::channel(options.waiting.max(1));
    let reflect = |watched| {
        let behaviour = ReflectorOptions::default();
        Reflector::new(setup.env.clone(), setup.client.clone(), watched, behaviour)
    };
    let watched = |resource| Watched {
        namespace: options.watch_namespace.clone(),
        ..Watched::all(resource)
    };
    let (alerts, providers) = (reflect(watched(ALERTS)), reflect(watched(PROVIDERS)));
    let interval = span(options.interval);
    let (alert_store, provider_store) = (alerts.store(), providers.store());
    let mut reflectors = vec![alerts, providers];
    let shared = options.shared_memory.as_deref().map(|namespace| {
        let told = reflect(shared::watched(namespace));
        let store = told.store();
        reflectors.push(told);
        Shared::new(namespace, store, interval)
    });
    let log = setup.log.named("dispatcher");
    let dispatcher = Dispatcher {
        sender: Sender {
            env: setup.env.clone(),
            client: setup.client.clone(),
            options: DispatchOptions {
                no_cross_namespace_refs: options.no_cross_namespace_refs,
                object_level_workload_identity: options.object_level_workload_identity,
            },
            host_name: setup.host_name.clone(),
        },
        back: sender.clone(),
        queue,
        alerts: alert_store,
        providers: provider_store,
        reflectors,
        shared,
        index: AlertIndex::default(),
        dedup: Deduplicator::new(interval, options.remembered),
        grouper: Grouper::new(Limits::default()),
        held: BTreeMap::new(),
        lanes: Lanes::new(options.at_once),
        journal: None,
        records: Vec::new(),
        answers: Vec::new(),
        reports: Reports::new(setup.recorder, setup.metrics, log),
        room: Room::default(),
        next_id: 1,
        env: setup.env,
        client: setup.client,
        host_name: setup.host_name,
        options,
    };
    (Intake { queue: sender }, dispatcher)
}

/// What wakes the dispatcher.
enum WakeReason {
    Stopped,
    Input(usize),
    Changed,
    Told,
    Ended(Option<Finished>),
    Timer,
}

impl Dispatcher {
    /// Sends notifications until `stop` is raised.
    pub async fn run(mut self, stop: Signal) {
        let mut background = JoinSet::new();
        for reflector in std::mem::take(&mut self.reflectors) {
            background.spawn(reflector.run());
        }
        let mut changes = [self.alerts.subscribe(), self.providers.subscribe()];
        let shared = self
            .shared
            .as_ref()
            .map(|shared| shared.store().subscribe());
        // Without other replicas nothing ever comes.
        let (_nobody, never) = mpsc::unbounded_channel();
        let mut told = shared.unwrap_or(never);
        self.open_journal().await;
        self.first_lists(&stop).await;
        self.index.refresh(&self.alerts);
        self.hear_of_others();
        let mut attempts: JoinSet<Finished> = JoinSet::new();
        let mut inputs = Vec::with_capacity(BATCH);
        loop {
            self.start(&mut attempts);
            let pause = self.pause();
            let [alerts, providers] = &mut changes;
            let woken = tokio::select! {
                biased;
                () = stop.raised() => WakeReason::Stopped,
                Some(_) = alerts.recv() => WakeReason::Changed,
                Some(_) = providers.recv() => WakeReason::Changed,
                Some(_) = told.recv() => WakeReason::Told,
                Some(ended) = attempts.join_next() => WakeReason::Ended(ended.ok()),
                count = self.queue.recv_many(&mut inputs, BATCH) => WakeReason::Input(count),
                () = self.env.clock.sleep(pause) => WakeReason::Timer,
            };
            match woken {
                WakeReason::Stopped | WakeReason::Input(0) => break,
                WakeReason::Changed => {
                    while alerts.try_recv().is_ok() || providers.try_recv().is_ok() {}
                    self.index.refresh(&self.alerts);
                    self.release_finalizers(&mut background);
                }
                WakeReason::Told => self.hear_of_others(),
                WakeReason::Ended(Some(finished)) => {
                    self.ended(finished);
                    while let Some(Ok(finished)) = attempts.try_join_next() {
                        self.ended(finished);
                    }
                }
                WakeReason::Input(_) => {
                    for input in inputs.drain(..) {
                        self.take(input);
                    }
                }
                // An attempt that panicked is made again by the next process.
                WakeReason::Ended(None) | WakeReason::Timer => {}
            }
            self.groups_due();
            self.give_up_the_oldest();
            self.write().await;
            self.annotate(&mut background);
            self.tell_others(&mut background);
            while background.try_join_next().is_some() {}
        }
        self.take_the_rest();
        self.finish(attempts).await;
    }

    /// Takes the last events of a program that stops: the next process delivers them.
    fn take_the_rest(&mut self) {
        self.queue.close();
        while let Ok(input) = self.queue.try_recv() {
            self.take(input);
        }
    }

    /// Waits for attempts that run, and notes how they ended.
    async fn finish(&mut self, mut attempts: JoinSet<Finished>) {
        let clock = self.env.clock.clone();
        let until = clock.elapsed() + STOP_GRACE;
        loop {
            let left = until.saturating_sub(clock.elapsed());
            match everflow_env::within(&*clock, left, attempts.join_next()).await {
                Ok(Some(Ok(finished))) => self.ended(finished),
                Ok(Some(Err(_))) => {}
                Ok(None) | Err(_) => break,
            }
        }
        self.write().await;
        // Whoever takes over is not to tell the same once more.
        if let Some(shared) = &mut self.shared
            && let Some(data) = shared.patch(Duration::MAX, clock.now())
        {
            let namespace = shared.namespace().to_owned();
            let writing = shared::write(self.client.clone(), namespace, data);
            let _ = everflow_env::within(&*clock, STOP_GRACE, writing).await;
        }
        for (alert, annotations) in self.reports.due(Duration::MAX) {
            let writing = crate::report::annotate(self.client.clone(), alert, annotations);
            let _ = everflow_env::within(&*clock, STOP_GRACE, writing).await;
        }
    }

    /// Waits until all Alerts and Providers are known, or a cluster has said that it has no such kind: events that come
    /// before that wait, for they could not be matched.
    async fn first_lists(&self, stop: &Signal) {
        let listed = async {
            self.alerts.answered().await;
            self.providers.answered().await;
            if let Some(shared) = &self.shared {
                let told = shared.store().synced();
                let _ = everflow_env::within(&*self.env.clock, FIRST_LISTS, told).await;
            }
        };
        let (listed, stopped) = (std::pin::pin!(listed), std::pin::pin!(stop.raised()));
        futures_util::future::select(listed, stopped).await;
    }

    /// How long nothing is to be done unless something happens.
    fn pause(&self) -> Duration {
        let now = self.env.clock.elapsed();
        let wall = self.env.clock.now();
        let grouped = self
            .grouper
            .next_due()
            .map(|due| due.since(wall).unsigned());
        let shared = self.shared.as_ref().and_then(Shared::next_due);
        let moments = [self.lanes.next_due(), self.reports.next_due(), shared];
        let pauses = moments
            .into_iter()
            .flatten()
            .map(|at| at.saturating_sub(now));
        let pause = pauses
            .chain(grouped)
            .min()
            .unwrap_or(Duration::from_secs(60));
        pause.clamp(Duration::from_millis(1), Duration::from_secs(60))
    }

    /// The Provider of an Alert, or why there is none.
    fn provider(&self, alert: &alerts::Prepared) -> Result<Object<Provider>, String> {
        alerts::provider(&self.providers, &alert.object)
    }
}

/// The event of a controller in this process, and the labels of its object.
pub fn event_of(notice: Notice, host_name: &str) -> (Event, Value) {
    let text = |field: &str| {
        notice.involved[field]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let involved = everflow_notify::event::ObjectReference {
        kind: text("kind"),
        namespace: text("namespace"),
        name: text("name"),
        uid: text("uid"),
        api_version: text("apiVersion"),
        resource_version: text("resourceVersion"),
        field_path: String::new(),
    };
    let event = Event {
        involved,
        severity: notice.severity().to_owned(),
        timestamp: Some(notice.at.truncated()),
        reporting_controller: notice.controller.clone(),
        reporting_instance: host_name.to_owned(),
        message: notice.event.message,
        reason: notice.event.reason,
        metadata: notice.event.metadata,
    };
    (event, notice.labels)
}
