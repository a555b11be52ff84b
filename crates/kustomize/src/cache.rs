//! What builds share: parsed files and whole results, found by content.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use everflow_yaml::Node;
use sha2::{Digest as _, Sha256};

use crate::Output;
use crate::options::Options;

/// How much memory a cache may take unless told otherwise.
const DEFAULT_BYTES: usize = 256 << 20;

/// The SHA-256 of a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Hashes bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Digest(Sha256::digest(bytes).into())
    }
}

/// Parsed files and finished builds. One cache can serve many builds at once; when it holds more
/// than its limit, what was not used for the longest time goes.
#[derive(Debug)]
pub struct Cache {
    state: Mutex<State>,
    limit: usize,
}

#[derive(Debug, Default)]
struct State {
    clock: u64,
    bytes: usize,
    files: HashMap<Digest, Entry<Arc<[Node]>>>,
    builds: HashMap<BuildKey, Entry<Arc<Build>>>,
}

#[derive(Debug)]
struct Entry<T> {
    value: T,
    bytes: usize,
    used: u64,
}

/// Which build a result is of; the files it read decide whether it still holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BuildKey {
    pub directory: String,
    pub options: Options,
}

/// A finished build and everything it read.
#[derive(Debug)]
pub(crate) struct Build {
    pub reads: Vec<(Access, Digest)>,
    pub output: Arc<Output>,
}

/// One question that a build asked its view.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Access {
    /// Where a path leads.
    Locate(String),
    /// The content of a file.
    Read(String),
}

impl Default for Cache {
    fn default() -> Self {
        Cache::new(DEFAULT_BYTES)
    }
}

impl Cache {
    /// A cache that takes at most about this many bytes.
    pub fn new(limit: usize) -> Self {
        Cache {
            state: Mutex::default(),
            limit,
        }
    }

    /// How many files and builds are held.
    pub fn len(&self) -> usize {
        let state = self.lock();
        state.files.len() + state.builds.len()
    }

    /// True when nothing is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The objects of a file, and what they take.
    pub(crate) fn objects(&self, digest: &Digest) -> Option<(Arc<[Node]>, usize)> {
        let mut state = self.lock();
        state.clock += 1;
        let now = state.clock;
        let entry = state.files.get_mut(digest)?;
        entry.used = now;
        Some((Arc::clone(&entry.value), entry.bytes))
    }

    pub(crate) fn store_objects(&self, digest: Digest, bytes: usize, objects: &[Node]) {
        if bytes > self.limit / 4 {
            return;
        }
        let value: Arc<[Node]> = objects.into();
        let mut state = self.lock();
        state.clock += 1;
        let used = state.clock;
        state.bytes += bytes;
        let old = state.files.insert(digest, Entry { value, bytes, used });
        state.bytes -= old.map_or(0, |old| old.bytes);
        state.shrink(self.limit);
    }

    pub(crate) fn build(&self, key: &BuildKey) -> Option<Arc<Build>> {
        let mut state = self.lock();
        state.clock += 1;
        let now = state.clock;
        let entry = state.builds.get_mut(key)?;
        entry.used = now;
        Some(Arc::clone(&entry.value))
    }

    pub(crate) fn store_build(&self, key: BuildKey, bytes: usize, build: Build) {
        if bytes > self.limit / 4 {
            return;
        }
        let value = Arc::new(build);
        let mut state = self.lock();
        state.clock += 1;
        let used = state.clock;
        state.bytes += bytes;
        let old = state.builds.insert(key, Entry { value, bytes, used });
        state.bytes -= old.map_or(0, |old| old.bytes);
        state.shrink(self.limit);
    }
}

impl State {
    /// Drops the older half of what is held until it fits.
    fn shrink(&mut self, limit: usize) {
        while self.bytes > limit {
            let mut ages: Vec<u64> = self.files.values().map(|entry| entry.used).collect();
            ages.extend(self.builds.values().map(|entry| entry.used));
            if ages.is_empty() {
                self.bytes = 0;
                return;
            }
            let middle = ages.len() / 2;
            let (_, median, _) = ages.select_nth_unstable(middle);
            let cutoff = *median;
            let mut freed = 0;
            self.files.retain(|_, entry| {
                let keep = entry.used > cutoff;
                freed += if keep { 0 } else { entry.bytes };
                keep
            });
            self.builds.retain(|_, entry| {
                let keep = entry.used > cutoff;
                freed += if keep { 0 } else { entry.bytes };
                keep
            });
            self.bytes = self.bytes.saturating_sub(freed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_first() {
        let cache = Cache::new(100);
        let digest = |n: u8| Digest::of(&[n]);
        for n in 0..10 {
            cache.store_objects(digest(n), 20, &[]);
        }
        assert!(cache.objects(&digest(9)).is_some());
        assert!(cache.objects(&digest(0)).is_none());
        assert!(cache.len() <= 5);
    }
}
