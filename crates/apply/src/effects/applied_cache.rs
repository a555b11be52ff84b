//! What was found as asked for, so that it need not be asked for again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use everflow_json::Value;
use everflow_runtime::Error as ClientError;
use sha2::{Digest as _, Sha256};

use crate::ObjectId;

/// What a watch tells of an object.
#[derive(Debug, Clone, PartialEq)]
pub enum LiveState {
    /// Nothing: it is not watched, or all there is has not been told yet.
    Unknown,
    /// It is not among those that are watched.
    Absent,
    /// It is there; this is its metadata, below `metadata`.
    Present(Value),
}

/// What one Kustomization has applied, by this process.
#[derive(Debug, Default)]
pub struct AppliedCache {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    known: BTreeMap<ObjectId, Known>,
    /// Objects that are being written: the watch may tell of it before the answer is here.
    writing: BTreeSet<ObjectId>,
    /// Objects whose health is waited for: any change of them matters.
    awaited: BTreeSet<ObjectId>,
    /// Objects that were healthy when they were looked at last.
    healthy: BTreeMap<ObjectId, Healthy>,
    /// How often each object was changed by others lately.
    corrections: BTreeMap<ObjectId, u32>,
    /// Until when a write that got no answer may still be done, on our clock.
    unanswered: BTreeMap<ObjectId, Duration>,
}

/// So long after a request was lost a server may still do it: it gives up what takes longer.
const MAY_LAND: Duration = Duration::from_secs(60);

/// So often an object that others keep changing is put right at once; then only at the next attempt.
const MAX_CORRECTIONS: u32 = 5;

#[derive(Debug, Clone, PartialEq)]
struct Known {
    desired: [u8; 32],
    uid: String,
    revision: String,
    /// Nothing but the metadata can have changed while this stays.
    generation: Option<i64>,
    metadata: [u8; 32],
}

/// When an object was found healthy.
#[derive(Debug, Clone, PartialEq)]
struct Healthy {
    uid: String,
    revision: String,
    /// By which rules.
    rules: [u8; 32],
}

/// What is known of an object before it is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recall {
    /// It was found as asked for, and nobody has touched it since.
    Unchanged,
    /// Nobody has touched it since we applied it, but something else is asked for now.
    Outdated,
    /// It has to be looked at.
    Nothing,
}

impl AppliedCache {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An object is about to be written.
    pub fn begin(&self, id: &ObjectId) {
        self.lock().writing.insert(id.clone());
    }

    /// A write of an object has failed. One that got no answer may still be done.
    pub fn failed(&self, id: &ObjectId, why: &ClientError, now: Duration) {
        self.forget(id);
        if why.is_unanswered() {
            let until = now + MAY_LAND;
            self.lock().unanswered.insert(id.clone(), until);
        }
    }

    /// For how long a write of an object that got no answer may still be done.
    pub(super) fn may_land_within(&self, id: &ObjectId, now: Duration) -> Option<Duration> {
        let mut inner = self.lock();
        inner.unanswered.retain(|_, until| *until > now);
        inner.unanswered.get(id).map(|until| *until - now)
    }

    /// From now on any change of these objects matters, and of no others.
    pub fn await_changes(&self, of: impl IntoIterator<Item = ObjectId>) {
        self.lock().awaited = of.into_iter().collect();
    }

    /// Remembers that a live object is what `desired` asks for.
    pub fn remember(&self, id: &ObjectId, desired: &Value, live: &Value) {
        let text = |field: &str| {
            live["metadata"][field]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        let known = Known {
            desired: digest(desired),
            uid: text("uid"),
            revision: text("resourceVersion"),
            generation: generation(live),
            metadata: metadata(live),
        };
        let mut inner = self.lock();
        inner.writing.remove(id);
        inner.known.insert(id.clone(), known);
    }

    /// What is remembered of an object, given what a watch tells of it.
    pub(super) fn recall(&self, id: &ObjectId, desired: &Value, seen: &LiveState) -> Recall {
        let LiveState::Present(live) = seen else {
            return Recall::Nothing;
        };
        let inner = self.lock();
        let Some(known) = inner.known.get(id) else {
            return Recall::Nothing;
        };
        let uid = live["metadata"]["uid"].as_str().unwrap_or_default();
        let revision = live["metadata"]["resourceVersion"].as_str();
        let same_version = revision == Some(&known.revision);
        let same_content = known.generation.is_some() && generation(live) == known.generation;
        let same = (same_version || same_content) && metadata(live) == known.metadata;
        if uid != known.uid || !same {
            return Recall::Nothing;
        }
        match digest(desired) == known.desired {
            true => Recall::Unchanged,
            false => Recall::Outdated,
        }
    }

    /// Remembers that a live object was found healthy by these rules.
    pub fn note_healthy(&self, id: &ObjectId, live: &Value, rules: [u8; 32]) {
        let text = |field: &str| {
            let text = live["metadata"][field].as_str();
            text.unwrap_or_default().to_owned()
        };
        let healthy = Healthy {
            uid: text("uid"),
            revision: text("resourceVersion"),
            rules,
        };
        self.lock().healthy.insert(id.clone(), healthy);
    }

    /// Whether an object was found healthy by these rules, and a watch says that nothing of it,
    /// its status included, has changed since. A watch that has not told of our own last write yet
    /// says nothing.
    pub fn is_still_healthy(&self, id: &ObjectId, seen: &LiveState, rules: [u8; 32]) -> bool {
        let LiveState::Present(live) = seen else {
            return false;
        };
        let inner = self.lock();
        let Some(healthy) = inner.healthy.get(id) else {
            return false;
        };
        if inner
            .known
            .get(id)
            .is_some_and(|known| known.is_after(live))
        {
            return false;
        }
        healthy.rules == rules
            && live["metadata"]["uid"] == healthy.uid.as_str()
            && live["metadata"]["resourceVersion"] == healthy.revision.as_str()
    }

    /// Whether a change that a watch tells of matters: it is not ours, and it touches more than
    /// the status; or the object is waited for. `None` says that the object is gone.
    ///
    /// Whoever keeps changing an object against us is not fought without end: after a few rounds
    /// that matters only at the next attempt.
    pub fn matters(&self, id: &ObjectId, live: Option<&Value>) -> bool {
        let mut inner = self.lock();
        let matters = inner.is_touched(id, live);
        if !matters || inner.awaited.contains(id) {
            return matters;
        }
        let corrections = inner.corrections.entry(id.clone()).or_default();
        *corrections += 1;
        *corrections <= MAX_CORRECTIONS
    }

    /// Whether somebody keeps changing an object against us, so that the next change of it may not matter.
    pub fn is_contended(&self) -> bool {
        self.lock()
            .corrections
            .values()
            .any(|corrections| *corrections >= MAX_CORRECTIONS)
    }

    /// Objects that others keep changing are put right at once again.
    pub fn reset_contention(&self) {
        self.lock().corrections.clear();
    }

    /// Whether what a watch tells of an object is from before our own last write of it.
    pub fn is_outdated(&self, id: &ObjectId, live: &Value) -> bool {
        let inner = self.lock();
        let known = inner.known.get(id);
        known.is_some_and(|known| known.is_after(live))
    }

    /// Whether anything is known of an object.
    pub fn knows(&self, id: &ObjectId) -> bool {
        self.lock().known.contains_key(id)
    }

    /// Forgets an object.
    pub fn forget(&self, id: &ObjectId) {
        let mut inner = self.lock();
        inner.writing.remove(id);
        inner.known.remove(id);
        inner.healthy.remove(id);
    }

    /// Versions from before may stand for something else now: all objects have to be looked at.
    pub fn invalidate(&self) {
        let mut inner = self.lock();
        inner.known.clear();
        inner.healthy.clear();
    }

    /// Forgets all objects. What may still happen to them is not forgotten.
    pub fn clear(&self) {
        let mut inner = self.lock();
        *inner = Inner {
            unanswered: std::mem::take(&mut inner.unanswered),
            ..Inner::default()
        };
    }
}

impl Inner {
    fn is_touched(&self, id: &ObjectId, live: Option<&Value>) -> bool {
        let inner = self;
        if inner.awaited.contains(id) {
            // The watch tells of our own write too.
            let known = inner.known.get(id).zip(live);
            return !known.is_some_and(|(known, live)| known.is_from(live));
        }
        if inner.writing.contains(id) {
            return false;
        }
        let (Some(known), Some(live)) = (inner.known.get(id), live) else {
            return inner.known.contains_key(id);
        };
        // A server that was restored from a backup may give another version the same number.
        let same_content = known.is_from(live)
            || (known.generation.is_some() && generation(live) == known.generation);
        let same = same_content && metadata(live) == known.metadata;
        let uid = live["metadata"]["uid"].as_str().unwrap_or_default();
        known.uid != uid || !(same || known.is_after(live))
    }
}

impl Known {
    fn versions(&self, live: &Value) -> (u64, u64) {
        let number = |text: &str| text.parse::<u64>().unwrap_or_default();
        let version = live["metadata"]["resourceVersion"].as_str();
        (number(&self.revision), number(version.unwrap_or_default()))
    }

    /// Whether this is the version that was remembered.
    fn is_from(&self, live: &Value) -> bool {
        let (known, live) = self.versions(live);
        known == live
    }

    /// Whether what was remembered is newer.
    fn is_after(&self, live: &Value) -> bool {
        let (known, live) = self.versions(live);
        known > live
    }
}

/// Kinds that count the changes of their content.
fn generation(live: &Value) -> Option<i64> {
    let generation = live["metadata"]["generation"].as_i64();
    generation.filter(|generation| *generation > 0)
}

fn metadata(live: &Value) -> [u8; 32] {
    let metadata = &live["metadata"];
    let mut text = Vec::with_capacity(512);
    for part in ["labels", "finalizers", "ownerReferences"] {
        write(&metadata[part], &mut text);
        text.push(b'\n');
    }
    for (key, value) in metadata["annotations"].as_object().into_iter().flatten() {
        // The Deployment controller counts in an annotation.
        if !key.starts_with("deployment.kubernetes.io/") {
            text.extend_from_slice(key.as_bytes());
            text.push(b'\n');
            write(value, &mut text);
            text.push(b'\n');
        }
    }
    Sha256::digest(text).into()
}

fn digest(desired: &Value) -> [u8; 32] {
    let mut text = Vec::with_capacity(1_024);
    write(desired, &mut text);
    Sha256::digest(text).into()
}

fn write(value: &Value, text: &mut Vec<u8>) {
    everflow_json::text::write(value, text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use everflow_json::json;

    fn live(version: u64) -> Value {
        json!({"metadata": {"uid": "u", "resourceVersion": version.to_string(), "generation": 1}})
    }

    fn deployment() -> ObjectId {
        ObjectId {
            namespace: "n".into(),
            name: "a".into(),
            group: "apps".into(),
            kind: "Deployment".into(),
        }
    }

    #[test]
    fn unanswered_write_may_take_effect_for_a_minute() {
        let (cache, id) = (AppliedCache::default(), deployment());
        let seconds = Duration::from_secs;
        let unanswered = ClientError::Timeout {
            what: "PATCH".into(),
            span: seconds(30),
        };
        let fenced = ClientError::Fenced { epoch: 1 };
        cache.failed(&id, &fenced, seconds(5));
        assert_eq!(cache.may_land_within(&id, seconds(5)), None);
        cache.failed(&id, &unanswered, seconds(10));
        assert_eq!(cache.may_land_within(&id, seconds(15)), Some(seconds(55)));
        // Whatever becomes of the object meanwhile.
        cache.forget(&id);
        cache.clear();
        assert_eq!(cache.may_land_within(&id, seconds(69)), Some(seconds(1)));
        assert_eq!(cache.may_land_within(&id, seconds(70)), None);
    }

    #[test]
    fn cache_misses_on_other_content_with_the_same_resource_version() {
        let (cache, id) = (AppliedCache::default(), deployment());
        let desired = json!({"a": 1});
        cache.remember(&id, &desired, &live(5));
        let recalled =
            |live: &Value| cache.recall(&id, &desired, &LiveState::Present(live.clone()));
        assert_eq!(recalled(&live(5)), Recall::Unchanged);
        assert!(!cache.matters(&id, Some(&live(5))));
        let mut other = live(5);
        other["metadata"]["annotations"] = json!({"user.example/note": "kept"});
        assert_eq!(recalled(&other), Recall::Nothing);
        assert!(cache.matters(&id, Some(&other)));
        cache.invalidate();
        assert_eq!(recalled(&live(5)), Recall::Nothing);
    }

    #[test]
    fn stale_watch_event_is_ignored_after_own_write() {
        let (cache, rules) = (AppliedCache::default(), [0; 32]);
        let id = deployment();
        let seen = |version| LiveState::Present(live(version));
        cache.remember(&id, &json!({"a": 1}), &live(5));
        cache.note_healthy(&id, &live(7), rules);
        assert!(cache.is_still_healthy(&id, &seen(7), rules));
        cache.remember(&id, &json!({"a": 2}), &live(9));
        assert!(!cache.is_still_healthy(&id, &seen(7), rules));
        assert!(cache.is_outdated(&id, &live(7)));
        assert!(!cache.is_outdated(&id, &live(9)));
        // While it is waited for, whatever is not our own write matters.
        cache.await_changes([id.clone()]);
        assert!(!cache.matters(&id, Some(&live(9))));
        assert!(cache.matters(&id, Some(&live(10))));
        assert!(cache.matters(&id, None));
    }

    #[test]
    fn drift_by_a_persistent_writer_is_corrected_a_few_times_then_reported() {
        let cache = AppliedCache::default();
        let id = ObjectId {
            namespace: "n".into(),
            name: "a".into(),
            group: String::new(),
            kind: "ConfigMap".into(),
        };
        cache.remember(&id, &json!({"a": 1}), &live(1));
        for _ in 0..MAX_CORRECTIONS {
            assert!(!cache.is_contended());
            assert!(cache.matters(&id, None));
        }
        assert!(cache.is_contended());
        assert!(!cache.matters(&id, None));
        cache.reset_contention();
        assert!(!cache.is_contended());
        assert!(cache.matters(&id, None));
    }
}
