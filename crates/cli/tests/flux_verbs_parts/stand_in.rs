//! Stands in for the controllers while calls are replayed: requests are heeded at once, and of what a call
//! created comes what the recording says.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everflow_json::{Value, json};
use everflow_runtime::client::{At, Client, Patch, Resource, Selection, WriteOptions};

/// What becomes of an object while a call waits for it.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It becomes ready, at this revision.
    Ready(String),
    /// It gives up.
    Stalled(String),
    /// Nothing happens in time.
    Nothing,
}

/// Kind and name of the object that a call waits for, and what becomes of it.
#[derive(Debug, Default)]
pub struct Script(Mutex<Option<(String, String, Outcome)>>);

impl Script {
    /// Takes from the recording what becomes of the object of a call.
    pub fn begin(&self, call: &Value) {
        *self.0.lock().unwrap() = expected(call);
    }

    fn of(&self, object: &Value) -> Option<Outcome> {
        let current = self.0.lock().unwrap();
        let (kind, name, outcome) = current.as_ref()?;
        let fits = object["kind"] == kind.as_str() && object["metadata"]["name"] == name.as_str();
        fits.then(|| outcome.clone())
    }
}

fn expected(call: &Value) -> Option<(String, String, Outcome)> {
    let words: Vec<&str> = call["argv"].as_array()?[1..]
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let stderr = call["stderr"].as_str().unwrap_or_default();
    // Of several the last is the object itself.
    let waited = stderr
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("◎ waiting for "));
    let waited = waited?.split(' ').next()?.to_owned();
    let (verb, kind) = (*words.first()?, *words.get(1)?);
    if !["create", "resume", "reconcile"].contains(&verb) {
        return None;
    }
    let names = match kind {
        "source" => &words[3..],
        _ => &words[2..],
    };
    let name = (*names.first()?).to_owned();
    let last = stderr
        .lines()
        .rev()
        .find(|line| line.starts_with(['✔', '✗']))?;
    let last = stderr
        .lines()
        .find_map(|line| line.split_once(" reconciliation failed: "))
        .map_or(last, |(_, why)| why);
    let text = last.trim_start_matches(['✔', '✗', ' ']);
    if last.starts_with('✔') {
        let revision = text.rsplit(' ').next()?.to_owned();
        return Some((waited, name, Outcome::Ready(revision)));
    }
    let outcome = match text.contains("context deadline exceeded") || text.contains("rate limiter")
    {
        true => Outcome::Nothing,
        false => Outcome::Stalled(text.to_owned()),
    };
    Some((waited, name, outcome))
}

const SEEN: &str = "2026-11-15T00:00:00Z";

fn condition(kind: &str, status: &str, message: &str, generation: &Value) -> Value {
    json!({"type": kind, "status": status, "reason": "Recorded", "message": message,
        "lastTransitionTime": SEEN, "observedGeneration": generation})
}

/// The status by which an object comes to what was recorded.
fn status(object: &Value, outcome: &Outcome) -> Option<Value> {
    let generation = &object["metadata"]["generation"];
    let mut status = json!({"observedGeneration": generation});
    match outcome {
        Outcome::Nothing => return None,
        Outcome::Stalled(why) => {
            status["conditions"] = json!([
                condition("Stalled", "True", why, generation),
                condition("Ready", "False", why, generation),
            ]);
        }
        Outcome::Ready(revision) => {
            status["conditions"] = json!([condition("Ready", "True", "ready", generation)]);
            match object["kind"].as_str()? {
                "Kustomization" => status["lastAppliedRevision"] = json!(revision),
                "HelmRelease" => status["lastAttemptedRevision"] = json!(revision),
                _ => {
                    status["artifact"] = json!({"revision": revision, "path": "a/b.tar.gz",
                        "url": "http://artifacts/a/b.tar.gz", "lastUpdateTime": SEEN,
                        "digest": format!("sha256:{}", "0".repeat(64))});
                }
            }
        }
    }
    Some(status)
}

/// Works until it is over.
pub async fn work(
    client: Client,
    resources: Vec<Resource>,
    script: Arc<Script>,
    over: Arc<AtomicBool>,
) {
    let by = WriteOptions::by("controller");
    while !over.load(Ordering::SeqCst) {
        for resource in &resources {
            let all = client.list_all(resource, None, &Selection::default()).await;
            for object in all.map(|list| list.items).unwrap_or_default() {
                let Some(status) = next_status(&object, &script) else {
                    continue;
                };
                let patch = Patch::Merge(json!({"status": status}));
                let at = At::of(&object).status();
                let _ = client.patch(resource, at, &patch, &by).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn next_status(object: &Value, script: &Script) -> Option<Value> {
    let requested = &object["metadata"]["annotations"]["reconcile.fluxcd.io/requestedAt"];
    let generation = &object["metadata"]["generation"];
    let old = &object["status"];
    if object["spec"]["suspend"] == true {
        return None;
    }
    let outcome = script.of(object);
    let is_new = old["conditions"].as_array().is_none_or(Vec::is_empty);
    let is_behind = old["observedGeneration"] != *generation;
    let gives_up = matches!(outcome, Some(Outcome::Stalled(_)));
    if let Some(outcome) = &outcome
        && (is_new || gives_up || (is_behind && *outcome == Outcome::Nothing))
    {
        let mut status = status(object, outcome)?;
        status["lastHandledReconcileAt"] = requested.clone();
        return (!is_same(old, &status)).then_some(status);
    }
    let is_heeded = *requested == old["lastHandledReconcileAt"];
    let is_seen = is_new || !is_behind;
    (!is_heeded || !is_seen).then(|| {
        json!({
            "lastHandledReconcileAt": requested,
            "observedGeneration": generation,
        })
    })
}

fn is_same(old: &Value, status: &Value) -> bool {
    let fields = status.as_object().unwrap();
    fields
        .iter()
        .all(|(field, value)| old[field.as_str()] == *value)
}
