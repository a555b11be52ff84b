//! What work came to, found by everything that it depends on.
//!
//! A build is a pure function of the files, the Kustomization and its variables, and attempts at an
//! interval or after a failure ask for the same one again and again. Whoever gets a result from here
//! gets what the work would have come to; nothing that can change from outside goes into it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use everflow_json::Value;

use crate::Fingerprint;
use crate::fingerprint::Parts;

/// What a result costs beside its content and its key: its age, its place.
const PER_RESULT: usize = 256;

/// Everything that a piece of work depends on, as a digest: what variables hold is nobody else's business.
#[derive(Clone, Debug)]
pub(super) struct Key(Parts);

impl Default for Key {
    fn default() -> Self {
        Key(Parts::of("work"))
    }
}

impl Key {
    /// The work depends on this text too. Where one ends and the next begins matters.
    pub(super) fn and(self, text: &str) -> Self {
        Key(self.0.and(text))
    }

    /// The work depends on this value too.
    pub(super) fn and_value(self, value: &Value) -> Self {
        let mut text = Vec::new();
        everflow_json::text::write(value, &mut text);
        Key(self.0.and(text))
    }

    /// By what a result is found.
    pub(super) fn done(&self) -> Fingerprint {
        self.0.done()
    }
}

/// Results of one kind of work, bounded by their bytes: when they are too many, those that were not
/// asked for lately go.
#[derive(Debug)]
pub(super) struct Results<T> {
    limit: usize,
    kept: Mutex<Kept<T>>,
}

#[derive(Debug)]
struct Kept<T> {
    by_key: BTreeMap<Fingerprint, Entry<T>>,
    bytes: usize,
    clock: u64,
}

#[derive(Debug)]
struct Entry<T> {
    result: Arc<T>,
    bytes: usize,
    used: u64,
}

impl<T> Results<T> {
    /// Keeps at most so many bytes.
    pub(super) fn new(limit: usize) -> Self {
        Results {
            limit,
            kept: Mutex::new(Kept {
                by_key: BTreeMap::new(),
                bytes: 0,
                clock: 0,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept<T>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the work came to before.
    pub(super) fn get(&self, key: &Fingerprint) -> Option<Arc<T>> {
        let mut kept = self.lock();
        kept.clock += 1;
        let now = kept.clock;
        let entry = kept.by_key.get_mut(key)?;
        entry.used = now;
        Some(entry.result.clone())
    }

    /// Keeps a result of so many bytes, unless it would take most of the room.
    pub(super) fn keep(&self, key: Fingerprint, bytes: usize, result: Arc<T>) {
        let bytes = bytes + PER_RESULT;
        if bytes > self.limit / 2 {
            return;
        }
        let mut kept = self.lock();
        kept.clock += 1;
        let used = kept.clock;
        let entry = Entry {
            result,
            bytes,
            used,
        };
        let former = kept.by_key.insert(key, entry);
        kept.bytes += bytes;
        kept.bytes -= former.map_or(0, |former| former.bytes);
        if kept.bytes > self.limit {
            kept.drop_older_half();
        }
    }
}

impl<T> Kept<T> {
    fn drop_older_half(&mut self) {
        let mut ages: Vec<u64> = self.by_key.values().map(|entry| entry.used).collect();
        let middle = ages.len() / 2;
        let (_, median, _) = ages.select_nth_unstable(middle);
        let oldest = *median;
        self.by_key.retain(|_, entry| entry.used > oldest);
        self.bytes = self.by_key.values().map(|entry| entry.bytes).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_depends_on_text_boundaries() {
        let key = |texts: &[&str]| {
            let key = texts.iter().fold(Key::default(), |key, text| key.and(text));
            key.done()
        };
        assert_ne!(key(&["ab", "c"]), key(&["a", "bc"]));
        assert_ne!(key(&["a"]), key(&["a", ""]));
        assert_eq!(key(&["a", "b"]), key(&["a", "b"]));
        let value = Value::from("a");
        assert_eq!(Key::default().and_value(&value).done(), key(&["\"a\""]));
    }

    #[test]
    fn least_recently_used_results_are_evicted_first() {
        let limit = 10 * (PER_RESULT + 100);
        let results = Results::new(limit);
        let key = |n: usize| Key::default().and(&n.to_string()).done();
        results.keep(key(100), 10_000, Arc::new(100));
        assert_eq!(results.get(&key(100)), None, "too large");
        for n in 0..50 {
            results.keep(key(n), 100, Arc::new(n));
            assert_eq!(results.get(&key(0)), Some(Arc::new(0)));
            assert!(results.lock().bytes <= limit);
        }
        assert_eq!(results.get(&key(1)), None);
        assert_eq!(results.get(&key(49)), Some(Arc::new(49)));
    }
}
