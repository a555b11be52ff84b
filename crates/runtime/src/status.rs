//! One attempt, one write of the status.
//!
//! The whole status goes in one JSON patch to the status subresource, without a precondition on
//! the `resourceVersion`: progress never depends on winning a race. Two tests guard it: the unique
//! id, so that a namesake created meanwhile is left alone, and the status as it was last seen: a
//! request that its client has given up, and that the server carries out late, must not undo what
//! was written since, and conditions of others which the store has not heard of yet must not be
//! lost. When that test fails the object is read from the server and the write made again on top of
//! it; after a few rounds the conditions are left out of the test, and after a few more all of it.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use everflow_env::{Env, Place};
use everflow_json::{Text, Value, json};

use crate::client::{At, Client, Patch, Resource, WriteOptions, meta_text, revision};
use crate::error::{Error, Refusal};

/// So often the conditions of others are looked after; then ours are written whatever theirs are.
const POLITE_ROUNDS: u32 = 3;
/// So often the rest of the status is looked after; then it is written whatever it is by now.
const CAREFUL_ROUNDS: u32 = 6;
/// The first pause after a failure.
const MIN_PAUSE: Duration = Duration::from_millis(200);
/// The longest pause after failures.
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// What became of a write.
#[derive(Debug, Clone, PartialEq)]
pub enum Written {
    /// Nothing changed, so nothing was written.
    Unchanged,
    /// It is stored; this is the object now.
    Stored(Value),
    /// The object is gone, or another one has its name.
    Gone,
    /// There is no point in it any more: it comes from what is not so.
    GivenUp,
    /// The server has an older version than was known: it was restored from a backup.
    Rewound,
}

/// Writes statuses of one kind.
#[derive(Debug, Clone)]
pub struct StatusWriter<'a> {
    /// The world.
    pub env: &'a Env,
    /// The client.
    pub client: &'a Client,
    /// The kind.
    pub resource: &'a Resource,
    /// Whose fields they become.
    pub field_manager: &'a str,
    /// The types of conditions that are ours. Others are left as they are.
    pub owned: &'a [&'a str],
    /// After so long of failures it is given up for this attempt.
    pub patience: Duration,
}

impl StatusWriter<'_> {
    /// Makes `status` the status of an object last seen as `known`. Failures that may pass are
    /// retried while there is patience and `pointless` does not say otherwise.
    pub async fn write(
        &self,
        known: &Value,
        status: &Value,
        pointless: impl Fn() -> bool,
    ) -> Result<Written, Error> {
        self.write_unless(known, status, pointless, |_| false).await
    }

    /// Stores the facts of a status before an effect that relies on them: the inventory. When a write
    /// whose answer was lost has stored them, conditions that somebody changed since are left to the
    /// write that ends the attempt.
    pub async fn write_facts(
        &self,
        known: &Value,
        status: &Value,
        pointless: impl Fn() -> bool,
    ) -> Result<Written, Error> {
        let is_stored = |live: &Value| {
            let stored = live.pointer("/status/inventory");
            stored.is_some() && stored == status.get("inventory")
        };
        self.write_unless(known, status, pointless, is_stored).await
    }

    /// Writes a status until it is stored, or until what is on the server is `enough` after a failure.
    async fn write_unless(
        &self,
        known: &Value,
        status: &Value,
        pointless: impl Fn() -> bool,
        enough: impl Fn(&Value) -> bool,
    ) -> Result<Written, Error> {
        let started = self.env.clock.elapsed();
        let uid = meta_text(known, "uid").to_owned();
        let mut base = Cow::Borrowed(known);
        let (mut rounds, mut failures) = (0, 0);
        loop {
            let mut desired = with_foreign_conditions(status, base.get("status"), self.owned);
            keep_times(&mut desired, base.get("status"));
            if base.get("status") == Some(&desired) {
                // An answer was lost, and the write was not: this is news to those who ask.
                return Ok(match rounds {
                    0 => Written::Unchanged,
                    _ => Written::Stored(base.into_owned()),
                });
            }
            if pointless() {
                return Ok(Written::GivenUp);
            }
            let at = At::of(&base).status();
            let options = WriteOptions::by(self.field_manager).without_managed_fields();
            let patch = patch(&uid, &base, desired, rounds);
            let result = self.client.patch(self.resource, at, &patch, &options).await;
            let error = match result {
                Ok(object) => return Ok(Written::Stored(object)),
                Err(error) => error,
            };
            let patient = self.env.clock.elapsed() - started < self.patience;
            match error {
                Error::NotFound(_) => return Ok(Written::Gone),
                Error::Invalid(refusal) => match self.read_live(&base, &uid).await {
                    Ok(None) => return Ok(Written::Gone),
                    Ok(Some(live)) if revision(&live) < revision(known) => {
                        return Ok(Written::Rewound);
                    }
                    Ok(Some(live)) if forgets(&live, known, status) => {
                        return Ok(Written::GivenUp);
                    }
                    Ok(Some(live)) if enough(&live) => return Ok(Written::Stored(live)),
                    Ok(Some(live)) if live.get("status") == base.get("status") => {
                        // Nobody touched it: it is the new status that is wrong, or a server that finds other what is
                        // the same to us. Such a test is left out.
                        if rounds >= CAREFUL_ROUNDS || !is_failed_test(&refusal) {
                            return Err(Error::Invalid(refusal));
                        }
                        rounds = CAREFUL_ROUNDS;
                    }
                    Ok(Some(live)) => {
                        base = Cow::Owned(live);
                        rounds += 1;
                    }
                    Err(error) if error.is_transient() && patient => {
                        self.pause(&mut failures, &error).await;
                    }
                    Err(error) => return Err(error),
                },
                error @ Error::Conflict(_) if patient => self.pause(&mut failures, &error).await,
                error if error.is_transient() && patient => {
                    self.pause(&mut failures, &error).await;
                }
                error => return Err(error),
            }
        }
    }

    /// The object as it is on the server; `None` when it is gone.
    async fn read_live(&self, base: &Value, uid: &str) -> Result<Option<Value>, Error> {
        match self.client.get(self.resource, At::of(base)).await {
            Ok(live) if meta_text(&live, "uid") == uid => Ok(Some(live)),
            Ok(_) | Err(Error::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn pause(&self, failures: &mut u32, error: &Error) {
        let doubled = MIN_PAUSE.saturating_mul(1 << (*failures).min(16));
        *failures += 1;
        let pause = doubled
            .min(MAX_PAUSE)
            .mul_f64(0.5 + 0.5 * self.env.random.unit());
        let mut longest = MAX_PAUSE;
        self.env.planted(Place::RetryAfterLimit, &mut longest);
        let asked = error.retry_after().unwrap_or_default().min(longest);
        self.env.clock.sleep(pause.max(asked)).await;
    }
}

/// The whole status in place of the one that was last seen; in later rounds whatever has become of that.
fn patch(uid: &str, base: &Value, desired: Value, rounds: u32) -> Patch {
    let test = |path: &str, value: &Value| json!({"op": "test", "path": path, "value": value});
    let mut operations = vec![test("/metadata/uid", &uid.into())];
    match base.get("status") {
        _ if rounds >= CAREFUL_ROUNDS => {}
        Some(Value::Object(status)) if rounds >= POLITE_ROUNDS => {
            for (field, value) in status.iter().filter(|(field, _)| *field != "conditions") {
                operations.push(test(&format!("/status/{}", pointer(field)), value));
            }
        }
        status => operations.push(test("/status", status.unwrap_or(&Value::Null))),
    }
    operations.push(json!({"op": "add", "path": "/status", "value": desired}));
    Patch::Json(operations.into())
}

/// Whether a refusal is what a test of a patch that fails comes to: it says nothing of a field.
fn is_failed_test(refusal: &Refusal) -> bool {
    let causes = refusal.details["causes"].as_array();
    causes.is_none_or(|causes| causes.is_empty())
}

/// A field in a JSON pointer.
fn pointer(field: &str) -> String {
    field.replace('~', "~0").replace('/', "~1")
}

/// Whether a status would take entries out of an inventory that who made it has never seen: the objects would belong
/// to nobody.
pub(crate) fn forgets(live: &Value, known: &Value, status: &Value) -> bool {
    fn entries(status: Option<&Value>) -> BTreeSet<&str> {
        let entries = status.and_then(|status| status.pointer("/inventory/entries"));
        let entries = entries.and_then(Value::as_array).into_iter().flatten();
        entries.filter_map(|entry| entry["id"].as_str()).collect()
    }
    let there = entries(live.get("status"));
    if there.is_empty() {
        return false;
    }
    let (seen, kept) = (entries(known.get("status")), entries(Some(status)));
    there
        .iter()
        .any(|id| !seen.contains(id) && !kept.contains(id))
}

/// A condition that says what it said before has not changed, whatever it was in between: its time stays.
fn keep_times(status: &mut Value, current: Option<&Value>) {
    const TIME: &str = "lastTransitionTime";
    let before = current.and_then(|current| current["conditions"].as_array());
    let Some(before) = before else {
        return;
    };
    let now = status.get_mut("conditions").and_then(Value::as_array_mut);
    for condition in now.into_iter().flatten() {
        let of_type = |known: &&Value| known["type"] == condition["type"];
        let Some(known) = before.iter().find(of_type) else {
            continue;
        };
        let time = known.get(TIME).cloned().unwrap_or_default();
        let kept = std::mem::replace(&mut condition[TIME], time);
        if condition != known {
            condition[TIME] = kept;
        }
    }
}

/// A status with the conditions of others from `current` added, in Flux's order.
pub fn with_foreign_conditions(status: &Value, current: Option<&Value>, owned: &[&str]) -> Value {
    let mut merged = status.clone();
    let kind_of = |condition: &Value| condition["type"].as_text().cloned().unwrap_or_default();
    let ours = status["conditions"].as_array();
    let present = current.and_then(|current| current["conditions"].as_array());
    let foreign: Vec<Value> = present
        .into_iter()
        .flatten()
        .filter(|condition| {
            let kind = kind_of(condition);
            let mut ours = ours.into_iter().flatten();
            !owned.contains(&kind.as_str()) && !ours.any(|own| kind_of(own) == kind)
        })
        .cloned()
        .collect();
    if foreign.is_empty() {
        return merged;
    }
    let mut all = ours.cloned().unwrap_or_default();
    all.extend(foreign);
    all.sort_by_cached_key(|condition| {
        let kind = kind_of(condition);
        let first = ["Stalled", "Reconciling", "Ready"];
        match first.iter().position(|name| *name == kind) {
            Some(place) => (place, Reverse(0), Text::default()),
            None => {
                let generation = condition["observedGeneration"].as_i64().unwrap_or_default();
                (first.len(), Reverse(generation), kind)
            }
        }
    });
    merged["conditions"] = all.into();
    merged
}
