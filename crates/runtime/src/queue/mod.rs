//! Which object is attempted next.
//!
//! A plain data structure: no tasks, no locks; the time and the chance for jitter are handed in.
//! An object that lives is at all times in exactly one of three states: waiting for its turn,
//! running, or waiting for a moment on the clock. There is no fourth, and so no way to be
//! forgotten; [`Queue::check`] says so at any step.

mod key;
mod lanes;
mod view;
mod waits;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use smol_str::SmolStr;

pub use key::{Due, Key, Priority, Ticket};
pub use waits::{Waits, WakeOn};

use lanes::Lanes;

/// After so many turns by priority, the object that has waited longest has one, and so has one that something came for
/// which it waited for: what was begun is not to stand behind thousands that are new.
const OTHERS_EVERY: u64 = 5;

/// How a queue behaves.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueOptions {
    /// The first pause after a failure.
    pub min_backoff: Duration,
    /// The longest pause after failures.
    pub max_backoff: Duration,
    /// How many attempts run at once.
    pub concurrency: usize,
    /// How many attempts run at once for each kind.
    pub concurrency_per_kind: BTreeMap<SmolStr, usize>,
    /// How many attempts run at once for each remote host.
    pub concurrency_per_host: usize,
}

impl Default for QueueOptions {
    fn default() -> Self {
        QueueOptions {
            min_backoff: Duration::from_millis(750),
            max_backoff: Duration::from_secs(15 * 60),
            concurrency: 16,
            concurrency_per_kind: BTreeMap::new(),
            concurrency_per_host: 4,
        }
    }
}

/// Where an object is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Queued {
        priority: Priority,
        since: Duration,
    },
    Running {
        since: Duration,
        again: Option<Priority>,
    },
    Sleeping {
        until: Duration,
    },
}

#[derive(Debug, Clone)]
struct Item {
    state: State,
    host: Option<SmolStr>,
    running_host: Option<SmolStr>,
    failures: u32,
    cause: SmolStr,
    gone: bool,
}

/// Something that [`Queue::check`] found wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flaw {
    /// Of which object.
    pub key: Key,
    /// What.
    pub what: &'static str,
}

/// The queue.
#[derive(Debug)]
pub struct Queue {
    options: QueueOptions,
    items: BTreeMap<Key, Item>,
    lanes: Lanes,
    /// Those that wait for their turn, the oldest first.
    by_age: BTreeSet<(Duration, u64, Key)>,
    ages: BTreeMap<Key, u64>,
    timers: BTreeSet<(Duration, Key)>,
    running: usize,
    running_per_kind: BTreeMap<SmolStr, usize>,
    running_per_host: BTreeMap<SmolStr, usize>,
    serial: u64,
    turns: u64,
    arrivals: u64,
    changes: u64,
}

impl Queue {
    /// An empty queue.
    pub fn new(options: QueueOptions) -> Self {
        Queue {
            options,
            items: BTreeMap::new(),
            lanes: Lanes::default(),
            by_age: BTreeSet::new(),
            ages: BTreeMap::new(),
            timers: BTreeSet::new(),
            running: 0,
            running_per_kind: BTreeMap::new(),
            running_per_host: BTreeMap::new(),
            serial: 0,
            turns: 0,
            arrivals: 0,
            changes: 0,
        }
    }

    /// Asks for an attempt. An object not known so far becomes known. One that waits keeps its
    /// place, or a better one; one that runs is attempted again afterwards. Returns whether an
    /// attempt that runs is superseded.
    pub fn enqueue(&mut self, key: &Key, priority: Priority, now: Duration) -> bool {
        self.changes += 1;
        let Some(item) = self.items.get_mut(key) else {
            let item = Item {
                state: State::Queued {
                    priority,
                    since: now,
                },
                host: None,
                running_host: None,
                failures: 0,
                cause: SmolStr::default(),
                gone: false,
            };
            self.items.insert(key.clone(), item);
            self.line_up(key, priority, now);
            return false;
        };
        if priority.supersedes() {
            item.failures = 0;
        }
        item.gone = false;
        match &mut item.state {
            State::Running { again, .. } => {
                *again = Some(again.map_or(priority, |before| before.min(priority)));
                return priority.supersedes();
            }
            State::Queued {
                priority: before, ..
            } if *before <= priority => {}
            State::Queued {
                priority: before,
                since,
            } => {
                let (old, since) = (*before, *since);
                *before = priority;
                self.lanes.remove(key, old);
                self.lanes.push(key, priority);
                debug_assert!(since <= now);
            }
            State::Sleeping { until } => {
                let until = *until;
                item.state = State::Queued {
                    priority,
                    since: now,
                };
                self.timers.remove(&(until, key.clone()));
                self.line_up(key, priority, now);
            }
        }
        false
    }

    /// Moves the next attempt of an object that sleeps to an earlier moment.
    pub fn no_later_than(&mut self, key: &Key, moment: Duration) {
        self.changes += 1;
        if let Some(item) = self.items.get_mut(key)
            && let State::Sleeping { until } = &mut item.state
            && moment < *until
        {
            self.timers.remove(&(*until, key.clone()));
            *until = moment;
            self.timers.insert((moment, key.clone()));
        }
    }

    /// Forgets an object that is gone. An attempt that runs is left to end.
    pub fn remove(&mut self, key: &Key) {
        self.changes += 1;
        let Some(item) = self.items.get_mut(key) else {
            return;
        };
        match item.state {
            State::Running { .. } => {
                item.gone = true;
                return;
            }
            State::Queued { priority, since } => self.step_out(key, priority, since),
            State::Sleeping { until } => {
                self.timers.remove(&(until, key.clone()));
            }
        }
        self.items.remove(key);
    }

    /// Says which remote host attempts of an object use.
    pub fn set_host(&mut self, key: &Key, host: Option<SmolStr>) {
        self.changes += 1;
        let Some(item) = self.items.get_mut(key) else {
            return;
        };
        if item.host == host {
            return;
        }
        let before = std::mem::replace(&mut item.host, host);
        if let (State::Queued { priority, .. }, Some(before)) = (&item.state, before) {
            let priority = *priority;
            // It may be parked behind the other host.
            if self.lanes.unpark(key, &before) {
                self.lanes.push(key, priority);
            }
        }
    }

    /// The next attempt, if one is due and there is room for it.
    pub fn pop(&mut self, now: Duration) -> Option<Ticket> {
        self.changes += 1;
        self.wake_up(now);
        if self.running >= self.options.concurrency {
            return None;
        }
        let key = self.choose()?;
        let item = self.items.get_mut(&key)?;
        let State::Queued { priority, since } = item.state else {
            return None;
        };
        item.state = State::Running {
            since: now,
            again: None,
        };
        item.running_host = item.host.clone();
        let (failures, host) = (item.failures, item.host.clone());
        self.step_out(&key, priority, since);
        self.running += 1;
        *self.running_per_kind.entry(key.kind.clone()).or_default() += 1;
        if let Some(host) = host {
            *self.running_per_host.entry(host).or_default() += 1;
        }
        self.serial += 1;
        Some(Ticket {
            priority,
            serial: self.serial,
            waited: now.saturating_sub(since),
            failures,
            key,
        })
    }

    /// An attempt has ended. `chance`, from 0 to 1, spreads pauses after failures. Returns when
    /// the next attempt is; `None` when the object is gone.
    pub fn finish(&mut self, key: &Key, due: &Due, now: Duration, chance: f64) -> Option<Duration> {
        self.changes += 1;
        let item = self.items.get_mut(key)?;
        let State::Running { again, .. } = item.state else {
            return None;
        };
        let host = item.running_host.take();
        self.running -= 1;
        count_down(&mut self.running_per_kind, &key.kind);
        if let Some(host) = host {
            count_down(&mut self.running_per_host, &host);
            for (freed, priority) in self.lanes.unpark_all(&host, &self.items) {
                self.lanes.push_front(&freed, priority);
            }
        }
        let item = self.items.get_mut(key)?;
        if item.gone {
            self.items.remove(key);
            return None;
        }
        let span = match due {
            Due::Now => Duration::ZERO,
            Due::After(span) => {
                item.failures = 0;
                *span
            }
            Due::Backoff { cause, at_least } => {
                if item.cause != *cause {
                    item.failures = 0;
                    item.cause = cause.clone();
                }
                item.failures = item.failures.saturating_add(1);
                let pause = backoff(&self.options, item.failures, chance);
                pause.max(*at_least)
            }
        };
        if let Some(priority) = again {
            if priority.supersedes() {
                item.failures = 0;
            }
            item.state = State::Queued {
                priority,
                since: now,
            };
            self.line_up(key, priority, now);
            return Some(now);
        }
        let until = now.saturating_add(span);
        item.state = State::Sleeping { until };
        self.timers.insert((until, key.clone()));
        Some(until)
    }

    /// Whether something more urgent than an interval waits for an attempt that runs to end.
    pub fn superseded(&self, key: &Key) -> bool {
        self.items.get(key).is_some_and(|item| {
            item.gone
                || matches!(item.state, State::Running { again: Some(again), .. } if again.supersedes())
        })
    }

    fn host_is_full(&self, host: &SmolStr) -> bool {
        let running = self.running_per_host.get(host).copied().unwrap_or_default();
        running >= self.options.concurrency_per_host.max(1)
    }

    fn kind_is_full(&self, kind: &SmolStr) -> bool {
        let limit = self.options.concurrency_per_kind.get(kind).copied();
        let running = self.running_per_kind.get(kind).copied().unwrap_or_default();
        limit.is_some_and(|limit| running >= limit.max(1))
    }

    fn wake_up(&mut self, now: Duration) {
        while let Some((until, key)) = self.timers.first().cloned() {
            if until > now {
                return;
            }
            self.timers.pop_first();
            if let Some(item) = self.items.get_mut(&key) {
                item.state = State::Queued {
                    priority: Priority::Interval,
                    since: now,
                };
                self.line_up(&key, Priority::Interval, now);
            }
        }
    }

    /// Whose turn it is. Those whose host is full are parked until it is not.
    fn choose(&mut self) -> Option<Key> {
        self.turns += 1;
        if self.turns.is_multiple_of(OTHERS_EVERY) {
            let free = |key: &Key| {
                let host = self.items.get(key).and_then(|item| item.host.as_ref());
                !self.kind_is_full(&key.kind) && !host.is_some_and(|host| self.host_is_full(host))
            };
            // Looking at all would be slow where thousands wait for one host.
            let oldest = self.by_age.iter().take(64).map(|(.., key)| key);
            if let Some(key) = oldest.into_iter().find(|key| free(key)) {
                return Some(key.clone());
            }
        }
        let full_kinds: BTreeSet<SmolStr> = self
            .running_per_kind
            .keys()
            .filter(|kind| self.kind_is_full(kind))
            .cloned()
            .collect();
        let mut order = Priority::ALL;
        if (self.turns + 1).is_multiple_of(OTHERS_EVERY) {
            order.swap(Priority::Spec as usize, Priority::Dependency as usize);
        }
        for priority in order {
            while let Some(key) = self.lanes.next(priority, &full_kinds) {
                let host = self.items.get(&key).and_then(|item| item.host.clone());
                match host.filter(|host| self.host_is_full(host)) {
                    Some(host) => self.lanes.park(&key, priority, host),
                    None => return Some(key),
                }
            }
        }
        None
    }

    fn line_up(&mut self, key: &Key, priority: Priority, now: Duration) {
        self.arrivals += 1;
        self.ages.insert(key.clone(), self.arrivals);
        self.by_age.insert((now, self.arrivals, key.clone()));
        self.lanes.push(key, priority);
    }

    fn step_out(&mut self, key: &Key, priority: Priority, since: Duration) {
        if let Some(serial) = self.ages.remove(key) {
            self.by_age.remove(&(since, serial, key.clone()));
        }
        self.lanes.remove(key, priority);
        if let Some(host) = self.items.get(key).and_then(|item| item.host.clone()) {
            self.lanes.unpark(key, &host);
        }
    }
}

fn count_down(counts: &mut BTreeMap<SmolStr, usize>, name: &SmolStr) {
    if let Some(count) = counts.get_mut(name) {
        *count -= 1;
        if *count == 0 {
            counts.remove(name);
        }
    }
}

/// The pause after so many failures: it doubles each time, and lies between half and all of it.
fn backoff(options: &QueueOptions, failures: u32, chance: f64) -> Duration {
    let doubled = options.min_backoff.saturating_mul(
        1_u32
            .checked_shl(failures.saturating_sub(1))
            .unwrap_or(u32::MAX),
    );
    let longest = doubled.min(options.max_backoff);
    let spread = longest.mul_f64(0.5 + 0.5 * chance.clamp(0.0, 1.0));
    spread.max(options.min_backoff.min(longest))
}

#[cfg(test)]
mod tests;
