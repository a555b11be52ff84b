//! Objects that are not as their release has them.
//!
//! Only fields of our own count: the server is asked what applying would change. What others change back again
//! and again is said once and then left alone.

use std::collections::BTreeSet;
use std::time::Duration;

use everflow_api::Reason;
use everflow_api::condition;
use everflow_api::helm::latest;
use everflow_api::inventory::ObjectId;
use everflow_api::names::annotation;
use everflow_api::names::condition::DRIFTED;
use everflow_apply::drift::Ignore;
use everflow_apply::effects::run_concurrently;
use everflow_env::BoxFuture;
use everflow_json::{Map, Value};
use everflow_release::action::ActionKind;
use everflow_release::decide::Then;
use everflow_release::manifest::own;
use everflow_release::status::{self, Changed, Drift};
use everflow_runtime::Error as ClientError;
use everflow_runtime::client::Patch;
use everflow_runtime::events::{Event, Severity};

use super::attempt::{Attempt, Halt};
use super::rounds::Work;
use super::steps::{place, refusal};
use crate::stop::Stop;

/// So often an object is put right; who changes it more often within a span has his way.
const ROUNDS: (u32, Duration) = (3, Duration::from_secs(600));

/// What differs.
#[derive(Debug, Default)]
pub(super) struct Drifts {
    found: Vec<(Drift, Value)>,
}

impl Drifts {
    pub(super) fn is_any(&self) -> bool {
        !self.found.is_empty()
    }

    fn list(&self) -> Vec<Drift> {
        self.found.iter().map(|(drift, _)| drift.clone()).collect()
    }
}

impl Attempt<'_> {
    /// Compares the objects of the release with how they are.
    pub(super) async fn find_drifts(&self, work: &Work) -> Result<Drifts, Halt> {
        let last = work.records.storage.last().ok().flatten();
        let Some(last) = last else {
            return Ok(Drifts::default());
        };
        let release = (last.summary.name.clone(), last.summary.namespace.clone());
        let mut objects = self.objects_of(work, last.summary.version).await?;
        for object in &mut objects {
            own(object, &release.0, &release.1);
        }
        let detection = self.object.spec.drift_detection.as_ref();
        let rules = detection.map(|detection| detection.ignore.as_slice());
        let ignore = Ignore::read_with_whole(rules.unwrap_or_default())
            .map_err(|error| Stop::failed(Reason::ReconcileError, error.to_string()))?;
        let mut tasks: Vec<BoxFuture<'_, Result<Option<Changed>, Halt>>> = Vec::new();
        for object in &objects {
            tasks.push(Box::pin(self.compare(work, object, &ignore)));
        }
        let compared = run_concurrently(tasks).await;
        let contested = self.contested();
        let mut drifts = Drifts::default();
        for (object, changed) in objects.into_iter().zip(compared) {
            let id = ObjectId::of(&object);
            if let Some(changed) = changed?
                && !contested.contains(&id)
            {
                drifts.found.push((Drift { id, changed }, object));
            }
        }
        Ok(drifts)
    }

    async fn compare(
        &self,
        work: &Work,
        object: &Value,
        ignore: &Ignore,
    ) -> Result<Option<Changed>, Halt> {
        if is_exempt(object) || ignore.covers(object) {
            return Ok(None);
        }
        let (resource, at) = match place(work, object).await? {
            Ok(place) => place,
            Err(_) => return Ok(None),
        };
        let client = &work.target.client;
        let live = match client.get(&resource, at).await {
            Ok(live) => live,
            Err(ClientError::NotFound(_)) => return Ok(Some(Changed::Removed)),
            Err(error) => {
                refusal(error)?;
                return Ok(None);
            }
        };
        if is_exempt(&live) {
            return Ok(None);
        }
        let options = self.apply_options(ActionKind::Rollback).force().dry_run();
        let patch = Patch::Apply(object.clone());
        let mut wanted = match client.patch(&resource, at, &patch, &options).await {
            Ok(wanted) => wanted,
            Err(error) => {
                refusal(error)?;
                return Ok(None);
            }
        };
        let mut live_part = live.clone();
        for path in ignore.paths(object) {
            everflow_apply::drift::remove(&mut live_part, path);
            everflow_apply::drift::remove(&mut wanted, path);
        }
        let mut count = Count::default();
        count.compare(&content(&live_part), &content(&wanted));
        if count == Count::default() {
            let memory = self.memory(&work.target);
            memory.remember(&ObjectId::of(object), object, &live);
            return Ok(None);
        }
        Ok(Some(Changed::Fields {
            additions: count.additions,
            changes: count.changes,
            removals: count.removals,
        }))
    }

    /// Tells of what differs.
    pub(super) fn tell_drift(&mut self, work: &Work, is_corrected: bool) {
        let Some(drifts) = &work.drifts else {
            return;
        };
        let said = condition::find(&self.before.conditions, DRIFTED);
        let said = said.map(|said| (said.status, said.message.clone()));
        let moment = self.now();
        let list = drifts.list();
        let notice = status::mark_drift(&mut self.object, &list, is_corrected, moment);
        let now = condition::find(&self.object.status.conditions, DRIFTED);
        let is_news = now.map(|now| (now.status, now.message.clone())) != said;
        if is_news || is_corrected {
            self.tell_all(notice.into_iter().collect());
        }
    }

    /// Puts right what differs.
    pub(super) async fn correct_drift(&mut self, work: &mut Work) -> Result<Then, Halt> {
        self.tell_drift(work, true);
        let drifts = work.drifts.take().unwrap_or_default();
        let mut corrected = Vec::new();
        let mut errors = Vec::new();
        let memory = self.memory(&work.target);
        for (drift, object) in &drifts.found {
            let (resource, at) = match place(work, object).await? {
                Ok(place) => place,
                Err(why) => {
                    errors.push(format!("{}: {why}", drift.id.subject()));
                    continue;
                }
            };
            memory.begin(&drift.id);
            let options = self.apply_options(ActionKind::Rollback).force();
            let patch = Patch::Apply(object.clone());
            match work
                .target
                .client
                .patch(&resource, at, &patch, &options)
                .await
            {
                Ok(live) => {
                    memory.remember(&drift.id, object, &live);
                    let word = match drift.changed {
                        Changed::Removed => "created",
                        Changed::Fields { .. } => "configured",
                    };
                    corrected.push((drift.id.clone(), word));
                    self.note_round(&drift.id, &drift.changed);
                }
                Err(error) => {
                    memory.forget(&drift.id);
                    let why = refusal(error)?;
                    errors.push(format!("{}: {why}", drift.id.subject()));
                }
            }
        }
        let notice = status::note_correction(&self.object, &corrected, &errors);
        self.tell_all(notice.into_iter().collect());
        if errors.is_empty() {
            work.drifts = Some(Drifts::default());
            return Ok(Then::GoOn);
        }
        Ok(Then::BackOff)
    }

    /// Counts a correction; an object that was put right often enough is told of once, and left alone from then on.
    fn note_round(&mut self, id: &ObjectId, changed: &Changed) {
        if *changed == Changed::Removed {
            return;
        }
        let now = self.context.env.clock.elapsed();
        let mut moments = self.controller.moments();
        let moment = moments.entry(self.context.key.clone()).or_default();
        let round = moment.rounds.entry(id.clone()).or_insert((0, now));
        if now.saturating_sub(round.1) > ROUNDS.1 {
            round.0 = 0;
        }
        *round = (round.0 + 1, now);
        let is_last = round.0 == ROUNDS.0;
        drop(moments);
        if !is_last {
            return;
        }
        let release = latest(&self.object.status.history).map(|last| last.full_name());
        let message = format!(
            "{} of release {} is changed again and again after it was corrected {} times: it is left alone for {}s; \
             take the fields out of the chart or ignore them in spec.driftDetection.ignore",
            id.subject(),
            release.unwrap_or_default(),
            ROUNDS.0,
            ROUNDS.1.as_secs()
        );
        let reason = Reason::DriftCorrectionFailed.as_str();
        self.events
            .push(Event::new(Severity::Error, reason, message));
    }

    /// Objects that others have a hand in.
    fn contested(&self) -> BTreeSet<ObjectId> {
        let now = self.context.env.clock.elapsed();
        let moments = self.controller.moments();
        let rounds = moments.get(&self.context.key).into_iter();
        let rounds = rounds.flat_map(|moment| &moment.rounds);
        let is_contested = |(count, last): &(u32, Duration)| {
            *count >= ROUNDS.0 && now.saturating_sub(*last) <= ROUNDS.1
        };
        rounds
            .filter(|(_, round)| is_contested(round))
            .map(|(id, _)| id.clone())
            .collect()
    }
}

/// Whether an object asks to be left out.
fn is_exempt(object: &Value) -> bool {
    let is_off = |place: &str| {
        let value = object["metadata"][place][annotation::DRIFT_DETECTION].as_str();
        value.is_some_and(|value| value.eq_ignore_ascii_case(annotation::DISABLED))
    };
    is_off("annotations") || is_off("labels")
}

/// What of an object counts.
fn content(object: &Value) -> Value {
    let mut content = object.as_object().cloned().unwrap_or_default();
    content.remove("status");
    let mut metadata = Map::new();
    for field in ["labels", "annotations"] {
        if let Some(entries) = object["metadata"].get(field) {
            metadata.insert(field.into(), entries.clone());
        }
    }
    content.insert("metadata".into(), Value::Object(metadata));
    Value::Object(content)
}

/// How many fields are added, changed and removed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Count {
    additions: usize,
    changes: usize,
    removals: usize,
}

impl Count {
    fn compare(&mut self, live: &Value, wanted: &Value) {
        match (live, wanted) {
            (Value::Object(live), Value::Object(wanted)) => {
                for (key, value) in wanted {
                    match live.get(key) {
                        Some(found) => self.compare(found, value),
                        None => self.additions += 1,
                    }
                }
                let gone = live.keys().filter(|key| wanted.get(key).is_none());
                self.removals += gone.count();
            }
            (Value::Array(live), Value::Array(wanted)) => {
                for (live, wanted) in live.iter().zip(wanted) {
                    self.compare(live, wanted);
                }
                self.additions += wanted.len().saturating_sub(live.len());
                self.removals += live.len().saturating_sub(wanted.len());
            }
            _ if live == wanted => {}
            _ => self.changes += 1,
        }
    }
}
