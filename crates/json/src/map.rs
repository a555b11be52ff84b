//! Maps.

use std::fmt;
use std::ops;

use serde::ser::{Serialize, Serializer};

use crate::{Text, Value};

/// A map from text to values, in the order of its keys.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Map {
    /// In strictly ascending order of the keys.
    entries: Vec<(Text, Value)>,
}

/// Where a key is, or where it would be.
#[derive(Debug)]
pub struct Entry<'m> {
    map: &'m mut Map,
    key: Text,
    place: Result<usize, usize>,
}

/// Maps of up to so many entries are searched from their start to their end.
const FEW: usize = 8;

impl Map {
    /// A map with nothing in it.
    pub const fn new() -> Self {
        Map {
            entries: Vec::new(),
        }
    }

    /// A map with room for so many entries.
    pub fn with_capacity(entries: usize) -> Self {
        Map {
            entries: Vec::with_capacity(entries),
        }
    }

    /// How many entries it has.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Takes all entries away.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// The place of a key, or the one where it belongs.
    fn place(&self, key: &str) -> Result<usize, usize> {
        if self.entries.len() > FEW {
            return self
                .entries
                .binary_search_by(|(other, _)| other.as_str().cmp(key));
        }
        for (index, (other, _)) in self.entries.iter().enumerate() {
            match other.as_str().cmp(key) {
                std::cmp::Ordering::Less => {}
                std::cmp::Ordering::Equal => return Ok(index),
                std::cmp::Ordering::Greater => return Err(index),
            }
        }
        Err(self.entries.len())
    }

    fn found(&self, key: &str) -> Option<usize> {
        if self.entries.len() > FEW {
            return self.place(key).ok();
        }
        // Whether two are the same is told by their lengths most of the time.
        self.entries.iter().position(|(other, _)| other == key)
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.found(key).map(|index| &self.entries[index].1)
    }

    /// The value of a key, to be changed.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        self.found(key).map(|index| &mut self.entries[index].1)
    }

    /// A key as it stands here, and its value.
    pub fn get_key_value(&self, key: &str) -> Option<(&Text, &Value)> {
        let (key, value) = &self.entries[self.found(key)?];
        Some((key, value))
    }

    /// Whether there is such a key.
    pub fn contains_key(&self, key: &str) -> bool {
        self.found(key).is_some()
    }

    /// Sets the value of a key; returns what it was.
    pub fn insert(&mut self, key: Text, value: Value) -> Option<Value> {
        match self.place(&key) {
            Ok(index) => Some(std::mem::replace(&mut self.entries[index].1, value)),
            Err(index) => {
                self.entries.insert(index, (key, value));
                None
            }
        }
    }

    /// Takes an entry away; returns its value.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        self.remove_entry(key).map(|(_, value)| value)
    }

    /// Takes an entry away.
    pub fn remove_entry(&mut self, key: &str) -> Option<(Text, Value)> {
        self.found(key).map(|index| self.entries.remove(index))
    }

    /// Keeps only some entries.
    pub fn retain(&mut self, mut keep: impl FnMut(&Text, &mut Value) -> bool) {
        self.entries.retain_mut(|(key, value)| keep(key, value));
    }

    /// The place of a key.
    pub fn entry(&mut self, key: impl Into<Text>) -> Entry<'_> {
        let key = key.into();
        let place = self.place(&key);
        Entry {
            map: self,
            key,
            place,
        }
    }

    /// Takes over all entries of another map.
    pub fn append(&mut self, other: &mut Map) {
        self.extend(std::mem::take(other));
    }

    /// Keys and values.
    pub fn iter(&self) -> Iter<'_> {
        self.entries.iter().map(borrowed)
    }

    /// Keys and values, these to be changed.
    pub fn iter_mut(&mut self) -> IterMut<'_> {
        self.entries.iter_mut().map(lent)
    }

    /// The keys.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &Text> + ExactSizeIterator + Clone {
        self.entries.iter().map(|(key, _)| key)
    }

    /// The values.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Value> + ExactSizeIterator + Clone {
        self.entries.iter().map(|(_, value)| value)
    }

    /// The values, to be changed.
    pub fn values_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut Value> {
        self.entries.iter_mut().map(|(_, value)| value)
    }

    /// The values, without their keys.
    pub fn into_values(self) -> impl DoubleEndedIterator<Item = Value> {
        self.entries.into_iter().map(|(_, value)| value)
    }

    /// Puts entries that came in any order in theirs; of several with one key the last one stays.
    pub(crate) fn of_entries(mut entries: Vec<(Text, Value)>) -> Self {
        let in_order = entries.windows(2).all(|pair| pair[0].0 < pair[1].0);
        if !in_order {
            entries.reverse();
            entries.sort_by(|left, right| left.0.cmp(&right.0));
            entries.dedup_by(|later, first| later.0 == first.0);
        }
        Map { entries }
    }
}

/// Keys and values.
pub type Iter<'m> = std::iter::Map<
    std::slice::Iter<'m, (Text, Value)>,
    fn(&'m (Text, Value)) -> (&'m Text, &'m Value),
>;

/// Keys and values, these to be changed.
pub type IterMut<'m> = std::iter::Map<
    std::slice::IterMut<'m, (Text, Value)>,
    fn(&'m mut (Text, Value)) -> (&'m Text, &'m mut Value),
>;

fn borrowed((key, value): &(Text, Value)) -> (&Text, &Value) {
    (key, value)
}

fn lent((key, value): &mut (Text, Value)) -> (&Text, &mut Value) {
    (key, value)
}

impl<'m> Entry<'m> {
    /// The key.
    pub fn key(&self) -> &Text {
        &self.key
    }

    /// The value, which is this one where there was none.
    pub fn or_insert(self, value: Value) -> &'m mut Value {
        self.or_insert_with(|| value)
    }

    /// The value, which is made where there was none.
    pub fn or_insert_with(self, make: impl FnOnce() -> Value) -> &'m mut Value {
        let index = match self.place {
            Ok(index) => index,
            Err(index) => {
                self.map.entries.insert(index, (self.key, make()));
                index
            }
        };
        &mut self.map.entries[index].1
    }

    /// Changes the value where there is one.
    #[must_use]
    pub fn and_modify(self, change: impl FnOnce(&mut Value)) -> Self {
        if let Ok(index) = self.place {
            change(&mut self.map.entries[index].1);
        }
        self
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl ops::Index<&str> for Map {
    type Output = Value;

    fn index(&self, key: &str) -> &Value {
        static NULL: Value = Value::Null;
        self.get(key).unwrap_or(&NULL)
    }
}

impl ops::IndexMut<&str> for Map {
    fn index_mut(&mut self, key: &str) -> &mut Value {
        self.entry(key).or_insert(Value::Null)
    }
}

impl<K: Into<Text>> FromIterator<(K, Value)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, Value)>>(entries: I) -> Self {
        let entries = entries.into_iter().map(|(key, value)| (key.into(), value));
        Map::of_entries(entries.collect())
    }
}

impl<K: Into<Text>> Extend<(K, Value)> for Map {
    fn extend<I: IntoIterator<Item = (K, Value)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key.into(), value);
        }
    }
}

impl<const N: usize> From<[(Text, Value); N]> for Map {
    fn from(entries: [(Text, Value); N]) -> Self {
        entries.into_iter().collect()
    }
}

impl IntoIterator for Map {
    type Item = (Text, Value);
    type IntoIter = std::vec::IntoIter<(Text, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}

impl<'m> IntoIterator for &'m Map {
    type Item = (&'m Text, &'m Value);
    type IntoIter = Iter<'m>;

    fn into_iter(self) -> Iter<'m> {
        self.iter()
    }
}

impl<'m> IntoIterator for &'m mut Map {
    type Item = (&'m Text, &'m mut Value);
    type IntoIter = IterMut<'m>;

    fn into_iter(self) -> IterMut<'m> {
        self.iter_mut()
    }
}

impl Serialize for Map {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(map: &Map) -> Vec<&str> {
        map.keys().map(Text::as_str).collect()
    }

    #[test]
    fn keys_are_in_order_and_the_last_of_several_stays() {
        let map: Map = [("b", 1), ("a", 2), ("c", 3), ("b", 4)]
            .map(|(key, value)| (key, Value::from(value)))
            .into_iter()
            .collect();
        assert_eq!(keys(&map), ["a", "b", "c"]);
        assert_eq!(map.get("b"), Some(&Value::from(4)));
        let read: Map = serde_json::from_str(r#"{"b": 1, "a": 2, "b": 3}"#).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), r#"{"a":2,"b":3}"#);
    }

    #[test]
    fn large_and_small_maps_answer_alike() {
        for size in [3_usize, 40] {
            let mut map = Map::new();
            for number in (0..size).rev() {
                let key = format!("k{number:02}");
                assert_eq!(map.insert(key.as_str().into(), number.into()), None);
            }
            assert_eq!(map.len(), size);
            assert!(map.keys().is_sorted());
            assert_eq!(map.get("k01"), Some(&1.into()));
            assert_eq!(map.get("k1"), None);
            *map.entry("k01").or_insert(Value::Null) = 7.into();
            assert_eq!(map.insert("k01".into(), 8.into()), Some(7.into()));
            assert_eq!(map.remove("k01"), Some(8.into()));
            assert_eq!(map.remove("k01"), None);
            assert!(!map.contains_key("k01"));
            assert_eq!(map.entry("k01").or_insert(9.into()), &9);
            assert_eq!(keys(&map).get(1), Some(&"k01"));
            map.retain(|key, _| key != "k00");
            assert_eq!(keys(&map).first(), Some(&"k01"));
        }
    }
}
