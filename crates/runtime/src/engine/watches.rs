//! Watches that come and go: objects that attempts depend on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use everflow_env::Env;
use tokio::task::AbortHandle;

use super::{ChangePredicate, Shared};
use crate::client::Client;
use crate::error::Error;
use crate::log::Logger;
use crate::queue::{Key, Priority};
use crate::reflector::{Reflector, Watched};
use crate::store::{Change, Store};

/// Watches that are there because an object needs them.
#[derive(Debug, Default)]
pub(super) struct Watches {
    inner: Mutex<BTreeMap<Watched, Entry>>,
}

#[derive(Debug)]
struct Entry {
    store: Store,
    users: BTreeSet<Key>,
    tasks: Vec<AbortHandle>,
}

impl Watches {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Watched, Entry>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Ends those that only this object needed, but for some.
    pub(super) fn release(&self, user: &Key, but: &[Watched]) {
        self.lock().retain(|watched, entry| {
            if !but.contains(watched) {
                entry.users.remove(user);
            }
            !entry.users.is_empty()
        });
    }

    /// Ends all.
    pub(super) fn end(&self) {
        self.lock().clear();
    }
}

impl Drop for Entry {
    /// Watches end with those who need them, the engine included.
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// Watches objects for a user, until it [releases](Watches::release) them. Changes wake those who
/// wait for them.
pub(super) fn ensure(
    shared: &Arc<Shared>,
    user: &Key,
    watched: &Watched,
    matters: Option<ChangePredicate>,
) -> Store {
    let mut watches = shared.watches.lock();
    if let Some(entry) = watches.get_mut(watched) {
        entry.users.insert(user.clone());
        return entry.store.clone();
    }
    let reflector = reflector(shared, &shared.client, watched);
    let store = reflector.store();
    let feeding = feed(
        Arc::downgrade(shared),
        watched.clone(),
        store.clone(),
        matters,
    );
    let tasks = [tokio::spawn(reflector.run()), tokio::spawn(feeding)];
    let entry = Entry {
        store: store.clone(),
        users: [user.clone()].into(),
        tasks: tasks.iter().map(|task| task.abort_handle()).collect(),
    };
    watches.insert(watched.clone(), entry);
    store
}

fn reflector(shared: &Arc<Shared>, client: &Client, watched: &Watched) -> Reflector {
    let options = shared.options.reflector.clone();
    let note = note_failures(&shared.log, &shared.env);
    Reflector::new(shared.env.clone(), client.clone(), watched.clone(), options).on_failure(note)
}

/// The same failure is an error again after so long; until then it is for those who look closely.
const SAY_AGAIN: Duration = Duration::from_secs(600);

/// Logs failures of one watch.
pub(super) fn note_failures(
    log: &Logger,
    env: &Env,
) -> impl Fn(&Watched, &Error) + Send + Sync + 'static {
    let (log, clock) = (log.named("watch"), env.clock.clone());
    let last: Mutex<Option<(String, Duration)>> = Mutex::new(None);
    move |watched, error| {
        let what = format!("watch of {} failed", watched.resource);
        let (why, now) = (error.to_string(), clock.elapsed());
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        let said = |(said, when): &(String, Duration)| {
            *said == why && now.saturating_sub(*when) < SAY_AGAIN
        };
        if last.as_ref().is_some_and(said) {
            log.debug(&what, &[("error", &why)]);
            return;
        }
        log.error(&what, &why);
        *last = Some((why, now));
    }
}

async fn feed(
    shared: std::sync::Weak<Shared>,
    watched: Watched,
    store: Store,
    matters: Option<ChangePredicate>,
) {
    let mut changes = store.subscribe();
    while let Some(change) = changes.recv().await {
        let Some(shared) = shared.upgrade() else {
            return;
        };
        if matters.as_ref().is_none_or(|matters| matters(&change)) {
            wake(&shared, &watched, &change);
        }
    }
}

fn wake(shared: &Shared, watched: &Watched, change: &Change) {
    let event = watched.resource.wake_on(&change.name.0, &change.name.1);
    let waiting = shared.lock().waits.changed(&event);
    for waiter in waiting {
        shared.enqueue(&waiter, Priority::Dependency);
    }
}
