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
    entries: RefCell<BTreeMap<GoStr, Value>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        let entries = std::mem::take(self.entries.get_mut());
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
            entries: RefCell::new(entries),
        }))
    }

    /// The nil map of a type: empty, and an insertion fails.
    pub fn nil(go_type: GoType) -> Self {
        Map(Rc::new(Inner {
            go_type,
            nil: true,
            entries: RefCell::default(),
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
        match self.0.entries.try_borrow_mut() {
            Ok(mut entries) => {
                entries.insert(key.into(), value);
                Ok(())
            }
            Err(_) => Err(FuncError::new("concurrent map read and map write")),
        }
    }

    /// Removes a key, for everybody who shares the map.
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Option<Value> {
        let mut entries = self.0.entries.try_borrow_mut().ok()?;
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
        self.0.entries.borrow()
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
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// An address that identifies the map while it lives, for `%p`.
    pub(crate) fn address(&self) -> usize {
        Rc::as_ptr(&self.0).addr()
    }

    pub(crate) fn is_shared(&self) -> bool {
        Rc::strong_count(&self.0) > 1
    }

    /// Moves the entries out when nobody else holds them.
    pub(crate) fn take_entries(&mut self) -> BTreeMap<GoStr, Value> {
        Rc::get_mut(&mut self.0)
            .map(|inner| std::mem::take(inner.entries.get_mut()))
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
