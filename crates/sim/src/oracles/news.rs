//! Each alert that is due arrives, and nothing is told twice where the other side can tell.
//!
//! Due is what a controller has handed to the dispatcher, unless the process died before it was on its disk. What has
//! arrived is what the hosts of the scenario were sent.

mod excuses;

use std::collections::BTreeMap;
use std::time::Duration;

use everflow_api::Object;
use everflow_api::names::annotation::REQUESTED_AT;
use everflow_api::notification::{Alert, Provider};
use everflow_env::disk::read_all;
use everflow_json::{Map, Value};
use everflow_notify::Event;
use everflow_notify::alert::{Labels, Matcher};
use everflow_notify::dedup::Key;
use everflow_notify::grouping::may_group;
use everflow_runtime::events::Notice;

use super::{Commit, Finding};
use crate::disk::Change;
use crate::history::Actor;
use crate::plan::{Fault, HostFate, Weather};
use crate::scenario::{Scenario, UserOperation};
use crate::shared::Shared;
use excuses::{forgets, lets_hear, settled_after};

/// The ConfigMap in which replicas tell each other what was told.
const MEMORY: &str = "everflow-notifications-told";
/// Where the queue of notifications is.
const QUEUE: &str = "notifications/";
/// A journal is no longer than this.
const LONGEST: u64 = 1 << 28;
/// The same news counts as told for so long.
const INTERVAL: Duration = Duration::from_secs(300);
/// Clocks differ in speed by so much in that time, and a notification is so long on its way.
const SLACK: Duration = Duration::from_secs(20);
/// What is told in the last seconds before a replica dies may be told once more by another one.
const HEARD: Duration = Duration::from_secs(10);

/// Whether a write is about notifications alone, which no other rule has to do with.
pub(super) fn is_talk(commit: &Commit<'_>) -> bool {
    let of_alert = commit.table == "notification.toolkit.fluxcd.io/alerts";
    let memory = commit.table == "/configmaps" && commit.key.ends_with(MEMORY);
    memory || (of_alert && commit.who.replica().is_some())
}

/// Whether a write asks for an attempt, which every replica may do when a webhook calls.
pub(super) fn asks(commit: &Commit<'_>) -> bool {
    let asked = |object: Option<&Value>| {
        let annotations = object?.pointer("/metadata/annotations")?;
        annotations.get(REQUESTED_AT).cloned()
    };
    commit.part.is_empty() && commit.new.is_some() && asked(commit.new) != asked(commit.old)
}

/// Whether an object is the memory of what was told.
pub(super) fn is_memory(table: &str, object: &Value) -> bool {
    table == "/configmaps" && object["metadata"]["name"] == MEMORY
}

fn is_moment(text: &str) -> bool {
    text.len() > 19 && text.ends_with('Z') && text.as_bytes().get(10) == Some(&b'T')
}

/// Takes out of annotations when something was told, and when a webhook has asked.
pub(super) fn without_moments(annotations: &mut Map) {
    annotations.retain(|key, _| !key.starts_with("notification.everflow.dev/"));
    if let Some(asked) = annotations.get_mut(REQUESTED_AT)
        && asked.as_str().is_some_and(is_moment)
    {
        *asked = "TIME".into();
    }
}

/// A field of a status without when a webhook has asked for what was done.
pub(super) fn without_moment(object: &Value, field: &str, value: &Value) -> Value {
    let asked = &object["metadata"]["annotations"][REQUESTED_AT];
    let is_answer = field == "lastHandledReconcileAt" && asked == value;
    match is_answer && value.as_str().is_some_and(is_moment) {
        true => "TIME".into(),
        false => value.clone(),
    }
}

/// Who wants to be told of what.
#[derive(Debug)]
struct Listener {
    alert: String,
    matcher: Matcher,
    host: String,
    within: Option<Duration>,
    /// Whether what follows soon about the same object waits, to be told together.
    groups: bool,
}

/// An event that was handed to a dispatcher.
#[derive(Debug)]
struct Offer {
    at: Duration,
    who: Actor,
    event: Event,
    identity: String,
    /// The listeners that it is for.
    wanted: Vec<usize>,
    /// It is on the disk of its replica.
    is_kept: bool,
    /// The process died before anybody could keep it.
    is_excused: bool,
}

/// What a host was sent.
#[derive(Debug)]
struct Arrival {
    at: Duration,
    host: String,
    target: String,
    body: String,
    texts: Vec<String>,
    /// What it tells, without when that was.
    news: String,
}

impl Arrival {
    fn says(&self, text: &str) -> bool {
        self.texts.iter().any(|one| one.contains(text))
    }

    fn is_about(&self, offer: &Offer) -> bool {
        let metadata = &offer.event.metadata;
        let mut revisions = metadata
            .iter()
            .filter(|(key, _)| key.ends_with("/revision"));
        self.says(&offer.event.involved.name)
            && self.says(&offer.event.message)
            && revisions.all(|(_, revision)| self.says(revision))
    }

    /// Whether it stands for several events about an object.
    fn is_group_about(&self, offer: &Offer) -> bool {
        self.says("about this object in the last") && self.says(&offer.event.involved.name)
    }

    fn is_same(&self, other: &Arrival) -> bool {
        self.host == other.host && self.news == other.news
    }

    /// Whether the other side can tell that it has it already.
    fn is_recognised(&self, other: &Arrival) -> bool {
        self.target == other.target && self.target.contains("/_matrix/")
    }
}

/// What was to be notified, and what was.
#[derive(Debug, Default)]
pub struct News {
    listeners: Vec<Listener>,
    offers: Vec<Offer>,
    arrivals: Vec<Arrival>,
    /// Lives that have ended in good order.
    ended: Vec<Actor>,
    /// When replicas died.
    deaths: Vec<(Duration, usize)>,
    /// When objects were asked for.
    asked: BTreeMap<String, Vec<Duration>>,
    /// From when on replicas must know the Alerts.
    settled: Duration,
    /// So many notifications may be refused for good by a host.
    refused: BTreeMap<String, usize>,
    /// Faults after which something may be told again.
    faults: Vec<Fault>,
}

impl News {
    /// What there is to listen for.
    pub fn follow(&mut self, scenario: &Scenario, faults: &[Fault]) {
        let touched = |object: &Value| {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            scenario.actions.iter().any(|action| match &action.deed {
                UserOperation::Patch { object, .. } | UserOperation::Delete(object) => {
                    object.name == name
                }
                UserOperation::Apply(object) => object["metadata"]["name"] == name,
                _ => false,
            })
        };
        let of_kind = |kind: &'static str| {
            let all = scenario.objects.iter();
            all.filter(move |object| object["kind"] == kind && !touched(object))
        };
        for value in of_kind("Alert") {
            let Ok(alert) = Object::<Alert>::read(value) else {
                continue;
            };
            let namespace = alert.metadata.namespace();
            let provider = of_kind("Provider").find(|provider| {
                let metadata = &provider["metadata"];
                metadata["namespace"] == namespace
                    && metadata["name"] == *alert.spec.provider_ref.name
            });
            let address = provider.and_then(|provider| provider["spec"]["address"].as_str());
            let Some(host) = address.and_then(|address| address.split('/').nth(2)) else {
                continue;
            };
            let known = scenario.providers.get(host);
            self.listeners.push(Listener {
                alert: format!("{namespace}/{}", alert.metadata.name),
                matcher: Matcher::new(&alert),
                host: host.to_owned(),
                groups: provider
                    .and_then(|provider| Object::<Provider>::read(provider).ok())
                    .is_some_and(|provider| may_group(provider.spec.provider_type)),
                within: known
                    .and_then(|known| known.within)
                    .map(Duration::from_secs),
            });
        }
        self.faults = faults.to_vec();
        let settled = faults.iter().map(settled_after).max().unwrap_or_default();
        self.settled = settled.max(Duration::from_secs(2));
        for fault in faults {
            if let Fault::Host {
                host,
                fate: HostFate::Answers(400..=428 | 430..=499),
                ..
            } = fault
            {
                *self.refused.entry(host.clone()).or_default() += 1;
            }
        }
    }

    /// An event was handed to a dispatcher.
    pub fn offered(&mut self, at: Duration, who: Actor, notice: Notice) {
        let (mut event, labels) = everflow_dispatch::event_of(notice, "sim");
        event.clean();
        let labels = labels.as_object().into_iter().flatten();
        let labels =
            labels.filter_map(|(key, value)| Some((key.to_string(), value.as_str()?.to_owned())));
        let labels = labels.collect();
        let wanted = self.listeners.iter().enumerate().filter(|(_, listener)| {
            let found = listener.matcher.matches(&event, Labels::Known(&labels));
            // That all is as it was is for programs and for commits only.
            let mut keys = event.metadata.keys();
            let is_skipped = listener.groups && keys.any(|key| key.ends_with("commit_status"));
            found.is_match && !is_skipped
        });
        let wanted: Vec<usize> = wanted.map(|(index, _)| index).collect();
        if wanted.is_empty() {
            return;
        }
        self.offers.push(Offer {
            at,
            who,
            identity: hex(Key::of(&event).as_bytes()),
            event,
            wanted,
            is_kept: false,
            is_excused: at < self.settled,
        });
    }

    /// A host was sent something.
    pub fn arrived(&mut self, at: Duration, host: &str, target: &str, body: &str) -> Vec<Finding> {
        let value: Value = everflow_json::from_str(body).unwrap_or_default();
        let mut texts = Vec::new();
        collect(&value, &mut texts);
        let news = match value.get("involvedObject") {
            Some(object) => {
                let (kind, namespace) = (&object["kind"], &object["namespace"]);
                let (name, message) = (&object["name"], &value["message"]);
                format!("{kind}/{namespace}/{name} {message} {}", value["metadata"])
            }
            None => body.to_owned(),
        };
        let arrival = Arrival {
            at,
            host: host.to_owned(),
            target: target.to_owned(),
            body: body.to_owned(),
            texts,
            news,
        };
        let before = self
            .arrivals
            .iter()
            .rev()
            .find(|before| before.is_same(&arrival) && at - before.at + SLACK < INTERVAL);
        let found = before.and_then(|before| self.told_twice(before, &arrival));
        self.arrivals.push(arrival);
        found.into_iter().collect()
    }

    /// Whether something should not have been told a second time.
    fn told_twice(&self, before: &Arrival, now: &Arrival) -> Option<Finding> {
        if now.is_recognised(before) {
            return None;
        }
        let offers = self.offers.iter().filter(|offer| now.is_about(offer));
        let offers: Vec<&Offer> = offers.filter(|offer| offer.at <= now.at).collect();
        let (first, last) = (offers.first()?, offers.last()?);
        // An id would tell that it is the same notification, where there is one.
        let has_id = now.target.contains("/_matrix/");
        let was_sent_again = !has_id && self.may_be_sent_again(before, now);
        let is_elsewhere = first.who.replica() != last.who.replica()
            && (last.at - first.at < HEARD || !self.faults.iter().all(lets_hear));
        let is_forgotten = self.faults.iter().any(forgets) || first.is_excused;
        if was_sent_again || is_elsewhere || is_forgotten {
            return None;
        }
        let first = before.at.as_secs_f64();
        Some(Finding {
            oracle: "news is told once",
            at: now.at,
            text: format!(
                "{} is told again what it was told at {first:.3}s: {}",
                now.host, now.body
            ),
        })
    }

    /// Whether nobody can know that a notification was taken: its answer was lost, or the process died with it.
    fn may_be_sent_again(&self, before: &Arrival, now: &Arrival) -> bool {
        let died = self
            .deaths
            .iter()
            .any(|(at, _)| (before.at..=before.at + SLACK).contains(at));
        let lost = self.faults.iter().any(|fault| match fault {
            Fault::Host { host, .. } => *host == now.host,
            Fault::Weather { what, .. } => match what {
                Weather::HostDown(host) | Weather::HostSilent(host) => *host == now.host,
                Weather::HostAnswers(host, _) => *host == now.host,
                _ => false,
            },
            fault => fault.stops().is_some(),
        });
        died || lost || self.faults.iter().any(|fault| fault.stops().is_some())
    }

    /// A life has ended in good order: what it has taken is not lost.
    pub fn ended(&mut self, who: Actor) -> Vec<Finding> {
        self.ended.push(who);
        Vec::new()
    }

    /// A file of a replica has become durable.
    pub(super) fn disk(&mut self, shared: &Shared, replica: usize, change: Change<'_>) {
        let Change::Sync(path) = change else {
            return;
        };
        let is_waiting = |offer: &Offer| !offer.is_kept && offer.who.replica() == Some(replica);
        if !path.starts_with(QUEUE) || !self.offers.iter().any(is_waiting) {
            return;
        }
        let files = shared
            .replicas()
            .get(replica)
            .map(|state| state.files.clone());
        let bytes = files.and_then(|files| read_all(&files, path, LONGEST).ok());
        let text = String::from_utf8_lossy(bytes.as_deref().unwrap_or_default()).into_owned();
        for offer in self.offers.iter_mut().filter(|offer| is_waiting(offer)) {
            offer.is_kept = text.contains(&offer.identity);
        }
    }

    pub(super) fn died(&mut self, shared: &Shared, replica: usize, wiped: bool) {
        let at = shared.history.now();
        self.deaths.push((at, replica));
        for offer in &mut self.offers {
            let is_lost = wiped || (!offer.is_kept && !self.ended.contains(&offer.who));
            if offer.who.replica() == Some(replica) && is_lost {
                offer.is_excused = true;
            }
        }
    }

    /// Objects that are asked for.
    pub(super) fn commit(&mut self, commit: &Commit<'_>) {
        let asked = |object: Option<&Value>| {
            let annotation = object?
                .pointer("/metadata/annotations")?
                .get(REQUESTED_AT)?;
            annotation.as_str().map(str::to_owned)
        };
        let now = asked(commit.new);
        if commit.is_flux() && now.is_some() && now != asked(commit.old) {
            let kind = commit.new.and_then(|object| object["kind"].as_str());
            let name = format!("{}/{}", kind.unwrap_or_default(), commit.key);
            self.asked.entry(name).or_default().push(commit.at);
        }
    }

    /// How often an object was asked for since a moment.
    pub fn asked_for(&self, object: &str, since: Duration) -> usize {
        let asked = self.asked.get(object).into_iter().flatten();
        asked.filter(|at| **at >= since).count()
    }

    /// The first arrival that tells of an offer.
    fn told(&self, offer: &Offer, listener: &Listener) -> Option<Duration> {
        let any_time = self
            .faults
            .iter()
            .any(|fault| matches!(fault, Fault::Jump { .. }));
        let since = match any_time {
            true => Duration::ZERO,
            false => offer.at.saturating_sub(INTERVAL + SLACK),
        };
        let arrivals = self
            .arrivals
            .iter()
            .filter(|arrival| arrival.host == listener.host);
        let mut arrivals = arrivals.filter(|arrival| arrival.at >= since);
        let found = arrivals.find(|arrival| {
            arrival.is_about(offer) || (arrival.at >= offer.at && arrival.is_group_about(offer))
        });
        found.map(|arrival| arrival.at)
    }

    /// Whether an offer was lost with a process that had taken the same news before, which others then hold for told.
    fn is_excused(&self, offer: &Offer) -> bool {
        let same = self
            .offers
            .iter()
            .filter(|other| other.identity == offer.identity);
        let mut near =
            same.filter(|other| other.at <= offer.at && offer.at - other.at < INTERVAL + SLACK);
        near.any(|other| other.is_excused)
    }

    /// What was to be notified and is not yet.
    pub fn untold(&self, now: Duration) -> Vec<String> {
        let mut all = Vec::new();
        for (index, listener) in self.listeners.iter().enumerate() {
            let offers = self
                .offers
                .iter()
                .filter(|offer| offer.wanted.contains(&index));
            // What waits for more of the same is not late yet.
            let patience = if listener.groups {
                INTERVAL + SLACK
            } else {
                Duration::ZERO
            };
            let untold = offers
                .filter(|offer| offer.at + patience <= now)
                .filter(|offer| self.told(offer, listener).is_none() && !self.is_excused(offer));
            let untold: Vec<&Offer> = untold.collect();
            let allowed = self
                .refused
                .get(&listener.host)
                .copied()
                .unwrap_or_default();
            let mut different: Vec<&String> = untold.iter().map(|offer| &offer.identity).collect();
            different.sort();
            different.dedup();
            if different.len() <= allowed {
                continue;
            }
            all.extend(untold.iter().map(|offer| {
                format!(
                    "{} does not tell {} of {} at {:.3}s by {}: {:?}",
                    listener.alert,
                    listener.host,
                    offer.event.involved.path(),
                    offer.at.as_secs_f64(),
                    offer.who,
                    offer.event.message
                )
            }));
        }
        all
    }

    /// What is wrong in the end; `alone` when nothing went wrong but what the scenario itself says.
    pub fn at_the_end(&self, at: Duration, alone: bool) -> Vec<Finding> {
        let mut found: Vec<String> = self.untold(at);
        for (index, listener) in self.listeners.iter().enumerate().filter(|_| alone) {
            let Some(within) = listener.within else {
                continue;
            };
            for offer in self
                .offers
                .iter()
                .filter(|offer| offer.wanted.contains(&index))
            {
                let late = self
                    .told(offer, listener)
                    .filter(|told| *told > offer.at + within);
                found.extend(late.map(|told| {
                    let late = told - offer.at;
                    format!(
                        "{} hears {late:?} late of {}",
                        listener.host,
                        offer.event.involved.path()
                    )
                }));
            }
        }
        let found = found.into_iter();
        found
            .map(|text| Finding {
                oracle: "alerts arrive",
                at,
                text,
            })
            .collect()
    }
}

/// All texts in a value.
fn collect(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) => texts.push(text.to_string()),
        Value::Array(items) => items.iter().for_each(|item| collect(item, texts)),
        Value::Object(map) => map.values().for_each(|item| collect(item, texts)),
        _ => {}
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
