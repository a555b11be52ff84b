//! Deduplication: the same event is accepted once in an interval.

use std::collections::{BTreeMap, VecDeque};

use everflow_time::{Duration, Timestamp};
use sha2::{Digest as _, Sha256};

use crate::Event;
use crate::metadata::{ORIGIN_REVISION, REVISION};

/// What makes events the same: object, message and revisions; not severity, reason or time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key([u8; 32]);

impl Key {
    /// The key of an event after [`Event::clean`], with its token still there.
    pub fn of(event: &Event) -> Self {
        let object = &event.involved;
        let mut text = format!(
            "event/name={}/namespace={}/kind={}/message={}",
            object.name, object.namespace, object.kind, event.message
        );
        let parts = [
            (ORIGIN_REVISION, event.own(ORIGIN_REVISION)),
            (REVISION, event.own(REVISION)),
            ("token", event.token()),
        ];
        for (name, value) in parts {
            if let Some(value) = value {
                text.push_str(&format!("/{name}={value}"));
            }
        }
        Key(Sha256::digest(text).into())
    }

    /// A key that was kept elsewhere.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Key(bytes)
    }

    /// The key as bytes, to keep it elsewhere.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Whether an event is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// Whether it is the first of its kind in the interval.
    pub is_new: bool,
    /// From when on the next one is taken.
    pub until: Timestamp,
}

impl Verdict {
    /// The headers of the event server's answer, names as Go writes them.
    pub fn headers(&self) -> Vec<(&'static str, String)> {
        let reset = http_date(self.until);
        let mut headers = vec![
            ("X-Ratelimit-Limit", "1".to_owned()),
            ("X-Ratelimit-Remaining", "0".to_owned()),
            ("X-Ratelimit-Reset", reset.clone()),
        ];
        if !self.is_new {
            headers.push(("Retry-After", reset));
        }
        headers
    }
}

/// Remembers which events were taken.
#[derive(Debug, Clone)]
pub struct Deduplicator {
    interval: Duration,
    capacity: usize,
    taken: BTreeMap<Key, Timestamp>,
    /// In the order of their times, for forgetting.
    order: VecDeque<(Timestamp, Key)>,
}

impl Deduplicator {
    /// Takes each event once in an interval. Of more than `capacity` different events the oldest are forgotten:
    /// one told twice is better than memory without a bound.
    pub fn new(interval: Duration, capacity: usize) -> Self {
        Deduplicator {
            interval,
            capacity,
            taken: BTreeMap::new(),
            order: VecDeque::new(),
        }
    }

    /// Decides about an event, and remembers it when it is taken.
    pub fn take(&mut self, key: Key, now: Timestamp) -> Verdict {
        self.forget(now);
        // What others have told comes out of order, and may be older than what is in front of it.
        if let Some(taken) = self
            .taken
            .get(&key)
            .filter(|taken| now.since(**taken) < self.interval)
        {
            return Verdict {
                is_new: false,
                until: *taken + self.interval.unsigned(),
            };
        }
        self.taken.insert(key, now);
        self.order.push_back((now, key));
        Verdict {
            is_new: true,
            until: now + self.interval.unsigned(),
        }
    }

    /// How many events are remembered.
    pub fn len(&self) -> usize {
        self.taken.len()
    }

    /// Whether no event is remembered.
    pub fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }

    fn forget(&mut self, now: Timestamp) {
        while let Some((taken, key)) = self.order.front().copied() {
            let is_over = now.since(taken) >= self.interval;
            if !is_over && self.order.len() < self.capacity {
                break;
            }
            self.order.pop_front();
            if self.taken.get(&key) == Some(&taken) {
                self.taken.remove(&key);
            }
        }
    }
}

/// `Fri, 02 Jan 2026 03:04:05 UTC`.
fn http_date(at: Timestamp) -> String {
    const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let parts = everflow_time::Calendar::from_unix(at.seconds, 0);
    let day = DAYS[parts.weekday.rem_euclid(7) as usize];
    let month = MONTHS[(parts.month - 1).rem_euclid(12) as usize];
    format!(
        "{day}, {:02} {month} {:04} {:02}:{:02}:{:02} UTC",
        parts.day, parts.year, parts.hour, parts.minute, parts.second
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_seconds(300);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_seconds(1_767_323_045 + seconds)
    }

    fn key(message: &str) -> Key {
        Key::of(&Event {
            message: message.to_owned(),
            ..Event::default()
        })
    }

    #[test]
    fn an_event_is_taken_once_in_an_interval() {
        let mut seen = Deduplicator::new(INTERVAL, 100);
        assert!(seen.take(key("a"), at(0)).is_new);
        assert!(seen.take(key("b"), at(1)).is_new);
        assert!(!seen.take(key("a"), at(299)).is_new);
        assert!(seen.take(key("a"), at(300)).is_new);
        assert_eq!(seen.len(), 2);
    }

    #[test]
    fn restored_event_is_accepted_again_after_its_own_interval() {
        let mut seen = Deduplicator::new(INTERVAL, 100);
        assert!(seen.take(key("new"), at(200)).is_new);
        assert!(seen.take(key("old"), at(0)).is_new);
        assert!(!seen.take(key("old"), at(299)).is_new);
        assert!(seen.take(key("old"), at(300)).is_new);
        assert!(!seen.take(key("old"), at(599)).is_new);
    }

    #[test]
    fn oldest_events_are_evicted_when_full() {
        let mut seen = Deduplicator::new(INTERVAL, 2);
        for (index, message) in ["a", "b", "c"].into_iter().enumerate() {
            assert!(seen.take(key(message), at(index as i64)).is_new);
        }
        assert_eq!(seen.len(), 2);
        assert!(seen.take(key("a"), at(4)).is_new);
    }

    #[test]
    fn an_answer_tells_when_the_next_one_is_taken() {
        let mut seen = Deduplicator::new(INTERVAL, 2);
        let first = seen.take(key("a"), at(0)).headers();
        assert_eq!(
            first[2],
            (
                "X-Ratelimit-Reset",
                "Fri, 02 Jan 2026 03:09:05 UTC".to_owned()
            )
        );
        assert_eq!(first.len(), 3);
        assert_eq!(seen.take(key("a"), at(1)).headers()[3].0, "Retry-After");
    }
}
