//! Notifications of a replica, as it ships, and the hosts on the other side: those that are notified, and those that call
//! webhooks.

use std::sync::Arc;
use std::time::Duration;

use everflow_controllers::Setup;
use everflow_dispatch::receiver::ReceiverServer;
use everflow_dispatch::resources::RECEIVERS;
use everflow_dispatch::{Dispatcher, Intake, Options};
use everflow_env::{Dialer as _, MemoryDialer, Stream};
use everflow_json::Value;
use everflow_runtime::client::{At, Client};
use everflow_runtime::engine::Handle;
use everflow_runtime::events::{EventSink, Notice, Recorder};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinSet;

use crate::history::Actor;
use crate::oracles::Finding;
use crate::scenario::{Call, Scenario};
use crate::shared::Shared;
use crate::users::whole;

/// Where replicas tell each other what was told.
const NAMESPACE: &str = "flux-system";
/// How long a caller waits for its answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// How much a host reads at once.
const AT_ONCE: usize = 16 * 1024;

/// Notes what is handed to the dispatcher.
#[derive(Debug)]
struct NotedSink {
    inner: Intake,
    shared: Arc<Shared>,
    who: Actor,
}

impl EventSink for NotedSink {
    fn name(&self) -> &'static str {
        "dispatcher"
    }

    fn take(&self, notice: Notice) -> bool {
        let taken = self.inner.take(notice.clone());
        let Actor::Replica(replica, life) = self.who else {
            return taken;
        };
        if taken && self.shared.lives(replica, life) {
            let at = self.shared.history.now();
            self.shared.ask(|oracles| {
                oracles.news.offered(at, self.who, notice);
                Vec::new()
            });
        }
        taken
    }
}

/// The dispatcher of one life, and what hands it events.
pub fn dispatcher(
    setup: &Setup,
    recorder: Recorder,
    shared: &Arc<Shared>,
    who: Actor,
    elected: bool,
) -> (Arc<dyn EventSink>, Dispatcher) {
    let (intake, dispatcher) = everflow_dispatch::dispatcher(everflow_dispatch::Setup {
        env: setup.env.clone(),
        client: setup.client.clone(),
        log: setup.log.clone(),
        metrics: setup.metrics.clone(),
        recorder,
        host_name: "sim".to_owned(),
        options: Options {
            shared_memory: elected.then(|| NAMESPACE.to_owned()),
            ..Options::default()
        },
    });
    let sink = NotedSink {
        inner: intake,
        shared: shared.clone(),
        who,
    };
    (Arc::new(sink), dispatcher)
}

/// The server for webhooks of one life, where there are Receivers.
pub fn webhooks(setup: &Setup, handle: &Handle) -> Option<ReceiverServer> {
    let store = handle.store("Receiver")?;
    let options = everflow_notify::receiver::Options {
        no_cross_namespace_refs: setup.options.runtime.no_cross_namespace_refs,
    };
    let Setup {
        env,
        client,
        log,
        metrics,
        ..
    } = setup;
    Some(ReceiverServer::new(
        env, client, store, options, log, metrics,
    ))
}

/// The host at which a replica takes webhooks.
fn door(replica: usize) -> String {
    format!("webhooks-{replica}")
}

/// Takes webhooks.
pub async fn serve(server: ReceiverServer, hosts: MemoryDialer, replica: usize) {
    let mut incoming = hosts.listen(&door(replica), 80);
    let mut open = JoinSet::new();
    while let Some(stream) = incoming.recv().await {
        let server = server.clone();
        open.spawn(async move { server.serve(stream).await });
        while open.try_join_next().is_some() {}
    }
}

/// Opens the hosts of a scenario that notifications are sent to.
pub fn open(scenario: &Scenario, shared: &Arc<Shared>, dialer: &MemoryDialer) {
    if !scenario.notifies() {
        return;
    }
    shared.ask(|oracles| {
        oracles.news.follow(scenario, &shared.faults);
        Vec::new()
    });
    for host in scenario.providers.keys() {
        let mut incoming = dialer.listen(host, 80);
        let (shared, host) = (shared.clone(), host.clone());
        tokio::spawn(async move {
            while let Some(stream) = incoming.recv().await {
                tokio::spawn(hear(stream, shared.clone(), host.clone()));
            }
        });
    }
}

/// Takes what is sent over a connection.
async fn hear(mut stream: impl Stream, shared: Arc<Shared>, host: String) {
    let mut seen: Vec<u8> = Vec::with_capacity(AT_ONCE);
    while let Ok(1..) = stream.read_buf(&mut seen).await {
        if whole(&seen) {
            let text = String::from_utf8_lossy(&seen).into_owned();
            seen.clear();
            let (head, body) = text.split_once("\r\n\r\n").unwrap_or_default();
            let target = head.split(' ').nth(1).unwrap_or_default();
            shared.history.note(Actor::User, || {
                format!("{host} is sent {target}: {}", body.replace('\n', " "))
            });
            let at = shared.history.now();
            shared.ask(|oracles| oracles.news.arrived(at, &host, target, body));
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
            if stream.write_all(answer).await.is_err() {
                return;
            }
        }
        seen.reserve(AT_ONCE);
    }
}

/// Calls a webhook, at a replica that lives. An error that says `lost` is for trying again.
pub async fn call(
    shared: &Arc<Shared>,
    dialer: &MemoryDialer,
    client: &Client,
    call: &Call,
) -> Result<String, (String, String)> {
    let what = format!("calls the webhook of {}", call.receiver);
    let (namespace, name) = call.receiver.split_once('/').unwrap_or_default();
    let receiver = client.get(&RECEIVERS, At::new(namespace, name)).await;
    let receiver = receiver.map_err(|error| (what.clone(), error.to_string()))?;
    let Some(path) = receiver["status"]["webhookPath"].as_str() else {
        return Err((what, "its path is not found yet".to_owned()));
    };
    let began = shared.history.now();
    let mut calls = JoinSet::new();
    for number in 0..call.burst {
        let (shared, dialer) = (shared.clone(), dialer.clone());
        let request = request(path, call);
        calls.spawn(async move { once(&shared, &dialer, &request, number).await });
    }
    let mut statuses = Vec::new();
    while let Some(status) = calls.join_next().await {
        statuses.extend(status.ok().flatten());
    }
    let at = shared.history.now();
    judge(shared, &receiver, began, &statuses, call.burst);
    let heard: Vec<String> = statuses.iter().map(ToString::to_string).collect();
    let heeded = statuses.len() == call.burst as usize && statuses.iter().all(|one| *one == 200);
    match heeded {
        true => Ok(format!("{what}; heeded after {:?}", at - began)),
        false => Err((what, format!("lost; answers: {}", heard.join(", ")))),
    }
}

fn request(path: &str, call: &Call) -> String {
    let mut text = format!("POST {path} HTTP/1.1\r\nHost: webhooks\r\n");
    for (name, value) in &call.headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    let (length, body) = (call.body.len(), &call.body);
    text.push_str(&format!("Content-Length: {length}\r\n\r\n{body}"));
    text
}

/// The status that one call is answered with.
async fn once(shared: &Shared, dialer: &MemoryDialer, text: &str, number: u32) -> Option<u16> {
    let alive: Vec<usize> = {
        let replicas = shared.replicas();
        let all = replicas.iter().enumerate();
        all.filter(|(_, replica)| replica.alive)
            .map(|(index, _)| index)
            .collect()
    };
    let chosen = alive.get(number as usize % alive.len().max(1))?;
    let answered = async {
        let mut stream = dialer.connect(&door(*chosen), 80).await.ok()?;
        stream.write_all(text.as_bytes()).await.ok()?;
        let mut heard = Vec::new();
        while !heard.windows(4).any(|end| end == b"\r\n\r\n") {
            match stream.read_buf(&mut heard).await {
                Ok(1..) => {}
                _ => return None,
            }
        }
        let text = String::from_utf8_lossy(&heard);
        text.split(' ').nth(1)?.parse().ok()
    };
    tokio::time::timeout(PATIENCE, answered)
        .await
        .ok()
        .flatten()
}

/// What the answers to a valid call must be: 200 when what it asks for is stored, else 503.
fn judge(shared: &Shared, receiver: &Value, began: Duration, statuses: &[u16], burst: u32) {
    let at = shared.history.now();
    let finding = |text: String| {
        vec![Finding {
            oracle: "webhooks are heeded",
            at,
            text,
        }]
    };
    if let Some(other) = statuses.iter().find(|status| !matches!(status, 200 | 503)) {
        let text = format!("a valid call is answered with {other}");
        return shared.ask(|_| finding(text));
    }
    if !statuses.contains(&200) {
        return;
    }
    let own = receiver["metadata"]["namespace"].as_str();
    let resources = receiver["spec"]["resources"].as_array();
    for resource in resources.into_iter().flatten() {
        let text = |field: &str| resource[field].as_str();
        let namespace = text("namespace").or(own).unwrap_or_default();
        let (kind, name) = (text("kind"), text("name").unwrap_or_default());
        let object = format!("{}/{namespace}/{name}", kind.unwrap_or_default());
        shared.ask(|oracles| {
            let asked = oracles.news.asked_for(&object, began);
            match asked {
                0 => finding(format!(
                    "a call is answered with 200, and {object} was not asked for"
                )),
                // One request is sent at once, one for all who came meanwhile.
                3.. if burst > 1 && shared.faults.is_empty() => finding(format!(
                    "{burst} calls at once ask for {object} {asked} times"
                )),
                _ => Vec::new(),
            }
        });
    }
}
