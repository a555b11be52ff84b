//! Objects that are not as their release has them.
//!
//! Only fields of our own count: the server is asked what applying would change. What others change back again
//! and again is said once, noted beside the record of the release, and left alone for longer each time.

use std::time::Duration;

use everflow_api::Reason;
use everflow_api::condition;
use everflow_api::helm::{DriftDetectionMode, latest};
use everflow_api::inventory::ObjectId;
use everflow_api::names::condition::DRIFTED;
use everflow_api::names::{annotation, manager};
use everflow_apply::drift::Ignore;
use everflow_apply::effects::run_concurrently;
use everflow_apply::takeover::handed_over;
use everflow_env::BoxFuture;
use everflow_json::{Map, Value};
use everflow_release::action::{ActionKind, Expected};
use everflow_release::decide::{Then, drift_mode};
use everflow_release::manifest::own;
use everflow_release::record::Contested;
use everflow_release::record::mark::CONTESTED;
use everflow_release::status::{self, Changed, Drift};
use everflow_runtime::Error as ClientError;
use everflow_runtime::client::{At, Patch, Resource, WriteOptions};
use everflow_runtime::events::{Event, Severity};

use super::attempt::{Attempt, Halt};
use super::rounds::Work;
use super::steps::{place, refusal};
use crate::stop::Stop;

/// So often an object is put right; when others change it more often within a span it is contested.
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
        let (contested, now) = (&last.place.contested, self.now());
        let mut drifts = Drifts::default();
        for (object, changed) in objects.into_iter().zip(compared) {
            let id = ObjectId::of(&object);
            if let Some(changed) = changed?
                && !contested.is_left_alone(&id, now)
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
        let live = match self.hand_over(work, &resource, at, live).await? {
            Some(live) => live,
            None => return Ok(None),
        };
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

    /// Takes the fields over that managers of `--override-manager` have, so that those which the release does not
    /// have count as drift. None when the server does not let us.
    async fn hand_over(
        &self,
        work: &Work,
        resource: &Resource,
        at: At<'_>,
        live: Value,
    ) -> Result<Option<Value>, Halt> {
        let names = &self.options().kustomize.override_managers;
        let is_telling = drift_mode(&self.object) == DriftDetectionMode::Warn;
        let Some(patch) = handed_over(manager::HELM, names, &live).filter(|_| !is_telling) else {
            return Ok(Some(live));
        };
        let by = WriteOptions::by(manager::HELM);
        let client = &work.target.client;
        match client.patch(resource, at, &Patch::Json(patch), &by).await {
            Ok(live) => Ok(Some(live)),
            Err(error) => {
                refusal(error)?;
                Ok(None)
            }
        }
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
        let last = work.records.storage.last().ok().flatten();
        let known = last
            .map(|last| last.place.contested.clone())
            .unwrap_or_default();
        let mut contested = Vec::new();
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
                    if self.is_contested(&drift.id, &drift.changed, &known) {
                        contested.push(drift.id.clone());
                    }
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
        if !contested.is_empty() {
            self.note_contested(work, &contested).await?;
        }
        if errors.is_empty() {
            work.drifts = Some(Drifts::default());
            return Ok(Then::GoOn);
        }
        Ok(Then::BackOff)
    }

    /// Counts a correction. Who is put right often enough within a span is contested, and so is at once who was before.
    fn is_contested(&self, id: &ObjectId, changed: &Changed, known: &Contested) -> bool {
        if *changed == Changed::Removed {
            return false;
        }
        let now = self.context.env.clock.elapsed();
        let mut moments = self.controller.moments();
        let moment = moments.entry(self.context.key.clone()).or_default();
        let round = moment.rounds.entry(id.clone()).or_insert((0, now));
        if now.saturating_sub(round.1) > ROUNDS.1 {
            round.0 = 0;
        }
        *round = (round.0 + 1, now);
        let is_contested = round.0 >= ROUNDS.0 || known.knows(id);
        if is_contested {
            moment.rounds.remove(id);
        }
        is_contested
    }

    /// Notes beside the record which objects are left alone from now on, and tells of each once.
    async fn note_contested(&mut self, work: &mut Work, found: &[ObjectId]) -> Result<(), Halt> {
        let now = self.now();
        let last = work.records.storage.last().ok().flatten();
        let Some(place) = last.map(|last| last.place.clone()) else {
            return Ok(());
        };
        let mut contested = place.contested;
        for id in found {
            let is_known = contested.knows(id);
            let span = contested.note(id, now);
            if !is_known {
                self.tell_contested(id, span);
            }
        }
        let secret = place.secret.split_once('/').map_or("", |(_, name)| name);
        let (text, expected) = (
            contested.to_text(),
            Expected::Version(place.resource_version),
        );
        self.annotate_record(work, secret, (CONTESTED, &text), &expected)
            .await?;
        Ok(())
    }

    fn tell_contested(&mut self, id: &ObjectId, span: Duration) {
        let release = latest(&self.object.status.history).map(|last| last.full_name());
        let message = format!(
            "{} of release {} is changed again and again after it was corrected: it is left alone for {}, and for \
             longer when that goes on; take the fields out of the chart or ignore them in spec.driftDetection.ignore",
            id.subject(),
            release.unwrap_or_default(),
            everflow_time::Duration::from(span),
        );
        let reason = Reason::DriftCorrectionFailed.as_str();
        self.events
            .push(Event::new(Severity::Error, reason, message));
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
