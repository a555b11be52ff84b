//! A small world for one scenario: its objects, its services, its clock, and the core under test in between.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everflow_api::Object;
use everflow_api::condition;
use everflow_api::names::condition::RECONCILING;
use everflow_api::notification::{Alert, Provider, Receiver};
use everflow_json::{Value, json};
use everflow_notify::alert::{Labels, Matcher, Warning};
use everflow_notify::attempt::{Attempt, Next};
use everflow_notify::dedup::{Deduplicator, Key};
use everflow_notify::dispatch::{Dispatch, Options, dispatch};
use everflow_notify::exchange::{Connection, Outcome, Reply, Request, Step, Unreachable};
use everflow_notify::provider::{Delivery, DeliveryContext, Lookup, Secrets, secret_names};
use everflow_notify::{Error, Event, SecretData};
use everflow_time::{Duration, Timestamp};

use crate::keys::Keys;
use crate::standin::{Reaction, StandIn};
use crate::symbols::{Symbols, uid};
use crate::{hooks, nats, wire};

/// What the event server answers with.
pub struct Response {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub text: String,
}

impl Response {
    pub fn status(status: u16) -> Self {
        Response {
            status,
            headers: Vec::new(),
            text: String::new(),
        }
    }
}

/// A core/v1 Event.
pub struct ObjectEvent {
    pub object: String,
    pub kind: &'static str,
    pub reason: String,
    pub message: String,
    pub annotations: BTreeMap<String, String>,
    /// The token that Flux hides in messages about this provider.
    pub token: Option<String>,
}

pub struct World<'k> {
    pub namespace: String,
    pub keys: &'k Keys,
    pub objects: BTreeMap<(String, String, String), Value>,
    pub now: Timestamp,
    pub standin: StandIn,
    pub dedup: Deduplicator,
    pub options: Options,
    pub requests: Vec<Value>,
    pub warnings: Vec<ObjectEvent>,
    /// Objects whose annotation was changed.
    pub annotated: Vec<String>,
    /// Whether changes are heeded: at first all objects are put there.
    pub is_running: bool,
    /// The last path of each Receiver.
    pub paths: BTreeMap<String, String>,
    /// What was told before, and of which object.
    pub told: BTreeSet<(String, String)>,
}

impl<'k> World<'k> {
    pub fn new(scenario: &Value, keys: &'k Keys, symbols: &Symbols<'_>) -> Self {
        let flags = scenario["flags"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str);
        let mut options = Options::default();
        let mut interval = Duration::from_seconds(300);
        for flag in flags {
            match flag.split_once('=') {
                Some(("--no-cross-namespace-refs", "true")) => {
                    options.no_cross_namespace_refs = true
                }
                Some(("--rate-limit-interval", text)) => interval = Duration::parse(text).unwrap(),
                _ => panic!("flag {flag}"),
            }
        }
        World {
            namespace: scenario["namespace"].as_str().unwrap().to_owned(),
            keys,
            objects: BTreeMap::new(),
            now: Timestamp::from_seconds(1_795_000_000),
            standin: StandIn::new(scenario, symbols),
            dedup: Deduplicator::new(interval, 10_000),
            options,
            requests: Vec::new(),
            warnings: Vec::new(),
            annotated: Vec::new(),
            is_running: false,
            paths: BTreeMap::new(),
            told: BTreeSet::new(),
        }
    }

    /// Applies an object, as the API server would keep it.
    pub fn apply(&mut self, object: &Value) {
        let mut object = object.clone();
        let kind = object["kind"].as_str().unwrap().to_owned();
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let namespace = object["metadata"]["namespace"]
            .as_str()
            .unwrap_or(&self.namespace)
            .to_owned();
        let key = (kind.clone(), namespace.clone(), name.clone());
        let before = self.objects.get(&key);
        let generation = match before {
            Some(before) if before["spec"] == object["spec"] => {
                before["metadata"]["generation"].as_i64().unwrap()
            }
            Some(before) => before["metadata"]["generation"].as_i64().unwrap() + 1,
            None => 1,
        };
        let status = before
            .map(|before| before["status"].clone())
            .unwrap_or_default();
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.insert("namespace".into(), Value::from(namespace));
        metadata.insert("uid".into(), Value::from(uid(&format!("{kind}/{name}"))));
        metadata.insert("generation".into(), Value::from(generation));
        if !status.is_null() {
            object["status"] = status.clone();
        }
        if kind == "Receiver" && status.is_null() {
            object["status"] = json!({"observedGeneration": -1});
        }
        let is_changed = before.is_none_or(|before| {
            before["metadata"]["generation"] != object["metadata"]["generation"]
        });
        let is_watched = object["metadata"]["labels"]["reconcile.fluxcd.io/watch"] == "Enabled";
        let namespace = key.1.clone();
        self.objects.insert(key, object);
        if kind == "Receiver" && is_changed && self.is_running {
            hooks::reconcile(self, &namespace, &name);
        }
        if kind == "Secret" && is_watched && self.is_running {
            self.reconcile_all();
        }
    }

    /// Makes an attempt at each Receiver.
    pub fn reconcile_all(&mut self) {
        for receiver in self.receivers() {
            hooks::reconcile(self, receiver.metadata.namespace(), &receiver.metadata.name);
        }
    }

    /// Makes an attempt at each Receiver that is not ready for a reason that time may mend.
    pub fn retry_failed(&mut self) {
        for receiver in self.receivers() {
            if condition::is_true(&receiver.status.conditions, RECONCILING) {
                hooks::reconcile(self, receiver.metadata.namespace(), &receiver.metadata.name);
            }
        }
    }

    /// Sets annotations of `KIND/NAME`.
    pub fn annotate(&mut self, object: &str, annotations: &Value) {
        let (kind, name) = object.split_once('/').unwrap();
        let namespace = self.namespace.clone();
        let key = (kind.to_owned(), namespace.clone(), name.to_owned());
        let metadata = &mut self.objects.get_mut(&key).unwrap()["metadata"];
        let mut all = metadata["annotations"]
            .as_object()
            .cloned()
            .unwrap_or_default();
        all.extend(annotations.as_object().cloned().unwrap());
        metadata["annotations"] = Value::Object(all);
        self.annotated.push(object.to_owned());
        if kind == "Receiver" {
            hooks::reconcile(self, &namespace, name);
        }
    }

    pub fn delete(&mut self, kind: &str, name: &str) {
        self.objects
            .remove(&(kind.to_owned(), self.namespace.clone(), name.to_owned()));
    }

    pub fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<&Value> {
        self.objects
            .get(&(kind.to_owned(), namespace.to_owned(), name.to_owned()))
    }

    pub fn all(&self, kind: &str) -> Vec<Value> {
        let all = self
            .objects
            .iter()
            .filter(|((found, _, _), _)| found == kind);
        all.map(|(_, object)| object.clone()).collect()
    }

    /// A Secret as the core takes it.
    pub fn lookup(&self, namespace: &str, name: Option<&str>) -> Lookup {
        let Some(name) = name else {
            return Lookup::None;
        };
        match self.get("Secret", namespace, name) {
            None => Lookup::Failed(format!("secrets {name:?} not found")),
            Some(secret) => Lookup::Found(secret_data(namespace, name, secret)),
        }
    }

    pub fn receivers(&self) -> Vec<Object<Receiver>> {
        self.all("Receiver")
            .iter()
            .map(|object| Object::read(object).unwrap())
            .collect()
    }

    /// Hands a body to the event server.
    pub fn post_event(&mut self, body: &[u8]) -> Response {
        let mut event = match Event::read(body) {
            Ok(event) => event,
            Err(Error::TooLarge { .. }) => return Response::status(413),
            Err(_) => return Response::status(400),
        };
        event.clean();
        let verdict = self.dedup.take(Key::of(&event), self.now);
        let mut response = Response {
            headers: verdict.headers(),
            ..Response::status(202)
        };
        if !verdict.is_new {
            response.status = 429;
            response.text = "Too Many Requests\n".to_owned();
            response
                .headers
                .push(("Content-Type", "text/plain; charset=utf-8".to_owned()));
            response
                .headers
                .push(("X-Content-Type-Options", "nosniff".to_owned()));
            return response;
        }
        event.drop_token();
        for alert in self.all("Alert") {
            let alert: Object<Alert> = Object::read(&alert).unwrap();
            self.tell(&alert, &event);
        }
        response
    }

    fn tell(&mut self, alert: &Object<Alert>, event: &Event) {
        let matcher = Matcher::new(alert);
        let labels = matcher
            .needs_labels(event)
            .then(|| self.labels_of(event))
            .flatten();
        let found = match &labels {
            Some(labels) => matcher.matches(event, Labels::Known(labels)),
            None => matcher.matches(event, Labels::Unavailable),
        };
        for warning in found.warnings {
            self.warn(alert, warning, BTreeMap::new(), None);
        }
        if !found.is_match {
            return;
        }
        let namespace = alert.metadata.namespace();
        let name = &alert.spec.provider_ref.name;
        let provider: Option<Object<Provider>> = self
            .get("Provider", namespace, name)
            .map(|object| Object::read(object).unwrap());
        let missing = format!("Provider.notification.toolkit.fluxcd.io {name:?} not found");
        let sent = match dispatch(
            event,
            alert,
            provider.as_ref().ok_or(missing.as_str()),
            &self.options,
        ) {
            Ok(Dispatch::Skip(_)) => return,
            Ok(Dispatch::Send(sent)) => sent,
            Err(error) => {
                return self.warn(alert, error.warning(&event.involved), BTreeMap::new(), None);
            }
        };
        if let Some(warning) = sent.warning() {
            self.warn(alert, warning, sent.combined.conflicts.clone(), None);
        }
        let provider = provider.unwrap();
        let names = secret_names(&provider);
        let secrets = Secrets {
            credentials: self.lookup(namespace, names[0]),
            proxy: self.lookup(namespace, names[1]),
            certificates: self.lookup(namespace, names[2]),
        };
        let token = match &secrets.credentials {
            Lookup::Found(secret) => secret.text("token").map(|token| token.trim().to_owned()),
            _ => None,
        };
        let mut attempt: Option<Attempt> = None;
        loop {
            let context = DeliveryContext {
                now: self.now,
                random: [7; 32],
                host_name: "host".to_owned(),
            };
            let delivery = sent.delivery(alert, &provider, &secrets, &context);
            let mut delivery = match delivery {
                Ok(delivery) => delivery,
                Err(error) => {
                    return self.warn(
                        alert,
                        error.warning(&event.involved),
                        BTreeMap::new(),
                        token,
                    );
                }
            };
            let attempt = attempt
                .get_or_insert_with(|| Attempt::new(self.now, delivery.connection().timeout));
            let Outcome::Failed(failure) = self.deliver(&mut delivery, attempt.deadline()) else {
                return;
            };
            match attempt.failed(failure, self.now) {
                Next::At(then) => self.now = then,
                Next::Over(failure) => {
                    return self.warn(
                        alert,
                        failure.warning(&event.involved),
                        BTreeMap::new(),
                        token,
                    );
                }
            }
        }
    }

    fn labels_of(&self, event: &Event) -> Option<BTreeMap<String, String>> {
        let involved = &event.involved;
        let object = self.get(&involved.kind, &involved.namespace, &involved.name)?;
        (object["apiVersion"].as_str() == Some(&involved.api_version)).then_some(())?;
        let labels = object["metadata"]["labels"]
            .as_object()
            .cloned()
            .unwrap_or_default();
        let labels = labels
            .iter()
            .map(|(key, value)| (key.to_string(), value.as_str().unwrap().to_owned()));
        Some(labels.collect())
    }

    fn warn(
        &mut self,
        alert: &Object<Alert>,
        warning: Warning,
        annotations: BTreeMap<String, String>,
        token: Option<String>,
    ) {
        self.warnings.push(ObjectEvent {
            object: format!("Alert/{}", alert.metadata.name),
            kind: "Warning",
            reason: warning.reason.as_str().to_owned(),
            message: warning.message,
            annotations,
            token,
        });
    }

    /// Carries out a delivery.
    fn deliver(&mut self, delivery: &mut Delivery, deadline: Timestamp) -> Outcome {
        let connection = delivery.connection().clone();
        let mut step = delivery.start();
        loop {
            let reply = match step {
                Step::Done(outcome) => return outcome,
                Step::Send(request) => self.send(&request, &connection, deadline),
                Step::GithubToken(app) => self.github_token(&app),
                Step::GoogleToken(account) => {
                    let token = account.token(self.now, &ring::rand::SystemRandom::new());
                    match token {
                        Ok(token) => Reply::Token { token, slug: None },
                        Err(error) => Reply::Unreachable(Unreachable {
                            message: error.to_string(),
                            is_final: true,
                        }),
                    }
                }
                Step::Nats(publish) => nats::publish(&publish, &mut self.requests),
            };
            step = delivery.next(reply);
        }
    }

    fn send(&mut self, request: &Request, connection: &Connection, deadline: Timestamp) -> Reply {
        let (reaction, was_seen) = self.standin.react(request, connection, self.keys);
        if was_seen {
            self.requests
                .extend(wire::recorded_form(request, connection));
        }
        match reaction {
            Reaction::Answer(answer) => Reply::Answer(answer),
            Reaction::Unreachable(why) => Reply::Unreachable(why),
            Reaction::Late(seconds, answer) => {
                let then = Timestamp::from_seconds(self.now.seconds + seconds);
                self.now = then.min(deadline);
                match then < deadline {
                    true => Reply::Answer(answer),
                    false => Reply::Unreachable(Unreachable {
                        message: "no answer in time".to_owned(),
                        is_final: false,
                    }),
                }
            }
        }
    }

    /// The exchange that the caller of the core makes for a GitHub App.
    fn github_token(&mut self, app: &everflow_notify::exchange::GithubApp) -> Reply {
        let id = app.installation_id.as_deref().unwrap();
        let path = format!("/app/installations/{id}/access_tokens");
        self.requests.push(json!({
            "method": "POST", "path": path, "text": "null\n", "body": null,
            "headers": {
                "accept": "application/vnd.github.v3+json", "authorization": "Bearer x.y.z",
                "content-type": "application/json", "x-github-api-version": "2022-11-28",
            },
        }));
        assert!(app.private_key.reveal().starts_with(b"-----BEGIN"));
        Reply::Token {
            token: "ghs_app".into(),
            slug: None,
        }
    }
}

pub fn secret_data(namespace: &str, name: &str, secret: &Value) -> SecretData {
    let text = |value: &Value| value.as_str().unwrap().as_bytes().to_vec();
    let mut entries = BTreeMap::new();
    for (key, value) in secret["data"].as_object().into_iter().flatten() {
        entries.insert(key.to_string(), STANDARD.decode(text(value)).unwrap());
    }
    for (key, value) in secret["stringData"].as_object().into_iter().flatten() {
        entries.insert(key.to_string(), text(value));
    }
    SecretData::new(format!("{namespace}/{name}"), entries)
}
