//! Pages of lists, now and as they were.

use std::sync::Arc;

use super::object::Stored;

/// A page of a list.
#[derive(Debug, Default)]
pub struct Page {
    /// The objects in key order.
    pub items: Vec<Arc<Stored>>,
    /// The key of the last item when more follow.
    pub last_key: Option<String>,
    /// How many items follow after this page (before any filter).
    pub remaining: usize,
    /// The revision the page shows.
    pub revision: u64,
}

/// The keys below a prefix, after one of them.
pub(super) fn range_from<'k>(
    prefix: &'k str,
    after: Option<&'k str>,
) -> (std::ops::Bound<&'k str>, std::ops::Bound<&'k str>) {
    use std::ops::Bound;
    let start = match after {
        Some(key) => Bound::Excluded(key),
        None => Bound::Included(prefix),
    };
    (start, Bound::Unbounded)
}

/// Objects as they are now, with those that changed since as they were then.
pub(super) struct Merged<N: Iterator, T: Iterator> {
    pub(super) now: std::iter::Peekable<N>,
    pub(super) then: std::iter::Peekable<T>,
}

impl<'a, N, T> Iterator for Merged<N, T>
where
    N: Iterator<Item = (&'a str, &'a Arc<Stored>)>,
    T: Iterator<Item = (&'a str, Option<&'a Arc<Stored>>)>,
{
    type Item = (&'a str, &'a Arc<Stored>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some((changed, _)) = self.then.peek() else {
                return self.now.next();
            };
            match self.now.peek() {
                Some((key, _)) if key < changed => return self.now.next(),
                Some((key, _)) if key == changed => drop(self.now.next()),
                _ => {}
            }
            if let Some((key, Some(stored))) = self.then.next() {
                return Some((key, stored));
            }
        }
    }
}

impl Page {
    /// Takes what belongs to the prefix: at most so many, and whether the rest is counted.
    pub(super) fn fill<'a, K: AsRef<str> + ?Sized + 'a>(
        &mut self,
        range: impl Iterator<Item = (&'a K, &'a Arc<Stored>)>,
        prefix: &str,
        (limit, count_rest): (usize, bool),
    ) {
        let mut last: Option<&K> = None;
        for (key, stored) in range.take_while(|(key, _)| key.as_ref().starts_with(prefix)) {
            if limit > 0 && self.items.len() == limit {
                self.remaining += 1;
                if count_rest {
                    continue;
                }
                break;
            }
            self.items.push(stored.clone());
            last = Some(key);
        }
        if self.remaining > 0 {
            self.last_key = last.map(|key| key.as_ref().to_owned());
        }
    }
}
