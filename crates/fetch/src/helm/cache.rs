//! What was found in stored indexes, remembered: many charts of one repository ask the same.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use everflow_helm::index::StoredVersions;

use super::source::Pulled;
use crate::Recent;

/// So many bytes of archives are remembered in all, and of one.
const ARCHIVES: usize = 2 << 20;
const ARCHIVE: usize = 512 << 10;
/// For so long: objects that are made together ask for the same chart together.
const MOMENT: Duration = Duration::from_secs(30);
/// Of so many charts is remembered for a moment what an index has of them, where nobody asked for more.
const FEW: usize = 8;

/// The versions of charts in stored indexes. The files of the store never change, so that what was
/// found in one stays true as long as it has that name.
#[derive(Debug)]
pub struct IndexCache {
    most: usize,
    lasts: Duration,
    purge: Duration,
    state: Mutex<State>,
    /// By the path of the index and the name of the chart.
    few: Recent<(String, String), Arc<StoredVersions>>,
    /// By the path of the index and the address in it.
    archives: Recent<String, Arc<Pulled>>,
}

#[derive(Debug, Default)]
struct State {
    /// By the path of the index.
    indexes: BTreeMap<String, Index>,
    purged: Duration,
}

#[derive(Debug)]
struct Index {
    charts: BTreeMap<String, Arc<StoredVersions>>,
    until: Duration,
}

impl IndexCache {
    /// Remembers what is in at most so many indexes, each for so long after its last use; what is
    /// too old is looked for so often. With 0 a few charts are remembered for a moment.
    pub fn new(most: usize, lasts: Duration, purge: Duration) -> Self {
        IndexCache {
            most,
            lasts,
            purge,
            state: Mutex::default(),
            few: Recent::new(MOMENT, FEW),
            archives: Recent::new(MOMENT, ARCHIVES),
        }
    }

    /// What is remembered of a chart. `now` is a clock that does not jump.
    pub fn get(&self, index: &str, chart: &str, now: Duration) -> Option<Arc<StoredVersions>> {
        if self.most == 0 {
            return self.few.find(&(index.to_owned(), chart.to_owned()), now);
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_sub(state.purged) >= self.purge {
            state.purged = now;
            state.indexes.retain(|_, index| index.until > now);
        }
        let known = state.indexes.get_mut(index)?;
        if known.until <= now {
            state.indexes.remove(index);
            return None;
        }
        known.until = now + self.lasts;
        known.charts.get(chart).cloned()
    }

    /// An archive that was pulled a moment ago.
    pub(super) fn archive(&self, place: &String, now: Duration) -> Option<Arc<Pulled>> {
        self.archives.find(place, now)
    }

    /// Remembers an archive for a moment.
    pub(super) fn put_archive(&self, place: String, pulled: &Arc<Pulled>, now: Duration) {
        let size = pulled.bytes.len();
        if size <= ARCHIVE {
            self.archives.note(place, pulled.clone(), size, now);
        }
    }

    /// Remembers what was found of a chart.
    pub fn put(&self, index: &str, chart: &str, found: Arc<StoredVersions>, now: Duration) {
        if self.most == 0 {
            let place = (index.to_owned(), chart.to_owned());
            return self.few.note(place, found, 1, now);
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.indexes.len() >= self.most && !state.indexes.contains_key(index) {
            let oldest = state.indexes.iter().min_by_key(|(_, index)| index.until);
            let Some(oldest) = oldest.map(|(path, _)| path.clone()) else {
                break;
            };
            state.indexes.remove(&oldest);
        }
        let fresh = || Index {
            charts: BTreeMap::new(),
            until: now,
        };
        let known = state.indexes.entry(index.to_owned()).or_insert_with(fresh);
        known.until = now + self.lasts;
        known.charts.insert(chart.to_owned(), found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_cache_expires_and_evicts_the_least_recently_used() {
        let span = Duration::from_secs;
        let cache = IndexCache::new(2, span(10), span(5));
        let found = || Arc::new(Some(Vec::new()));
        cache.put("a", "x", found(), span(0));
        cache.put("b", "x", found(), span(1));
        assert_eq!(cache.get("a", "x", span(2)), Some(found()));
        assert_eq!(cache.get("a", "y", span(2)), None);
        // The index that was not used for the longest time makes room.
        cache.put("c", "x", found(), span(3));
        let here = ["a", "b", "c"].map(|index| cache.get(index, "x", span(4)).is_some());
        assert_eq!(here, [true, false, true]);
        assert_eq!(cache.get("a", "x", span(14)), None);
        let little = IndexCache::new(0, span(10), span(5));
        little.put("a", "x", found(), span(0));
        assert_eq!(little.get("a", "x", span(20)), Some(found()));
        assert_eq!(little.get("a", "x", MOMENT), None);
    }
}
