//! Events: told to the API server and handed to sinks that send them on, off the path of attempts.

mod address;
mod sink;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use everflow_env::{Env, within};
use everflow_json::{Map, Value, json};
use everflow_time::Timestamp;
use futures_util::future::{join, join_all};
use sha2::{Digest as _, Sha256};
use tokio::sync::{mpsc, oneshot};

use crate::client::{At, Client, Patch, Resource, WriteOptions, meta_text};
use crate::error::Error;
use crate::http::Url;
use crate::metrics::Metrics;
use address::{AddressPoster, AddressSink};
pub use sink::{CollectingSink, EventSink, Notice};

/// Where Events are.
pub const EVENTS: Resource = Resource::namespaced("", "v1", "events", "Event");

/// How many events may wait to be told to the notification controller, and in each lane to the API server.
const WAITING: usize = 1_000;
/// So many objects have their events told to the API server at once; those of one object stay in order.
const LANES: usize = 8;
/// How many different events are remembered to count their repetition.
const REMEMBERED: usize = 4_096;
/// How many events an object may have at once, and how soon it may have one more.
const BURST: f64 = 25.0;
const REFILL: Duration = Duration::from_secs(300);
/// How long those wait who want something known before they do it.
const FIRST_PATIENCE: Duration = Duration::from_secs(5);

/// How grave an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Only for those who look closely: it is not sent to the notification controller.
    Trace,
    /// Good to know.
    Info,
    /// Something is wrong.
    Error,
}

/// An event of an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// How grave.
    pub severity: Severity,
    /// The stable reason.
    pub reason: String,
    /// In words.
    pub message: String,
    /// What else is known: revisions, digests.
    pub metadata: BTreeMap<String, String>,
    /// Whether it says only that all is as it was: where news is told briefly, the API server is
    /// not told.
    pub routine: bool,
}

impl Event {
    /// An event without metadata.
    pub fn new(severity: Severity, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Event {
            severity,
            reason: reason.into(),
            message: message.into(),
            metadata: BTreeMap::new(),
            routine: false,
        }
    }

    /// The same event, which says only that all is as it was.
    #[must_use]
    pub fn routine(mut self) -> Self {
        self.routine = true;
        self
    }

    /// The same event with one more piece of metadata.
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }
}

/// An event and whose it is.
#[derive(Debug)]
struct PendingEvent {
    involved: Value,
    event: Event,
    at: Timestamp,
    controller: String,
    /// Hears when the server has been told, or cannot be.
    done: Option<oneshot::Sender<()>>,
}

/// Takes events. Never waits: what does not fit is dropped and counted.
#[derive(Debug, Clone)]
pub struct Recorder {
    env: Env,
    to_server: Vec<mpsc::Sender<PendingEvent>>,
    sinks: Vec<Arc<dyn EventSink>>,
    metrics: Metrics,
    brief: bool,
}

/// Delivers events to the API server and to the notification controller.
#[derive(Debug)]
pub struct EventSender {
    env: Env,
    client: Client,
    metrics: Metrics,
    for_server: Vec<mpsc::Receiver<PendingEvent>>,
    address: Option<AddressPoster>,
}

/// A recorder and the sender that delivers what it takes. `address` is the notification controller's, `instance` this
/// process's name.
pub fn recorder(
    env: &Env,
    client: &Client,
    metrics: &Metrics,
    address: Option<&str>,
    instance: &str,
) -> Result<(Recorder, EventSender), Error> {
    let (to_server, for_server) = (0..LANES).map(|_| mpsc::channel(WAITING)).unzip();
    let mut recorder = Recorder {
        env: env.clone(),
        to_server,
        sinks: Vec::new(),
        metrics: metrics.clone(),
        brief: false,
    };
    let mut event_sender = EventSender {
        env: env.clone(),
        client: client.with_deadline(Duration::from_secs(10)),
        metrics: metrics.clone(),
        for_server,
        address: None,
    };
    if let Some(address) = address.filter(|address| !address.is_empty()) {
        let url = Url::parse(address)?;
        let (sink, queue) = AddressSink::new(WAITING);
        recorder = recorder.with_sink(Arc::new(sink));
        event_sender.address = Some(AddressPoster {
            env: env.clone(),
            url,
            metrics: metrics.clone(),
            instance: instance.to_owned(),
            queue,
        });
    }
    Ok((recorder, event_sender))
}

impl Recorder {
    /// Has the API server told all news of an attempt in one Event, grave news in another. The
    /// notification controller is told each in any case.
    #[must_use]
    pub fn briefly(mut self) -> Self {
        self.brief = true;
        self
    }

    /// Hands every event, traces left out, to one more sink.
    #[must_use]
    pub fn with_sink(mut self, sink: Arc<dyn EventSink>) -> Self {
        self.sinks.push(sink);
        self
    }

    /// Takes an event of an object that the server sent.
    pub fn emit(&self, controller: &str, object: &Value, event: Event) {
        self.emit_all(controller, object, vec![event]);
    }

    /// Takes all events of an attempt.
    pub fn emit_all(&self, controller: &str, object: &Value, events: Vec<Event>) {
        let pending = |event| self.pending(controller, object, event);
        let mut events: Vec<Event> = events
            .into_iter()
            .map(|event| with_extras(object, event))
            .collect();
        for event in &events {
            self.hand_on(controller, object, event);
        }
        if self.brief {
            events = in_brief(events);
        }
        for event in events {
            self.send(pending(event));
        }
    }

    /// Takes an event and waits, a while at most, until the API server has it: for what people
    /// should know before it is done.
    pub async fn emit_and_wait(&self, controller: &str, object: &Value, event: Event) {
        let event = with_extras(object, event);
        self.hand_on(controller, object, &event);
        let (done, heard) = oneshot::channel();
        let mut pending = self.pending(controller, object, event);
        pending.done = Some(done);
        if self.send(pending) {
            let _ = within(&*self.env.clock, FIRST_PATIENCE, heard).await;
        }
    }

    /// Puts an event into the lane of its object; whether there was room.
    fn send(&self, pending: PendingEvent) -> bool {
        let lane = self.to_server.get(lane(&pending));
        let sent = lane.is_some_and(|lane| lane.try_send(pending).is_ok());
        if !sent {
            self.dropped("server");
        }
        sent
    }

    fn pending(&self, controller: &str, object: &Value, event: Event) -> PendingEvent {
        PendingEvent {
            involved: involved(object),
            event,
            at: self.env.clock.now(),
            controller: controller.to_owned(),
            done: None,
        }
    }

    /// Hands an event to all sinks.
    fn hand_on(&self, controller: &str, object: &Value, event: &Event) {
        if event.severity == Severity::Trace {
            return;
        }
        for sink in &self.sinks {
            let notice = Notice {
                involved: involved(object),
                labels: object
                    .pointer("/metadata/labels")
                    .cloned()
                    .unwrap_or_default(),
                event: event.clone(),
                at: self.env.clock.now(),
                controller: controller.to_owned(),
            };
            if !sink.take(notice) {
                self.dropped(sink.name());
            }
        }
    }

    fn dropped(&self, sink: &str) {
        let labels = [("sink", sink), ("why", "full")];
        self.metrics.count("everflow_events_dropped_total", &labels);
    }
}

/// The event with what the object's annotations say that its events should carry.
fn with_extras(object: &Value, mut event: Event) -> Event {
    for (key, value) in annotations(object) {
        if key.starts_with("event.toolkit.fluxcd.io/") {
            event.metadata.entry(key).or_insert(value);
        }
    }
    event
}

/// News of one gravity in one event: the messages in their order, the reason of the last.
fn in_brief(events: Vec<Event>) -> Vec<Event> {
    let mut brief: Vec<Event> = Vec::with_capacity(2);
    for event in events {
        let grave = event.severity == Severity::Error;
        let same = |pending: &&mut Event| (pending.severity == Severity::Error) == grave;
        match brief.iter_mut().find(same) {
            None => brief.push(event),
            Some(pending) => {
                pending.message.push('\n');
                pending.message.push_str(&event.message);
                pending.reason = event.reason;
                pending.metadata.extend(event.metadata);
                pending.routine &= event.routine;
            }
        }
    }
    brief.retain(|event| !event.routine);
    brief
}

fn annotations(object: &Value) -> Vec<(String, String)> {
    let all = object.pointer("/metadata/annotations");
    let all = all.and_then(Value::as_object).into_iter().flatten();
    all.filter_map(|(key, value)| Some((key.to_string(), value.as_str()?.to_owned())))
        .collect()
}

fn involved(object: &Value) -> Value {
    let mut reference = Map::new();
    let mut set = |field: &str, value: &str| {
        if !value.is_empty() {
            reference.insert(field.into(), value.into());
        }
    };
    set("kind", object["kind"].as_str().unwrap_or_default());
    set(
        "apiVersion",
        object["apiVersion"].as_str().unwrap_or_default(),
    );
    for field in ["namespace", "name", "uid", "resourceVersion"] {
        set(field, meta_text(object, field));
    }
    Value::Object(reference)
}

impl EventSender {
    /// Delivers events until all recorders are gone.
    pub async fn run(self) {
        let (env, client, metrics) = (&self.env, &self.client, &self.metrics);
        let lanes = self.for_server.into_iter();
        let lanes =
            lanes.map(|lane| post_to_server(env.clone(), client.clone(), metrics.clone(), lane));
        let to_server = join_all(lanes.collect::<Vec<_>>());
        match self.address {
            None => drop(to_server.await),
            Some(poster) => drop(join(to_server, poster.run()).await),
        }
    }
}

/// What an event is told apart by: a digest of all that is said.
type Identity = [u8; 32];

#[derive(Debug, Default)]
struct Memory {
    known: BTreeMap<Identity, (String, u64)>,
    order: VecDeque<Identity>,
    allowance: BTreeMap<String, (f64, Duration)>,
}

impl Memory {
    /// Whether an object may have one more event now.
    fn allow(&mut self, object: &str, now: Duration) -> bool {
        if self.allowance.len() > REMEMBERED {
            self.allowance
                .retain(|_, (left, since)| *left + (now - *since).div_duration_f64(REFILL) < BURST);
        }
        let (left, since) = self
            .allowance
            .entry(object.to_owned())
            .or_insert((BURST, now));
        *left = (*left + now.saturating_sub(*since).div_duration_f64(REFILL)).min(BURST);
        *since = now;
        let allowed = *left >= 1.0;
        if allowed {
            *left -= 1.0;
        }
        allowed
    }

    fn remember(&mut self, identity: Identity, name: String, count: u64) {
        if self.known.insert(identity, (name, count)).is_none() {
            self.order.push_back(identity);
        }
        while self.order.len() > REMEMBERED {
            if let Some(oldest) = self.order.pop_front() {
                self.known.remove(&oldest);
            }
        }
    }
}

async fn post_to_server(
    env: Env,
    client: Client,
    metrics: Metrics,
    mut pending: mpsc::Receiver<PendingEvent>,
) {
    let mut memory = Memory::default();
    let dropped = |why: &str| {
        let labels = [("sink", "server"), ("why", why)];
        metrics.count("everflow_events_dropped_total", &labels);
    };
    while let Some(pending) = pending.recv().await {
        if !memory.allow(&object_identity(&pending), env.clock.elapsed()) {
            dropped("too many");
            continue;
        }
        let identity = identity(&pending);
        if post_event(&client, &mut memory, identity, &pending)
            .await
            .is_err()
        {
            dropped("failed");
        }
    }
}

fn identity(pending: &PendingEvent) -> Identity {
    let event = &pending.event;
    let said = (
        object_identity(pending),
        &pending.controller,
        &event.reason,
        &event.message,
        event.severity,
        &event.metadata,
    );
    Sha256::digest(format!("{said:?}")).into()
}

/// The lane of an object's events.
fn lane(pending: &PendingEvent) -> usize {
    let digest = Sha256::digest(object_identity(pending));
    usize::from(digest[0]) % LANES
}

fn object_identity(pending: &PendingEvent) -> String {
    let text = |field: &str| pending.involved[field].as_str().unwrap_or_default();
    format!(
        "{}/{}/{}/{}",
        text("kind"),
        text("namespace"),
        text("name"),
        text("uid")
    )
}

async fn post_event(
    client: &Client,
    memory: &mut Memory,
    identity: Identity,
    pending: &PendingEvent,
) -> Result<(), Error> {
    let namespace = pending.involved["namespace"].as_str().unwrap_or("default");
    let options = WriteOptions::by(&pending.controller).without_managed_fields();
    if let Some((name, count)) = memory.known.get(&identity).cloned() {
        let again = json!({"count": count + 1, "lastTimestamp": pending.at.rfc3339()});
        let at = At::new(namespace, &name);
        match client
            .patch(&EVENTS, at, &Patch::Merge(again), &options)
            .await
        {
            Ok(_) => {
                memory.remember(identity, name, count + 1);
                return Ok(());
            }
            // Events are kept for an hour only.
            Err(Error::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
    }
    let body = server_event(pending, namespace);
    let created = client.create(&EVENTS, namespace, &body, &options).await?;
    memory.remember(identity, meta_text(&created, "name").to_owned(), 1);
    Ok(())
}

fn server_event(pending: &PendingEvent, namespace: &str) -> Value {
    let object = pending.involved["name"].as_str().unwrap_or_default();
    let nanos = i128::from(pending.at.seconds) * 1_000_000_000 + i128::from(pending.at.nanos);
    let stamp = pending.at.rfc3339();
    let grave = pending.event.severity == Severity::Error;
    let mut metadata = json!({
        // The same moment twice gives two names: the reason tells them apart.
        "name": format!("{object}.{nanos:x}{:04x}", checksum(pending)),
        "namespace": namespace,
    });
    if !pending.event.metadata.is_empty() {
        metadata["annotations"] = json!(pending.event.metadata);
    }
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": metadata,
        "involvedObject": pending.involved,
        "reason": pending.event.reason,
        "message": pending.event.message,
        "source": {"component": pending.controller},
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": 1,
        "type": if grave { "Warning" } else { "Normal" },
        "reportingComponent": pending.controller,
        "reportingInstance": "",
    })
}

fn checksum(pending: &PendingEvent) -> u16 {
    let text = [&pending.event.reason, &pending.event.message];
    let bytes = text.iter().flat_map(|text| text.bytes());
    bytes.fold(0_u16, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(byte.into())
    })
}
