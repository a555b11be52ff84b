//! Parsed templates, kept for the next render of the same chart.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use everflow_gotemplate::Templates;

/// Larger sets are not kept.
const MOST_KEPT_BYTES: usize = 32 << 20;

/// Template sets of earlier renders, the last used first.
///
/// A set is found again when the same files stand at the same paths, whatever the values are:
/// conditions and aliases change the paths, and then the chart is parsed anew. The cache may be
/// shared between threads.
#[derive(Debug)]
pub struct TemplateCache {
    capacity: usize,
    sets: Mutex<VecDeque<Entry>>,
}

#[derive(Debug)]
struct Entry {
    strict: bool,
    files: Vec<(String, Arc<[u8]>)>,
    templates: Templates,
}

impl TemplateCache {
    /// A cache that keeps so many sets.
    pub fn new(capacity: usize) -> Self {
        TemplateCache {
            capacity,
            sets: Mutex::default(),
        }
    }

    /// How many sets it holds.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn find(&self, strict: bool, files: &[(&str, &Arc<[u8]>)]) -> Option<Templates> {
        let mut sets = self.lock();
        let index = sets.iter().position(|entry| entry.holds(strict, files))?;
        let entry = sets.remove(index)?;
        let templates = entry.templates.clone();
        sets.push_front(entry);
        Some(templates)
    }

    /// Keeps a set, unless it is very large: nobody is charged for it.
    pub(crate) fn keep(&self, strict: bool, files: &[(&str, &Arc<[u8]>)], templates: &Templates) {
        let texts: usize = files.iter().map(|(_, text)| text.len()).sum();
        if texts.saturating_add(templates.parsed_bytes()) > MOST_KEPT_BYTES {
            return;
        }
        let files = files
            .iter()
            .map(|(path, data)| ((*path).to_owned(), Arc::clone(data)))
            .collect();
        let mut sets = self.lock();
        sets.push_front(Entry {
            strict,
            files,
            templates: templates.clone(),
        });
        sets.truncate(self.capacity);
    }

    /// The entries are whole whatever happened to the last holder of the lock.
    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Entry>> {
        self.sets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn holds(&self, strict: bool, files: &[(&str, &Arc<[u8]>)]) -> bool {
        self.strict == strict
            && self.files.len() == files.len()
            && self
                .files
                .iter()
                .zip(files)
                .all(|((path, data), (wanted, text))| {
                    path == wanted && (Arc::ptr_eq(data, text) || data == *text)
                })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn templates() -> Templates {
        Templates::new("gotpl", Arc::default())
    }

    #[test]
    fn equal_files_are_found_again_and_others_are_not() {
        let cache = TemplateCache::new(2);
        let text: Arc<[u8]> = Arc::from(&b"a"[..]);
        let same: Arc<[u8]> = Arc::from(&b"a"[..]);
        let other: Arc<[u8]> = Arc::from(&b"b"[..]);
        cache.keep(false, &[("c/templates/x", &text)], &templates());
        assert!(cache.find(false, &[("c/templates/x", &same)]).is_some());
        assert!(cache.find(true, &[("c/templates/x", &same)]).is_none());
        assert!(cache.find(false, &[("c/templates/y", &same)]).is_none());
        assert!(cache.find(false, &[("c/templates/x", &other)]).is_none());
    }

    #[test]
    fn the_longest_unused_set_goes_first() {
        let cache = TemplateCache::new(2);
        let text: Arc<[u8]> = Arc::from(&b"a"[..]);
        cache.keep(false, &[("1", &text)], &templates());
        cache.keep(false, &[("2", &text)], &templates());
        assert!(cache.find(false, &[("1", &text)]).is_some());
        cache.keep(false, &[("3", &text)], &templates());
        assert!(cache.find(false, &[("2", &text)]).is_none());
        assert!(cache.find(false, &[("1", &text)]).is_some());
        assert_eq!(cache.len(), 2);
    }
}
