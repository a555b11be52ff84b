//! Turns: kinds take turns, within a kind namespaces do, within a namespace it goes by arrival.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use smol_str::SmolStr;

use super::{Item, Key, Priority, State};

type Turns<T> = Rotation<SmolStr, T>;

/// Queues that take turns.
#[derive(Debug)]
struct Rotation<K, T> {
    order: VecDeque<K>,
    lanes: BTreeMap<K, T>,
}

impl<K, T> Default for Rotation<K, T> {
    fn default() -> Self {
        Rotation {
            order: VecDeque::new(),
            lanes: BTreeMap::new(),
        }
    }
}

/// Objects of one namespace by arrival. Those put in front have negative places.
#[derive(Debug, Default)]
struct Lane {
    places: BTreeMap<i64, Key>,
    index: BTreeMap<Key, i64>,
}

impl Lane {
    fn push(&mut self, key: &Key, in_front: bool) {
        if self.index.contains_key(key) {
            return;
        }
        let place = match in_front {
            true => self
                .places
                .first_key_value()
                .map_or(0, |(place, _)| place - 1),
            false => self
                .places
                .last_key_value()
                .map_or(0, |(place, _)| place + 1),
        };
        self.places.insert(place, key.clone());
        self.index.insert(key.clone(), place);
    }

    fn remove(&mut self, key: &Key) {
        if let Some(place) = self.index.remove(key) {
            self.places.remove(&place);
        }
    }
}

#[derive(Debug, Default)]
struct Level {
    kinds: Turns<Turns<Lane>>,
}

/// All lanes, and those parked behind hosts that are full.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    levels: [Level; 4],
    parked: BTreeMap<SmolStr, VecDeque<Key>>,
}

impl Lanes {
    pub(super) fn push(&mut self, key: &Key, priority: Priority) {
        self.insert(key, priority, false);
    }

    pub(super) fn push_front(&mut self, key: &Key, priority: Priority) {
        self.insert(key, priority, true);
    }

    fn insert(&mut self, key: &Key, priority: Priority, in_front: bool) {
        let kinds = &mut self.levels[priority as usize].kinds;
        if !kinds.lanes.contains_key(&key.kind) {
            kinds.order.push_back(key.kind.clone());
        }
        let spaces = kinds.lanes.entry(key.kind.clone()).or_default();
        if !spaces.lanes.contains_key(&key.namespace) {
            spaces.order.push_back(key.namespace.clone());
        }
        let lane = spaces.lanes.entry(key.namespace.clone()).or_default();
        lane.push(key, in_front);
    }

    pub(super) fn remove(&mut self, key: &Key, priority: Priority) {
        let kinds = &mut self.levels[priority as usize].kinds;
        let Some(spaces) = kinds.lanes.get_mut(&key.kind) else {
            return;
        };
        let Some(lane) = spaces.lanes.get_mut(&key.namespace) else {
            return;
        };
        lane.remove(key);
        if lane.places.is_empty() {
            spaces.lanes.remove(&key.namespace);
            spaces.order.retain(|space| *space != key.namespace);
        }
        if spaces.lanes.is_empty() {
            kinds.lanes.remove(&key.kind);
            kinds.order.retain(|kind| *kind != key.kind);
        }
    }

    pub(super) fn contains(&self, key: &Key, priority: Priority) -> bool {
        let kinds = &self.levels[priority as usize].kinds;
        let spaces = kinds.lanes.get(&key.kind);
        let lane = spaces.and_then(|spaces| spaces.lanes.get(&key.namespace));
        lane.is_some_and(|lane| lane.index.contains_key(key))
    }

    /// The first whose turn it is. It stays in its lane; its kind and its namespace go to the end
    /// of their rotations.
    pub(super) fn next(&mut self, priority: Priority, full: &BTreeSet<SmolStr>) -> Option<Key> {
        let kinds = &mut self.levels[priority as usize].kinds;
        let place = kinds.order.iter().position(|kind| !full.contains(kind))?;
        let kind = kinds.order.remove(place)?;
        kinds.order.push_back(kind.clone());
        let spaces = kinds.lanes.get_mut(&kind)?;
        let space = spaces.order.pop_front()?;
        spaces.order.push_back(space.clone());
        let lane = spaces.lanes.get(&space)?;
        lane.places.first_key_value().map(|(_, key)| key.clone())
    }

    pub(super) fn park(&mut self, key: &Key, priority: Priority, host: SmolStr) {
        self.remove(key, priority);
        self.parked.entry(host).or_default().push_back(key.clone());
    }

    pub(super) fn is_parked(&self, key: &Key, host: &SmolStr) -> bool {
        self.parked
            .get(host)
            .is_some_and(|parked| parked.contains(key))
    }

    /// Takes an object from where it is parked; whether it was there.
    pub(super) fn unpark(&mut self, key: &Key, host: &SmolStr) -> bool {
        let Some(parked) = self.parked.get_mut(host) else {
            return false;
        };
        let before = parked.len();
        parked.retain(|other| other != key);
        let found = parked.len() < before;
        if parked.is_empty() {
            self.parked.remove(host);
        }
        found
    }

    /// A place at a host is free: all that wait for it go back to their lanes, the most urgent of
    /// them first.
    pub(super) fn unpark_all(
        &mut self,
        host: &SmolStr,
        items: &BTreeMap<Key, Item>,
    ) -> Vec<(Key, Priority)> {
        let parked = self.parked.remove(host).unwrap_or_default();
        let queued = parked.into_iter().rev().filter_map(|key| {
            let item = items.get(&key)?;
            match item.state {
                State::Queued { priority, .. } => Some((key, priority)),
                _ => None,
            }
        });
        queued.collect()
    }
}
