//! Who waits for what.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::Key;

/// Something that an object waits for: a change of another object. Its kind has the group in it;
/// [`Resource::wake_on`](crate::client::Resource::wake_on) makes one.
pub type WakeOn = Key;

/// How many changes are remembered for attempts that run while they happen.
const REMEMBERED: usize = 8_192;

/// Who waits for which changes. A change that comes while the attempt that will wait for it is
/// still running is not lost.
#[derive(Debug, Default)]
pub struct Waits {
    by_event: BTreeMap<WakeOn, BTreeSet<Key>>,
    by_waiter: BTreeMap<Key, Vec<WakeOn>>,
    recent: VecDeque<(u64, WakeOn)>,
    changes: u64,
}

impl Waits {
    /// The number of changes so far. Taken before an attempt looks at anything.
    pub fn mark(&self) -> u64 {
        self.changes
    }

    /// Something changed. Returns who waits for it; they wait no more.
    pub fn changed(&mut self, event: &WakeOn) -> Vec<Key> {
        self.changes += 1;
        self.recent.push_back((self.changes, event.clone()));
        if self.recent.len() > REMEMBERED {
            self.recent.pop_front();
        }
        let waiters = self.by_event.remove(event).unwrap_or_default();
        for waiter in &waiters {
            self.forget(waiter);
        }
        waiters.into_iter().collect()
    }

    /// An object waits for changes from a [mark](Waits::mark) on. Returns false when one of them
    /// has come already, or may have: then there is nothing to wait for.
    pub fn wait(&mut self, waiter: &Key, events: &[WakeOn], mark: u64) -> bool {
        self.forget(waiter);
        let forgotten = self
            .recent
            .front()
            .is_some_and(|(first, _)| *first > mark + 1);
        let came = || {
            let since = self.recent.iter().rev();
            let mut since = since.take_while(|(change, _)| *change > mark);
            since.any(|(_, event)| events.contains(event))
        };
        if events.is_empty() {
            return true;
        }
        if forgotten || came() {
            return false;
        }
        for event in events {
            let waiters = self.by_event.entry(event.clone()).or_default();
            waiters.insert(waiter.clone());
        }
        self.by_waiter.insert(waiter.clone(), events.to_vec());
        true
    }

    /// An object waits for nothing any more.
    pub fn forget(&mut self, waiter: &Key) {
        for event in self.by_waiter.remove(waiter).unwrap_or_default() {
            if let Some(waiters) = self.by_event.get_mut(&event) {
                waiters.remove(waiter);
                if waiters.is_empty() {
                    self.by_event.remove(&event);
                }
            }
        }
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.by_waiter.len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.by_waiter.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_during_the_attempt_is_not_lost() {
        let (app, source) = (Key::new("App", "a", "x"), Key::new("Source", "a", "s"));
        let mut waits = Waits::default();
        let mark = waits.mark();
        assert_eq!(waits.changed(&source), []);
        assert!(!waits.wait(&app, std::slice::from_ref(&source), mark));
        let mark = waits.mark();
        assert!(waits.wait(&app, std::slice::from_ref(&source), mark));
        assert_eq!(waits.changed(&source), std::slice::from_ref(&app));
        assert_eq!(waits.changed(&source), []);
        assert!(waits.is_empty() && waits.by_event.is_empty());
        let mark = waits.mark();
        for number in 0..=REMEMBERED {
            waits.changed(&Key::new("Other", "a", number.to_string()));
        }
        assert!(!waits.wait(&app, &[source], mark), "too long ago to know");
    }
}
