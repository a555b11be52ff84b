//! What work came to, found by everything that it depends on.
//!
//! A build is a pure function of the files, the Kustomization and its variables, and attempts at an
//! interval or after a failure ask for the same one again and again. Whoever gets a result from here
//! gets what the work would have come to; nothing that can change from outside goes into it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use everflow_json::Value;

/// What a result costs beside its content and its key: its age, its place.
const PER_RESULT: usize = 256;

/// Everything that a piece of work depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(Vec<u8>);

impl Key {
    /// The work depends on this text too. Where one ends and the next begins matters.
    pub(super) fn and(mut self, text: &str) -> Self {
        self.0.extend_from_slice(text.as_bytes());
        self.end(text.len())
    }

    /// The work depends on this value too.
    pub(super) fn and_value(mut self, value: &Value) -> Self {
        let before = self.0.len();
        everflow_json::text::write(value, &mut self.0);
        let length = self.0.len() - before;
        self.end(length)
    }

    fn end(mut self, length: usize) -> Self {
        self.0.extend_from_slice(&(length as u64).to_le_bytes());
        self
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
    by_key: BTreeMap<Key, Entry<T>>,
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
    pub(super) fn get(&self, key: &Key) -> Option<Arc<T>> {
        let mut kept = self.lock();
        kept.clock += 1;
        let now = kept.clock;
        let entry = kept.by_key.get_mut(key)?;
        entry.used = now;
        Some(entry.result.clone())
    }

    /// Keeps a result of so many bytes, unless it would take most of the room.
    pub(super) fn keep(&self, key: Key, bytes: usize, result: Arc<T>) {
        let bytes = bytes + key.0.len() + PER_RESULT;
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
    fn where_texts_end_matters() {
        let key = |texts: &[&str]| texts.iter().fold(Key::default(), |key, text| key.and(text));
        assert_ne!(key(&["ab", "c"]), key(&["a", "bc"]));
        assert_ne!(key(&["a"]), key(&["a", ""]));
        assert_eq!(key(&["a", "b"]), key(&["a", "b"]));
        let value = Value::from("a");
        assert_eq!(Key::default().and_value(&value), key(&["\"a\""]));
    }

    #[test]
    fn those_not_asked_for_go_first() {
        let limit = 10 * (PER_RESULT + 100);
        let results = Results::new(limit);
        let key = |n: usize| Key::default().and(&n.to_string());
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
