//! Which notification is sent next. Each provider has a lane of its own, so that one that is dead delays no other; in a
//! lane the notifications about one object stay in their order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::journal::Entry;

/// How long a lane rests after failures in a row.
const SHORTEST_REST: Duration = Duration::from_secs(5);
const LONGEST_REST: Duration = Duration::from_secs(60);
/// How long a notification rests after its own failures.
const SHORTEST_PAUSE: Duration = Duration::from_secs(30);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// So many notifications of a lane are looked at in one go.
const LOOKED_AT: usize = 512;

/// The notifications of all providers.
#[derive(Debug)]
pub(crate) struct Lanes {
    lanes: BTreeMap<String, Lane>,
    at_once: usize,
    length: usize,
}

#[derive(Debug, Default)]
struct Lane {
    waiting: BTreeMap<u64, Waiting>,
    running: BTreeMap<u64, Arc<Entry>>,
    /// Attempts in a row that failed because of the provider.
    failures: u32,
    rests_until: Duration,
}

#[derive(Debug)]
struct Waiting {
    entry: Arc<Entry>,
    tries: u32,
    not_before: Duration,
}

/// What a notification must stay in order with: those of its Alert about its object.
type Subject = (String, String);

fn subject(entry: &Entry) -> Subject {
    (entry.alert.clone(), entry.event.involved.path())
}

/// How an attempt ended, for the lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The provider has answered, one way or the other: the notification is done with.
    Done,
    /// It is to be tried again.
    Again,
}

impl Lanes {
    pub(crate) fn new(at_once: usize) -> Self {
        Lanes {
            lanes: BTreeMap::new(),
            at_once: at_once.max(1),
            length: 0,
        }
    }

    /// The notifications that wait or are on their way.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.lanes.values().flat_map(|lane| {
            let waiting = lane.waiting.values().map(|waiting| &*waiting.entry);
            waiting.chain(lane.running.values().map(|entry| &**entry))
        })
    }

    /// How many notifications wait or are on their way.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Adds a notification.
    pub(crate) fn add(&mut self, entry: Arc<Entry>) {
        self.length += 1;
        let lane = self.lanes.entry(entry.provider.clone()).or_default();
        let waiting = Waiting {
            entry: entry.clone(),
            tries: 0,
            not_before: Duration::ZERO,
        };
        lane.waiting.insert(entry.id, waiting);
    }

    /// Takes out all that are to be sent now, with how often each was tried.
    pub(crate) fn start(&mut self, now: Duration) -> Vec<(Arc<Entry>, u32)> {
        let mut started = Vec::new();
        for lane in self.lanes.values_mut() {
            lane.start(self.at_once, now, &mut started);
        }
        started
    }

    /// When something is to be sent next that does not wait for another one to end.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.lanes
            .values()
            .filter_map(|lane| lane.next_due(self.at_once))
            .min()
    }

    /// Notes how an attempt ended; `tries` were made before it.
    pub(crate) fn ended(&mut self, entry: &Arc<Entry>, tries: u32, ended: Ended, now: Duration) {
        let Some(lane) = self.lanes.get_mut(&entry.provider) else {
            return;
        };
        lane.running.remove(&entry.id);
        match ended {
            Ended::Done => {
                self.length -= 1;
                lane.failures = 0;
                lane.rests_until = Duration::ZERO;
            }
            Ended::Again => {
                lane.rests_until = now + grown(SHORTEST_REST, lane.failures, LONGEST_REST);
                lane.failures = lane.failures.saturating_add(1);
                let waiting = Waiting {
                    entry: entry.clone(),
                    tries: tries + 1,
                    not_before: now + grown(SHORTEST_PAUSE, tries, LONGEST_PAUSE),
                };
                lane.waiting.insert(entry.id, waiting);
            }
        }
        if lane.waiting.is_empty() && lane.running.is_empty() {
            self.lanes.remove(&entry.provider);
        }
    }

    /// Takes out the oldest notification of the provider with the most, when there are more than so many.
    pub(crate) fn overflow(&mut self, bound: usize) -> Option<Arc<Entry>> {
        if self.length <= bound {
            return None;
        }
        let (_, lane) = self
            .lanes
            .iter_mut()
            .max_by_key(|(_, lane)| lane.waiting.len())?;
        let (_, waiting) = lane.waiting.pop_first()?;
        self.length -= 1;
        Some(waiting.entry)
    }
}

fn grown(first: Duration, times: u32, longest: Duration) -> Duration {
    longest.min(first * 2_u32.saturating_pow(times.min(8)))
}

impl Lane {
    fn free(&self, at_once: usize) -> usize {
        let at_once = if self.failures > 0 { 1 } else { at_once };
        at_once.saturating_sub(self.running.len())
    }

    fn start(&mut self, at_once: usize, now: Duration, started: &mut Vec<(Arc<Entry>, u32)>) {
        let mut free = self.free(at_once);
        if free == 0 || self.rests_until > now {
            return;
        }
        let mut blocked: BTreeSet<Subject> =
            self.running.values().map(|entry| subject(entry)).collect();
        let mut chosen = Vec::new();
        for (id, waiting) in self.waiting.iter().take(LOOKED_AT) {
            if free == 0 {
                break;
            }
            // What follows about the same object waits for this one.
            let is_first = blocked.insert(subject(&waiting.entry));
            if is_first && waiting.not_before <= now {
                chosen.push(*id);
                free -= 1;
            }
        }
        for id in chosen {
            if let Some(waiting) = self.waiting.remove(&id) {
                self.running.insert(id, waiting.entry.clone());
                started.push((waiting.entry, waiting.tries));
            }
        }
    }

    fn next_due(&self, at_once: usize) -> Option<Duration> {
        if self.free(at_once) == 0 {
            return None;
        }
        let waiting = self.waiting.values().take(LOOKED_AT);
        let first = waiting.map(|waiting| waiting.not_before).min()?;
        Some(first.max(self.rests_until))
    }
}

#[cfg(test)]
mod tests {
    use everflow_notify::Event;
    use everflow_time::Timestamp;

    use super::*;

    fn entry(id: u64, provider: &str, object: &str) -> Arc<Entry> {
        let mut event = Event::default();
        event.involved.name = object.to_owned();
        Arc::new(Entry {
            id,
            at: Timestamp::from_seconds(0),
            alert: "n/a".to_owned(),
            provider: provider.to_owned(),
            event,
            identity: [0; 32],
            held: None,
        })
    }

    fn ids(started: &[(Arc<Entry>, u32)]) -> Vec<u64> {
        started.iter().map(|(entry, _)| entry.id).collect()
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn notifications_keep_their_order_per_object_and_do_not_block_others() {
        let mut lanes = Lanes::new(4);
        for (id, object) in [(1, "x"), (2, "x"), (3, "y")] {
            lanes.add(entry(id, "p", object));
        }
        let started = lanes.start(at(0));
        assert_eq!(ids(&started), [1, 3]);
        assert_eq!(lanes.start(at(0)).len(), 0);
        lanes.ended(&started[0].0, 0, Ended::Done, at(1));
        assert_eq!(ids(&lanes.start(at(1))), [2]);
        assert_eq!(lanes.len(), 2);
    }

    #[test]
    fn unreachable_provider_delays_no_other_and_is_retried_with_backoff() {
        let mut lanes = Lanes::new(2);
        for id in 0..6 {
            lanes.add(entry(id, "dead", &format!("o{id}")));
        }
        lanes.add(entry(9, "fine", "x"));
        let started = lanes.start(at(0));
        assert_eq!(ids(&started), [0, 1, 9]);
        for (entry, tries) in &started[..2] {
            lanes.ended(entry, *tries, Ended::Again, at(15));
        }
        assert_eq!(lanes.start(at(15)).len(), 0);
        assert_eq!(lanes.next_due(), Some(at(25)));
        // The next one is a probe, not the one that failed.
        let probe = lanes.start(at(25));
        assert_eq!(ids(&probe), [2]);
        lanes.ended(&probe[0].0, 0, Ended::Done, at(26));
        assert_eq!(ids(&lanes.start(at(26))), [3, 4]);
    }

    #[test]
    fn oldest_notification_of_the_longest_lane_is_dropped_when_full() {
        let mut lanes = Lanes::new(2);
        for id in 0..5 {
            lanes.add(entry(id, if id < 1 { "p" } else { "q" }, "x"));
        }
        assert_eq!(lanes.overflow(4).map(|entry| entry.id), Some(1));
        assert_eq!(lanes.overflow(4), None);
        assert_eq!(lanes.len(), 4);
    }
}
