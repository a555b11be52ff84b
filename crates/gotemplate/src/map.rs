//! Go maps: shared and mutable.

use std::cell::{Ref, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use crate::error::FuncError;
use crate::text::GoStr;
use crate::types::GoType;
use crate::value::{Value, drop_without_recursion};

/// A Go map with string keys. Clones share the entries, as in Go: what `set` puts into one is seen
/// through all. Iteration is sorted by key.
#[derive(Clone)]
pub struct Map(Rc<Inner>);

struct Inner {
    go_type: GoType,
    nil: bool,
    entries: Entries,
}

/// Where the entries of a map are.
enum Entries {
    Own(RefCell<BTreeMap<GoStr, Value>>),
    /// In a map of another type: Go's conversion between map types shares them.
    Of(Rc<Inner>),
}

impl Inner {
    fn cell(&self) -> &RefCell<BTreeMap<GoStr, Value>> {
        match &self.entries {
            Entries::Own(cell) => cell,
            Entries::Of(other) => other.cell(),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let Entries::Own(cell) = &mut self.entries else {
            return;
        };
        let entries = std::mem::take(cell.get_mut());
        if entries.values().any(Value::is_container) {
            drop_without_recursion(&mut entries.into_values().collect());
        }
    }
}

impl Map {
    /// An empty `map[string]interface {}`.
    pub fn new() -> Self {
        Map::typed(GoType::ANY_MAP, BTreeMap::new())
    }

    /// A map of the given type (a [`GoType::Map`] or a named one). The caller sees to it that the
    /// values fit.
    pub fn typed(go_type: GoType, entries: BTreeMap<GoStr, Value>) -> Self {
        Map(Rc::new(Inner {
            go_type,
            nil: false,
            entries: Entries::Own(RefCell::new(entries)),
        }))
    }

    /// The nil map of a type: empty, and an insertion fails.
    pub fn nil(go_type: GoType) -> Self {
        Map(Rc::new(Inner {
            go_type,
            nil: true,
            entries: Entries::Own(RefCell::default()),
        }))
    }

    /// The same map under another type, as Go converts between map types: both share the entries.
    pub fn converted(&self, go_type: GoType) -> Self {
        let owner = match &self.0.entries {
            Entries::Own(_) => &self.0,
            Entries::Of(owner) => owner,
        };
        Map(Rc::new(Inner {
            go_type,
            nil: self.0.nil,
            entries: Entries::Of(Rc::clone(owner)),
        }))
    }

    /// The value for a key (any byte string; `"x".as_bytes()`).
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<Value> {
        self.read().get(key.as_ref()).cloned()
    }

    /// Whether there is such a key.
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> bool {
        self.read().contains_key(key.as_ref())
    }

    /// Puts a value, for everybody who shares the map. Fails as Go panics for a nil map.
    pub fn insert(&self, key: impl Into<GoStr>, value: Value) -> Result<(), FuncError> {
        if self.0.nil {
            return Err(FuncError::new("assignment to entry in nil map"));
        }
        match self.0.cell().try_borrow_mut() {
            Ok(mut entries) => {
                entries.insert(key.into(), value);
                Ok(())
            }
            Err(_) => Err(FuncError::new("concurrent map read and map write")),
        }
    }

    /// Removes a key, for everybody who shares the map.
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Option<Value> {
        let mut entries = self.0.cell().try_borrow_mut().ok()?;
        entries.remove(key.as_ref())
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.read().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The keys, sorted.
    pub fn keys(&self) -> Vec<GoStr> {
        self.read().keys().cloned().collect()
    }

    /// The entries as they are now, sorted by key: safe to walk while the map changes.
    pub fn snapshot(&self) -> Vec<(GoStr, Value)> {
        self.read()
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    }

    /// Reads the entries in place. Keep it short: an insertion meanwhile fails.
    pub fn read(&self) -> Ref<'_, BTreeMap<GoStr, Value>> {
        self.0.cell().borrow()
    }

    /// The type of the map.
    pub fn go_type(&self) -> GoType {
        self.0.go_type
    }

    /// Whether this is a nil map.
    pub fn is_nil(&self) -> bool {
        self.0.nil
    }

    /// Whether both are the same map in memory.
    pub fn is_same(&self, other: &Map) -> bool {
        std::ptr::eq(self.0.cell(), other.0.cell())
    }

    /// An address that identifies the map while it lives, for `%p`.
    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(self.0.cell()).addr()
    }

    pub(crate) fn is_shared(&self) -> bool {
        Rc::strong_count(&self.0) > 1
    }

    /// Moves the entries out when nobody else holds them.
    pub(crate) fn take_entries(&mut self) -> BTreeMap<GoStr, Value> {
        Rc::get_mut(&mut self.0)
            .and_then(|inner| match &mut inner.entries {
                Entries::Own(cell) => Some(std::mem::take(cell.get_mut())),
                Entries::Of(_) => None,
            })
            .unwrap_or_default()
    }
}

impl Default for Map {
    fn default() -> Self {
        Map::new()
    }
}

impl<K: Into<GoStr>> FromIterator<(K, Value)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, Value)>>(entries: I) -> Self {
        Map::typed(
            GoType::ANY_MAP,
            entries.into_iter().map(|(k, v)| (k.into(), v)).collect(),
        )
    }
}

impl fmt::Debug for Map {
    /// Writes one level of nesting only: maps can contain themselves.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.go_type(), self.keys())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_converted_map_shares_its_entries() {
        let map: Map = [("a", Value::Int(1))].into_iter().collect();
        let other = map.converted(GoType::STRING_MAP).converted(GoType::ANY_MAP);
        assert!(map.is_same(&other));
        other.insert("b", Value::Int(2)).unwrap();
        assert_eq!(map.len(), 2);
        drop(map);
        assert_eq!(other.len(), 2);
    }
}
