//! From changes in the stores to attempts.

use std::sync::Arc;
use std::time::Duration;

use everflow_env::Place;
use smol_str::SmolStr;

use super::Shared;
use crate::attempt::Controller;
use crate::queue::{Key, Priority};
use crate::store::{CachedObject, Change};

/// After a status was changed by someone else, how long until it is looked at.
const FOREIGN_STATUS: Duration = Duration::from_secs(10);

/// Takes in the changes of a kind, for ever.
pub(super) async fn feed(shared: Arc<Shared>, kind: SmolStr) {
    let Some(store) = shared.stores.get(&kind) else {
        return;
    };
    let mut changes = store.subscribe();
    while let Some(change) = changes.recv().await {
        take(&shared, &kind, &change);
    }
}

fn take(shared: &Shared, kind: &SmolStr, change: &Change) {
    let key = Key::new(kind.clone(), change.name.0.clone(), change.name.1.clone());
    if let Some(controller) = shared.kinds.get(kind) {
        own(shared, &**controller, &key, change);
    }
    let matters = shared.matters.get(kind);
    let resource = shared.resources.get(kind);
    if let Some(resource) = resource.filter(|_| matters.is_none_or(|matters| matters(change))) {
        let event = resource.wake_on(&key.namespace, &key.name);
        let waiting = shared.lock().waits.changed(&event);
        for waiter in waiting {
            shared.enqueue(&waiter, Priority::Dependency);
        }
    }
}

/// A change of an object that a controller here owns.
fn own(shared: &Shared, controller: &dyn Controller, key: &Key, change: &Change) {
    let Some(new) = &change.new else {
        shared.lock().quarantine.forget(key);
        drop_key(shared, key);
        return;
    };
    if !shared.lock().works_on(key) {
        return;
    }
    let old = change.old.as_ref();
    let priority = match old {
        None => first_priority(new),
        Some(old) => changed_priority(old, new),
    };
    let Some(priority) = priority else {
        let ours = shared.lock().own_writes.get(key).copied();
        if ours != Some(new.revision) && old.is_some_and(|old| !old.has_status_of(new)) {
            let soon = shared.now() + FOREIGN_STATUS;
            shared.lock().queue.no_later_than(key, soon);
            shared.turn.notify_one();
        }
        return;
    };
    shared.enqueue(key, priority);
    let host = controller.host(&new.value()).map(SmolStr::from);
    shared.lock().queue.set_host(key, host);
}

/// Ends all that is done here for an object.
pub(super) fn drop_key(shared: &Shared, key: &Key) {
    let mut state = shared.lock();
    state.queue.remove(key);
    state.waits.forget(key);
    state.own_writes.remove(key);
    state.taken_over.remove(key);
    if let Some(signal) = state.running.get(key) {
        signal.raise();
    }
    drop(state);
    shared.watches.release(key, &[]);
    let (kind, namespace, name) = (&*key.kind, &*key.namespace, &*key.name);
    shared.metrics.forget_object(kind, namespace, name);
}

/// Begins to work on an object that was there before.
pub(super) fn take_up(shared: &Shared, key: &Key, object: &CachedObject) {
    let Some(controller) = shared.kinds.get(&key.kind) else {
        return;
    };
    let mut priority = first_priority(object);
    shared.env.planted(Place::TakenUp, &mut priority);
    if let Some(priority) = priority {
        shared.enqueue(key, priority);
        let host = controller.host(&object.value()).map(SmolStr::from);
        shared.lock().queue.set_host(key, host);
    }
}

/// An object that is new to us. After a restart most have been dealt with before, and what has
/// not goes first.
fn first_priority(new: &CachedObject) -> Option<Priority> {
    let status = new.status();
    let observed = status["observedGeneration"].as_i64();
    let handled = status["lastHandledReconcileAt"].as_str();
    if new.requested_at.as_deref() != handled && new.requested_at.is_some() {
        return Some(Priority::Request);
    }
    Some(match observed == Some(new.generation) && !new.deleting {
        true => Priority::Interval,
        false => Priority::Spec,
    })
}

fn changed_priority(old: &CachedObject, new: &CachedObject) -> Option<Priority> {
    if old.uid != new.uid {
        return first_priority(new);
    }
    if new.requested_at.is_some() && old.requested_at != new.requested_at {
        return Some(Priority::Request);
    }
    let changed = old.generation != new.generation || old.deleting != new.deleting;
    changed.then_some(Priority::Spec)
}
