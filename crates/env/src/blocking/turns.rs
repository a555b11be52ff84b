//! Whose turn it is: a plain data structure.

use std::collections::BTreeMap;

use super::Lane;

/// Jobs that wait, and how many run for whom.
///
/// A namespace never holds more than half of the slots (one at least), so that another finds room
/// at once. Among those who wait, the namespace with the fewest running jobs goes first, then the
/// kind with the fewest, then the one that came first.
#[derive(Debug)]
pub struct Turns<T> {
    slots: usize,
    running: usize,
    by_namespace: BTreeMap<String, usize>,
    by_kind: BTreeMap<String, usize>,
    waiting: Vec<(Lane, T)>,
}

impl<T> Turns<T> {
    pub fn new(slots: usize) -> Self {
        Turns {
            slots: slots.max(1),
            running: 0,
            by_namespace: BTreeMap::new(),
            by_kind: BTreeMap::new(),
            waiting: Vec::new(),
        }
    }

    /// Joins the end of the line.
    pub fn wait(&mut self, lane: Lane, ticket: T) {
        self.waiting.push((lane, ticket));
    }

    /// Leaves the line. False when it was not there any more.
    pub fn leave(&mut self, is: impl Fn(&T) -> bool) -> bool {
        let place = self.waiting.iter().position(|(_, ticket)| is(ticket));
        place.map(|place| self.waiting.remove(place)).is_some()
    }

    /// Whether another may run, whoever it is.
    pub fn is_free(&self) -> bool {
        self.running < self.slots && !self.waiting.is_empty()
    }

    /// Whether somebody runs.
    pub fn is_busy(&self) -> bool {
        self.running > 0
    }

    /// The next to run, if there is a free slot for one of them. It counts as running from now on.
    pub fn next(&mut self) -> Option<(Lane, T)> {
        if self.running >= self.slots {
            return None;
        }
        let most = (self.slots / 2).max(1);
        let of =
            |counts: &BTreeMap<String, usize>, key: &str| counts.get(key).copied().unwrap_or(0);
        let (place, _) = self
            .waiting
            .iter()
            .enumerate()
            .map(|(place, (lane, _))| {
                let namespace = of(&self.by_namespace, &lane.namespace);
                (place, (namespace, of(&self.by_kind, &lane.kind)))
            })
            .filter(|(_, (namespace, _))| *namespace < most || self.slots == 1)
            .min_by_key(|(place, running)| (*running, *place))?;
        let (lane, ticket) = self.waiting.remove(place);
        self.running += 1;
        *self.by_namespace.entry(lane.namespace.clone()).or_default() += 1;
        *self.by_kind.entry(lane.kind.clone()).or_default() += 1;
        Some((lane, ticket))
    }

    /// A job of this lane has ended.
    pub fn end(&mut self, lane: &Lane) {
        self.running -= 1;
        for (counts, key) in [
            (&mut self.by_namespace, &lane.namespace),
            (&mut self.by_kind, &lane.kind),
        ] {
            if let Some(count) = counts.get_mut(key) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(kind: &str, namespace: &str) -> Lane {
        Lane {
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: String::new(),
        }
    }

    #[test]
    fn a_namespace_holds_half_of_the_slots_at_most() {
        let mut turns = Turns::new(4);
        for number in 0..4 {
            turns.wait(lane("GitRepository", "hostile"), number);
        }
        assert_eq!(turns.next().unwrap().1, 0);
        assert_eq!(turns.next().unwrap().1, 1);
        assert!(turns.next().is_none());
        turns.wait(lane("GitRepository", "other"), 10);
        assert_eq!(turns.next().unwrap().1, 10);
        turns.end(&lane("GitRepository", "hostile"));
        assert_eq!(turns.next().unwrap().1, 2);
    }

    #[test]
    fn the_namespace_with_the_fewest_running_jobs_goes_first() {
        let mut turns = Turns::new(4);
        turns.wait(lane("Kustomization", "busy"), 0);
        turns.next().unwrap();
        turns.wait(lane("Kustomization", "busy"), 1);
        turns.wait(lane("Kustomization", "quiet"), 2);
        assert_eq!(turns.next().unwrap().1, 2);
        assert!(turns.leave(|ticket| *ticket == 1));
        assert!(!turns.leave(|ticket| *ticket == 1));
        assert!(turns.next().is_none());
    }

    #[test]
    fn one_slot_serves_all() {
        let mut turns = Turns::new(1);
        turns.wait(lane("Bucket", "a"), 1);
        turns.wait(lane("Bucket", "a"), 2);
        let (first, _) = turns.next().unwrap();
        assert!(turns.next().is_none());
        turns.end(&first);
        assert_eq!(turns.next().unwrap().1, 2);
    }
}
