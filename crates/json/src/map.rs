//! Maps.

mod iter;

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops;

use serde::ser::{Serialize, Serializer};

use crate::{Text, Value};

pub use iter::{IntoIter, Iter, IterMut};

/// A map from text to values, in the order of its keys.
#[derive(Clone, Default)]
pub struct Map {
    entries: Entries,
}

/// What is in a map.
#[derive(Clone)]
enum Entries {
    /// In strictly ascending order of the keys.
    List(Vec<(Text, Value)>),
    /// What has become large in no order: in a list each new entry would move half of the others.
    Tree(BTreeMap<Text, Value>),
}

/// Where a key is, or where it would be.
#[derive(Debug)]
pub struct Entry<'m> {
    map: &'m mut Map,
    key: Text,
}

/// Maps of up to so many entries are searched from their start to their end, of twice as many where only
/// equal ones matter.
const FEW: usize = 8;

/// From so many entries on nothing is put between others in a list.
const MANY: usize = 512;

impl Default for Entries {
    fn default() -> Self {
        Entries::List(Vec::new())
    }
}

/// The place of a key in a list, or the one where it belongs.
fn place(list: &[(Text, Value)], key: &str) -> Result<usize, usize> {
    match list.last() {
        None => return Err(0),
        // Most come in order.
        Some((last, _)) if last.as_str() < key => return Err(list.len()),
        Some(_) if list.len() > FEW => {
            return list.binary_search_by(|(other, _)| other.as_str().cmp(key));
        }
        Some(_) => {}
    }
    for (index, (other, _)) in list.iter().enumerate() {
        match other.as_str().cmp(key) {
            std::cmp::Ordering::Less => {}
            std::cmp::Ordering::Equal => return Ok(index),
            std::cmp::Ordering::Greater => return Err(index),
        }
    }
    Err(list.len())
}

/// The place of a key in a list.
fn found(list: &[(Text, Value)], key: &str) -> Option<usize> {
    if list.len() > 2 * FEW {
        return place(list, key).ok();
    }
    let key = key.as_bytes();
    list.iter()
        .position(|(other, _)| is_same(other.as_bytes(), key))
}

/// Whether two names are the same. Names are short, and looking at both ends of them costs less than asking for a
/// comparison of any two texts.
pub fn is_same(one: &[u8], two: &[u8]) -> bool {
    fn same_ends<const N: usize>(one: &[u8], two: &[u8]) -> bool {
        one.first_chunk::<N>() == two.first_chunk::<N>()
            && one.last_chunk::<N>() == two.last_chunk::<N>()
    }
    if one.len() != two.len() {
        return false;
    }
    match one.len() {
        0..4 => one.iter().eq(two),
        4..8 => same_ends::<4>(one, two),
        8..=16 => same_ends::<8>(one, two),
        _ => one == two,
    }
}

impl Map {
    /// A map with nothing in it.
    pub const fn new() -> Self {
        Map {
            entries: Entries::List(Vec::new()),
        }
    }

    /// A map with room for so many entries.
    pub fn with_capacity(entries: usize) -> Self {
        Map {
            entries: Entries::List(Vec::with_capacity(entries)),
        }
    }

    /// How many entries it has.
    pub fn len(&self) -> usize {
        match &self.entries {
            Entries::List(list) => list.len(),
            Entries::Tree(tree) => tree.len(),
        }
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes all entries away.
    pub fn clear(&mut self) {
        *self = Map::new();
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        match &self.entries {
            Entries::List(list) => found(list, key).map(|index| &list[index].1),
            Entries::Tree(tree) => tree.get(key),
        }
    }

    /// The value of a key, to be changed.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        match &mut self.entries {
            Entries::List(list) => found(list, key).map(|index| &mut list[index].1),
            Entries::Tree(tree) => tree.get_mut(key),
        }
    }

    /// A key as it stands here, and its value.
    pub fn get_key_value(&self, key: &str) -> Option<(&Text, &Value)> {
        match &self.entries {
            Entries::List(list) => list.get(found(list, key)?).map(|(key, value)| (key, value)),
            Entries::Tree(tree) => tree.get_key_value(key),
        }
    }

    /// Whether there is such a key.
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Sets the value of a key; returns what it was.
    pub fn insert(&mut self, key: Text, value: Value) -> Option<Value> {
        let list = match &mut self.entries {
            Entries::List(list) => list,
            Entries::Tree(tree) => return tree.insert(key, value),
        };
        match place(list, &key) {
            Ok(index) => Some(std::mem::replace(&mut list[index].1, value)),
            Err(index) if index < list.len() && list.len() >= MANY => {
                self.grow_to_tree();
                self.insert(key, value)
            }
            Err(index) => {
                list.insert(index, (key, value));
                None
            }
        }
    }

    /// Takes an entry away; returns its value.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let list = match &mut self.entries {
            Entries::List(list) => list,
            Entries::Tree(tree) => return tree.remove(key),
        };
        let index = found(list, key)?;
        if index + 1 < list.len() && list.len() >= MANY {
            self.grow_to_tree();
            return self.remove(key);
        }
        Some(list.remove(index).1)
    }

    /// Keeps the entries in a tree from now on.
    fn grow_to_tree(&mut self) {
        if let Entries::List(list) = &mut self.entries {
            self.entries = Entries::Tree(std::mem::take(list).into_iter().collect());
        }
    }

    /// Keeps only some entries.
    pub fn retain(&mut self, mut keep: impl FnMut(&Text, &mut Value) -> bool) {
        match &mut self.entries {
            Entries::List(list) => list.retain_mut(|(key, value)| keep(key, value)),
            Entries::Tree(tree) => tree.retain(keep),
        }
    }

    /// The place of a key.
    pub fn entry(&mut self, key: impl Into<Text>) -> Entry<'_> {
        Entry {
            map: self,
            key: key.into(),
        }
    }

    /// Keys and values.
    pub fn iter(&self) -> Iter<'_> {
        match &self.entries {
            Entries::List(list) => Iter::List(list.iter()),
            Entries::Tree(tree) => Iter::Tree(tree.iter()),
        }
    }

    /// Keys and values, these to be changed.
    pub fn iter_mut(&mut self) -> IterMut<'_> {
        match &mut self.entries {
            Entries::List(list) => IterMut::List(list.iter_mut()),
            Entries::Tree(tree) => IterMut::Tree(tree.iter_mut()),
        }
    }

    /// The keys.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &Text> + ExactSizeIterator + Clone {
        self.iter().map(|(key, _)| key)
    }

    /// The values.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Value> + ExactSizeIterator + Clone {
        self.iter().map(|(_, value)| value)
    }

    /// The values, to be changed.
    pub fn values_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut Value> {
        self.iter_mut().map(|(_, value)| value)
    }

    /// The values, without their keys.
    pub fn into_values(self) -> impl DoubleEndedIterator<Item = Value> {
        self.into_iter().map(|(_, value)| value)
    }

    /// Puts entries that came in any order in theirs; of several with one key the last one stays.
    pub(crate) fn of_entries(mut entries: Vec<(Text, Value)>) -> Self {
        let in_order = entries.windows(2).all(|pair| pair[0].0 < pair[1].0);
        if !in_order {
            entries.reverse();
            entries.sort_by(|left, right| left.0.cmp(&right.0));
            entries.dedup_by(|later, first| later.0 == first.0);
        }
        Map {
            entries: Entries::List(entries),
        }
    }
}

impl<'m> Entry<'m> {
    /// The value, which is this one where there was none.
    pub fn or_insert(self, value: Value) -> &'m mut Value {
        self.or_insert_with(|| value)
    }

    /// The value, which is made where there was none.
    pub fn or_insert_with(self, make: impl FnOnce() -> Value) -> &'m mut Value {
        let Entry { map, key } = self;
        if let Entries::List(list) = &map.entries
            && list.len() >= MANY
            && place(list, &key).is_err_and(|index| index < list.len())
        {
            map.grow_to_tree();
        }
        match &mut map.entries {
            Entries::Tree(tree) => tree.entry(key).or_insert_with(make),
            Entries::List(list) => {
                let index = place(list, &key).unwrap_or_else(|index| {
                    list.insert(index, (key, make()));
                    index
                });
                &mut list[index].1
            }
        }
    }
}

impl PartialEq for Map {
    fn eq(&self, other: &Self) -> bool {
        match (&self.entries, &other.entries) {
            (Entries::List(ours), Entries::List(theirs)) => ours == theirs,
            _ => self.iter().eq(other.iter()),
        }
    }
}

impl Eq for Map {}

impl Hash for Map {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.iter().for_each(|entry| entry.hash(state));
        self.len().hash(state);
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
    type IntoIter = IntoIter;

    fn into_iter(self) -> IntoIter {
        match self.entries {
            Entries::List(list) => IntoIter::List(list.into_iter()),
            Entries::Tree(tree) => IntoIter::Tree(tree.into_iter()),
        }
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

    #[test]
    fn names_are_the_same_when_all_their_letters_are() {
        let letters = "abcdefghijklmnopqrstuvwxyz".as_bytes();
        for length in 0..=letters.len() {
            let name = &letters[..length];
            assert!(is_same(name, name));
            assert!(!is_same(name, &letters[..letters.len() - length]) || length == 13);
            for place in 0..length {
                let mut other = name.to_vec();
                other[place] = b'-';
                assert!(!is_same(name, &other), "{place} of {length}");
            }
        }
    }

    /// What a map of the standard library does is done, whatever becomes of the entries inside.
    #[test]
    fn maps_that_become_large_in_no_order_behave_like_others() {
        let mut ours = Map::new();
        let mut theirs = BTreeMap::new();
        let mut random = 7_u64;
        for step in 0..20_000_u64 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let key = Text::from(format!("k{}", (random >> 40) % 3_000));
            let value = Value::from(step);
            match step % 5 {
                0 => assert_eq!(ours.remove(&key), theirs.remove(&key)),
                1 => {
                    let made = ours.entry(key.clone()).or_insert(value.clone());
                    assert_eq!(made, theirs.entry(key).or_insert(value));
                }
                _ => assert_eq!(
                    ours.insert(key.clone(), value.clone()),
                    theirs.insert(key, value)
                ),
            }
        }
        assert!(matches!(ours.entries, Entries::Tree(_)));
        assert!(ours.iter().eq(theirs.iter()));
        assert!(ours.iter().rev().eq(theirs.iter().rev()));
        assert_eq!(ours.iter().len(), theirs.len());
        let listed: Map = theirs.clone().into_iter().rev().collect();
        assert!(matches!(listed.entries, Entries::List(_)));
        assert_eq!(ours, listed);
        let hash = |map: &Map| {
            let mut hasher = std::hash::DefaultHasher::new();
            map.hash(&mut hasher);
            hasher.finish()
        };
        assert_eq!(hash(&ours), hash(&listed));
        let (mut ours, mut listed) = (ours, listed);
        for map in [&mut ours, &mut listed] {
            map.values_mut().for_each(|value| *value = Value::Null);
            map.retain(|key, _| key.ends_with('1'));
            let first = map.keys().next().cloned().unwrap();
            assert_eq!(map.remove(&first), Some(Value::Null));
            assert_eq!(map.get(&first), None);
        }
        assert!(ours.into_iter().eq(listed));
    }
}
