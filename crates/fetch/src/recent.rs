//! What was found or made a moment ago, remembered for those who ask for the same.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A few values, each for a while after it was noted. The clock that is asked for must not jump.
#[derive(Debug)]
pub struct Recent<K, V> {
    lasts: Duration,
    room: usize,
    all: Mutex<BTreeMap<K, Noted<V>>>,
}

#[derive(Debug)]
struct Noted<V> {
    value: V,
    size: usize,
    until: Duration,
}

impl<K: Ord + Clone, V: Clone> Recent<K, V> {
    /// Remembers values for so long, of which the sizes are no more than `room` in all.
    pub fn new(lasts: Duration, room: usize) -> Self {
        Recent {
            lasts,
            room,
            all: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<K, Noted<V>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is remembered.
    pub fn find(&self, key: &K, now: Duration) -> Option<V> {
        let mut all = self.lock();
        all.retain(|_, noted| noted.until > now);
        Some(all.get(key)?.value.clone())
    }

    /// Remembers a value; the oldest make room. One that is larger than all the room is not remembered.
    pub fn note(&self, key: K, value: V, size: usize, now: Duration) {
        if size > self.room {
            return;
        }
        let mut all = self.lock();
        all.retain(|known, noted| noted.until > now && *known != key);
        while all.values().map(|noted| noted.size).sum::<usize>() + size > self.room {
            let oldest = all.iter().min_by_key(|(_, noted)| noted.until);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else {
                break;
            };
            all.remove(&oldest);
        }
        let until = now + self.lasts;
        all.insert(key, Noted { value, size, until });
    }

    /// Forgets values.
    pub fn forget(&self, which: impl Fn(&V) -> bool) {
        self.lock().retain(|_, noted| !which(&noted.value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_expire_and_the_oldest_are_evicted() {
        let span = Duration::from_secs;
        let recent = Recent::new(span(10), 3);
        recent.note("a", 1, 1, span(0));
        recent.note("b", 2, 2, span(1));
        assert_eq!(recent.find(&"a", span(9)), Some(1));
        assert_eq!(recent.find(&"a", span(10)), None);
        assert_eq!(recent.find(&"b", span(10)), Some(2));
        recent.note("c", 3, 1, span(10));
        recent.note("d", 4, 1, span(10));
        assert_eq!(recent.find(&"b", span(10)), None, "the oldest makes room");
        recent.note("large", 5, 4, span(10));
        assert_eq!(recent.find(&"large", span(10)), None);
        recent.note("c", 6, 1, span(11));
        recent.forget(|value| *value == 4);
        let left = ["c", "d"].map(|key| recent.find(&key, span(12)));
        assert_eq!(left, [Some(6), None]);
    }
}
