//! Reading a queue without changing it.

use std::collections::BTreeMap;
use std::time::Duration;

use smol_str::SmolStr;

use super::{Flaw, Key, Queue, State};

impl Queue {
    /// When the next timer is due.
    pub fn next_timer(&self) -> Option<Duration> {
        self.timers.first().map(|(until, _)| *until)
    }

    /// When the last timer is due.
    pub fn last_timer(&self) -> Option<Duration> {
        self.timers.last().map(|(until, _)| *until)
    }

    /// How often anything may have changed in it.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Whether an object is known.
    pub fn contains(&self, key: &Key) -> bool {
        self.items.contains_key(key)
    }

    /// Those of the objects of a kind that are not known. Their names, a namespace and a name each, must be in order: so
    /// are the keys, and both are gone through once.
    pub fn missing(&self, kind: &SmolStr, names: &[(SmolStr, SmolStr)]) -> Vec<Key> {
        let first = Key::new(kind.clone(), "", "");
        let keys = self.items.range(first..).map(|(key, _)| key);
        let mut keys = keys.take_while(|key| key.kind == *kind).peekable();
        let mut missing = Vec::new();
        for (namespace, name) in names {
            let wanted = (namespace, name);
            while keys
                .next_if(|key| (&key.namespace, &key.name) < wanted)
                .is_some()
            {}
            let next = keys.peek().map(|key| (&key.namespace, &key.name));
            if next != Some(wanted) {
                missing.push(Key::new(kind.clone(), namespace.clone(), name.clone()));
            }
        }
        missing
    }

    /// When an object is attempted next: a moment on the clock, or `None` when it waits for its
    /// turn or runs.
    pub fn sleeping_until(&self, key: &Key) -> Option<Duration> {
        match self.items.get(key)?.state {
            State::Sleeping { until } => Some(until),
            _ => None,
        }
    }

    /// How many wait for their turn, by kind.
    pub fn depth(&self) -> BTreeMap<SmolStr, usize> {
        let mut depth: BTreeMap<SmolStr, usize> = BTreeMap::new();
        for (key, item) in &self.items {
            let waits = matches!(item.state, State::Queued { .. });
            *depth.entry(key.kind.clone()).or_default() += usize::from(waits);
        }
        depth
    }

    /// How long the oldest that waits for its turn has done so.
    pub fn oldest(&self, now: Duration) -> Duration {
        let oldest = self.by_age.first().map(|(since, ..)| *since);
        oldest.map_or(Duration::ZERO, |since| now.saturating_sub(since))
    }

    /// How many run, and for how long the oldest of them has.
    pub fn running(&self, now: Duration) -> (usize, Duration) {
        let spans = self.items.values().filter_map(|item| match item.state {
            State::Running { since, .. } => Some(now.saturating_sub(since)),
            _ => None,
        });
        (self.running, spans.max().unwrap_or_default())
    }

    /// How many objects are known.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether no object is known.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// How long overdue the most overdue timer is. More than a moment means that nobody turns
    /// the handle.
    pub fn overdue(&self, now: Duration) -> Duration {
        let first = self.next_timer();
        first.map_or(Duration::ZERO, |until| now.saturating_sub(until))
    }

    /// Looks for objects that no state will lead to an attempt, and for wrong sums.
    pub fn check(&self) -> Vec<Flaw> {
        let mut flaws = Vec::new();
        let mut flaw = |key: &Key, what| {
            flaws.push(Flaw {
                key: key.clone(),
                what,
            });
        };
        let mut running = 0;
        for (key, item) in &self.items {
            match item.state {
                State::Queued { priority, since } => {
                    let parked = item
                        .host
                        .as_ref()
                        .map(|host| (host, self.host_is_full(host)));
                    let in_lane = self.lanes.contains(key, priority);
                    let in_park = parked.is_some_and(|(host, _)| self.lanes.is_parked(key, host));
                    let serial = self.ages.get(key).copied().unwrap_or_default();
                    if !in_lane && !in_park {
                        flaw(key, "queued, but in no lane");
                    }
                    if !in_lane && in_park && parked.is_some_and(|(_, full)| !full) {
                        flaw(key, "parked behind a host that is free");
                    }
                    if !self.by_age.contains(&(since, serial, key.clone())) {
                        flaw(key, "queued, but without an age");
                    }
                }
                State::Running { .. } => running += 1,
                State::Sleeping { until } => {
                    if !self.timers.contains(&(until, key.clone())) {
                        flaw(key, "sleeping, but without a timer");
                    }
                }
            }
        }
        let nobody = Key::new("", "", "");
        if running != self.running {
            flaw(&nobody, "the number of running attempts is wrong");
        }
        let sleeping = self.timers.len();
        let waiting = self.by_age.len();
        if sleeping + waiting + running != self.items.len() {
            flaw(&nobody, "there are timers or places without an object");
        }
        flaws
    }
}
