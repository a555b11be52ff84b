//! The server that webhooks are sent to. Every replica serves them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use everflow_api::Object;
use everflow_api::notification::Receiver;
use everflow_env::{BoxFuture, Env, Stream};
use everflow_json::Value;
use everflow_notify::receiver::{
    Accepted, Call, Filters, Options, Refusal, Route, Select, Target, check, key_source, route,
};
use everflow_runtime::client::{At, Client, Resource, Selection, meta_text};
use everflow_runtime::log::Logger;
use everflow_runtime::metrics::Metrics;
use everflow_runtime::store::Store;
use everflow_runtime::{Error, Signal};
use futures_util::future::join_all;
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;

use super::keys::KeyCache;
use super::waker::{AnnotateError, Waker};
use crate::secrets;
use crate::web::{Answer, Answering, Inbound, Web};

/// How long the API server may take for each request about a webhook.
const PATIENCE: Duration = Duration::from_secs(10);

/// The server for webhooks.
#[derive(Clone)]
pub struct ReceiverServer {
    web: Web<Hooks>,
}

impl std::fmt::Debug for ReceiverServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ReceiverServer")
    }
}

/// Receivers by the digest of their paths: how long a look-up takes tells nothing about paths that exist.
#[derive(Debug, Default)]
struct Paths {
    /// The state of the store that it was made from.
    changes: Option<u64>,
    receivers: BTreeMap<[u8; 32], Arc<Object<Receiver>>>,
}

struct Hooks {
    env: Env,
    client: Client,
    store: Store,
    paths: Mutex<Paths>,
    keys: KeyCache,
    waker: Waker,
    options: Options,
    log: Logger,
    metrics: Metrics,
}

/// Why a request that is heeded did not wake all it should.
#[derive(Debug, Default)]
struct Problems {
    is_away: bool,
    texts: Vec<String>,
}

impl ReceiverServer {
    /// A server for the Receivers in a store.
    pub fn new(
        env: &Env,
        client: &Client,
        store: Store,
        options: Options,
        log: &Logger,
        metrics: &Metrics,
    ) -> Self {
        let client = client.with_deadline(PATIENCE);
        let hooks = Hooks {
            env: env.clone(),
            keys: KeyCache::new(env),
            waker: Waker::new(env, &client),
            client,
            store,
            paths: Mutex::default(),
            options,
            log: log.named("receiver-server"),
            metrics: metrics.clone(),
        };
        ReceiverServer {
            web: Web::new(&env.clock, hooks),
        }
    }

    /// Serves all connections of a listener until told to stop.
    pub async fn run(&self, listener: TcpListener, stop: Signal) {
        self.web.run(listener, stop).await;
    }

    /// Serves one connection to its end.
    pub async fn serve(&self, stream: impl Stream + 'static) {
        self.web.serve(stream).await;
    }
}

impl Answering for Hooks {
    fn at_once(&self, target: &str) -> Option<Answer> {
        let answer = match route(target) {
            Route::Redirect => {
                let mut answer = Answer::status(307);
                answer.headers.push(("location", "/hook/".to_owned()));
                answer
            }
            Route::Nothing => Answer::text(404, "404 page not found"),
            Route::Hook if self.receiver(target).is_none() => self.unknown(),
            Route::Hook => return None,
        };
        self.count(&answer);
        Some(answer)
    }

    fn answer(self: Arc<Self>, inbound: Inbound) -> BoxFuture<'static, Answer> {
        Box::pin(async move {
            let answer = match self.receiver(&inbound.target) {
                Some(receiver) => self.call(&receiver, &inbound).await,
                None => self.unknown(),
            };
            self.count(&answer);
            answer
        })
    }
}

impl Hooks {
    fn count(&self, answer: &Answer) {
        let status = answer.status.to_string();
        self.metrics
            .count("everflow_webhooks_total", &[("status", &status)]);
    }

    /// The answer where there is no Receiver. Before all are known nobody can say that there is none.
    fn unknown(&self) -> Answer {
        match self.store.is_synced() {
            true => Answer::status(404),
            false => Answer::later(),
        }
    }

    /// The Receiver with a path.
    fn receiver(&self, target: &str) -> Option<Arc<Object<Receiver>>> {
        let mut paths = self.paths.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = self.store.changes();
        if paths.changes != Some(changes) {
            paths.receivers = self.read_receivers();
            paths.changes = Some(changes);
        }
        paths.receivers.get(&digest(target)).cloned()
    }

    fn read_receivers(&self) -> BTreeMap<[u8; 32], Arc<Object<Receiver>>> {
        let all = self.store.list(None).into_iter();
        let all = all.filter_map(|cached| Object::<Receiver>::read(&cached.value()).ok());
        all.filter_map(|receiver| {
            let path = receiver.status.webhook_path.as_deref()?;
            Some((digest(path), Arc::new(receiver)))
        })
        .collect()
    }

    async fn call(&self, receiver: &Object<Receiver>, inbound: &Inbound) -> Answer {
        let name = format!(
            "{}/{}",
            receiver.metadata.namespace(),
            receiver.metadata.name
        );
        let call = Call {
            headers: &inbound.headers,
            body: &inbound.body,
        };
        let accepted = match self.check(receiver, &call).await {
            Ok(accepted) => accepted,
            Err(refusal) => {
                let fields = [("receiver", name.as_str()), ("why", &refusal.why)];
                self.log.info("a webhook was refused", &fields);
                return match refusal.status {
                    503 => Answer::later(),
                    status => Answer::status(status),
                };
            }
        };
        let problems = self.wake_all(&accepted).await;
        let why = problems.texts.join("; ");
        let fields = [
            ("receiver", name.as_str()),
            ("summary", &accepted.summary),
            ("problems", &why),
        ];
        self.log.info("handled a webhook", &fields);
        match (problems.is_away, problems.texts.is_empty()) {
            (true, _) => Answer::later(),
            (false, true) => Answer::status(200),
            (false, false) => Answer::status(500),
        }
    }

    async fn check(
        &self,
        receiver: &Object<Receiver>,
        call: &Call<'_>,
    ) -> Result<Accepted, Refusal> {
        let keys = match key_source(receiver, call)? {
            Some(source) => Some(self.keys.keys(&source, bearer(call)).await),
            None => None,
        };
        let keys = keys
            .as_ref()
            .map(|keys| keys.as_ref().map_err(String::as_str));
        let namespace = receiver.metadata.namespace();
        let reference = receiver.spec.secret_ref.as_ref();
        let name = reference.map(|reference| reference.name.as_str());
        let secret = secrets::lookup(&self.client, namespace, name).await;
        let secret = secret.map_err(|error| Refusal {
            status: 503,
            why: error.to_string(),
        })?;
        check(
            receiver,
            &secret,
            call,
            keys,
            &self.options,
            self.env.clock.now(),
        )
    }

    /// Wakes what a request asks for, all at once.
    async fn wake_all(&self, accepted: &Accepted) -> Problems {
        let mut problems = Problems {
            texts: accepted.problems.clone(),
            ..Problems::default()
        };
        let finding = accepted.targets.iter();
        let finding = finding.map(|target| self.find(target, &accepted.filters));
        let mut objects = Vec::new();
        for found in join_all(finding).await {
            let (mut found, problem) = found;
            objects.append(&mut found);
            problem
                .into_iter()
                .for_each(|problem| problems.add(problem));
        }
        for woken in join_all(objects.into_iter().map(|object| self.waker.wake(object))).await {
            if let Err(problem) = woken {
                problems.add(problem);
            }
        }
        problems
    }

    /// The objects that a target stands for, and what went wrong on the way.
    async fn find(
        &self,
        target: &Target,
        filters: &Filters,
    ) -> (Vec<super::waker::Object>, Option<AnnotateError>) {
        let kind = target.kind.as_str();
        let resource = match self.client.resource(&target.api_version, kind).await {
            Ok(resource) => resource,
            Err(error) => return (Vec::new(), Some(problem(&error))),
        };
        let named = |name: &str| (resource.clone(), target.namespace.clone(), name.to_owned());
        match &target.select {
            Select::Name(name) if !filters.looks_at(target.resource) => (vec![named(name)], None),
            _ => match self.read(target, &resource).await {
                Ok(found) => {
                    let (names, problem) = admitted(target, &resource, filters, &found);
                    (names.iter().map(|name| named(name)).collect(), problem)
                }
                Err(error) => (Vec::new(), Some(problem(&error))),
            },
        }
    }

    async fn read(&self, target: &Target, resource: &Resource) -> Result<Vec<Value>, Error> {
        match &target.select {
            Select::Name(name) => {
                let at = At::new(&target.namespace, name);
                Ok(vec![self.client.get_metadata(resource, at).await?])
            }
            Select::Labels(labels) => {
                let labels = labels.iter().map(|(key, value)| format!("{key}={value}"));
                let labels = labels.collect::<Vec<_>>().join(",");
                let selection = Selection::labelled(labels).metadata();
                let namespace = Some(target.namespace.as_str());
                let list = self
                    .client
                    .list_all(resource, namespace, &selection)
                    .await?;
                Ok(list.items)
            }
        }
    }
}

impl Problems {
    fn add(&mut self, problem: AnnotateError) {
        let (AnnotateError::Away(text) | AnnotateError::Refused(text)) = &problem;
        self.texts.push(text.clone());
        self.is_away |= matches!(problem, AnnotateError::Away(_));
    }
}

fn problem(error: &Error) -> AnnotateError {
    match error.is_transient() {
        true => AnnotateError::Away(error.to_string()),
        false => AnnotateError::Refused(error.to_string()),
    }
}

/// The names of the objects that pass the filters, up to one that they fail on.
fn admitted(
    target: &Target,
    resource: &Resource,
    filters: &Filters,
    found: &[Value],
) -> (Vec<String>, Option<AnnotateError>) {
    let evaluator = filters.evaluator();
    let mut names = Vec::new();
    for object in found {
        let mut object = object.clone();
        // Metadata alone comes under another kind.
        object["kind"] = resource.kind.as_str().into();
        object["apiVersion"] = resource.api_version().into();
        match evaluator.admit(target.resource, &object) {
            Ok(true) => names.push(meta_text(&object, "name").to_owned()),
            Ok(false) => {}
            Err(error) => return (names, Some(AnnotateError::Refused(error.to_string()))),
        }
    }
    (names, None)
}

fn digest(path: &str) -> [u8; 32] {
    Sha256::digest(path).into()
}

fn bearer<'c>(call: &Call<'c>) -> &'c str {
    let header = call.headers.get(http::header::AUTHORIZATION);
    let text = header
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    text.strip_prefix("Bearer ").unwrap_or_default().trim()
}
