//! Go slices.

use std::cell::OnceCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use crate::types::GoType;
use crate::value::{Value, drop_without_recursion};

/// A Go slice of any element type. Cheap to clone; slicing shares the items.
#[derive(Clone)]
pub struct List {
    inner: Rc<Inner>,
    start: u32,
    len: u32,
}

struct Inner {
    go_type: GoType,
    nil: bool,
    /// Those of a byte slice are made when they are asked for.
    items: OnceCell<Vec<Value>>,
    bytes: Arc<[u8]>,
}

impl Inner {
    fn items(&self) -> &Vec<Value> {
        self.items
            .get_or_init(|| self.bytes.iter().map(|byte| Value::Uint8(*byte)).collect())
    }

    fn len(&self) -> usize {
        self.items.get().map_or(self.bytes.len(), Vec::len)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(items) = self.items.get_mut() {
            drop_without_recursion(items);
        }
    }
}

impl List {
    /// A `[]interface {}`.
    pub fn new(items: Vec<Value>) -> Self {
        List::typed(GoType::ANY_SLICE, items)
    }

    /// A slice of the given type (a [`GoType::Slice`] or a named one). The caller sees to it that
    /// the items fit.
    pub fn typed(go_type: GoType, items: Vec<Value>) -> Self {
        let len = u32::try_from(items.len()).unwrap_or(u32::MAX);
        List {
            inner: Rc::new(Inner {
                go_type,
                nil: false,
                items: OnceCell::from(items),
                bytes: Arc::default(),
            }),
            start: 0,
            len,
        }
    }

    /// A `[]uint8` that shares the bytes. They become values only when items are asked for.
    pub fn of_bytes(bytes: Arc<[u8]>) -> Self {
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        List {
            inner: Rc::new(Inner {
                go_type: GoType::BYTES,
                nil: false,
                items: OnceCell::new(),
                bytes,
            }),
            start: 0,
            len,
        }
    }

    /// The bytes of a `[]uint8` that have not become values.
    pub fn packed(&self) -> Option<&[u8]> {
        if self.inner.items.get().is_some() {
            return None;
        }
        let start = self.start as usize;
        self.inner.bytes.get(start..start + self.len as usize)
    }

    /// How many values asking for items would make.
    pub(crate) fn unmade_items(&self) -> usize {
        match self.inner.items.get() {
            Some(_) => 0,
            None => self.inner.bytes.len(),
        }
    }

    /// The nil slice of a type. It prints and behaves as an empty one except for `eq … nil`,
    /// `%#v` and JSON.
    pub fn nil(go_type: GoType) -> Self {
        List {
            inner: Rc::new(Inner {
                go_type,
                nil: true,
                items: OnceCell::from(Vec::new()),
                bytes: Arc::default(),
            }),
            start: 0,
            len: 0,
        }
    }

    /// The items.
    pub fn items(&self) -> &[Value] {
        let start = self.start as usize;
        self.inner
            .items()
            .get(start..start + self.len as usize)
            .unwrap_or(&[])
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Go's capacity: how far a slice of this one may reach.
    pub fn capacity(&self) -> usize {
        self.inner.len() - self.start as usize
    }

    /// One item.
    pub fn get(&self, index: usize) -> Option<&Value> {
        self.items().get(index)
    }

    /// The type of the slice.
    pub fn go_type(&self) -> GoType {
        self.inner.go_type
    }

    /// Whether this is a nil slice.
    pub fn is_nil(&self) -> bool {
        self.inner.nil
    }

    /// Whether both are the same slice in memory.
    pub fn is_same(&self, other: &List) -> bool {
        Rc::ptr_eq(&self.inner, &other.inner) && self.start == other.start && self.len == other.len
    }

    /// An address that identifies the items while they live, for `%p`.
    pub(crate) fn address(&self) -> usize {
        let first = match self.inner.items.get() {
            Some(items) => items.as_ptr().addr(),
            None => self.inner.bytes.as_ptr().addr(),
        };
        first + self.start as usize * size_of::<Value>()
    }

    /// `self[from:to]`, which may reach up to the capacity. `None` when out of range.
    pub fn slice(&self, from: usize, to: usize) -> Option<List> {
        if from > to || to > self.capacity() {
            return None;
        }
        Some(List {
            inner: Rc::clone(&self.inner),
            start: self.start + u32::try_from(from).ok()?,
            len: u32::try_from(to - from).ok()?,
        })
    }

    pub(crate) fn is_shared(&self) -> bool {
        Rc::strong_count(&self.inner) > 1
    }

    /// Moves the items out when nobody else holds them.
    pub(crate) fn take_items(&mut self) -> Vec<Value> {
        Rc::get_mut(&mut self.inner)
            .and_then(|inner| inner.items.take())
            .unwrap_or_default()
    }
}

impl FromIterator<Value> for List {
    fn from_iter<I: IntoIterator<Item = Value>>(items: I) -> Self {
        List::new(items.into_iter().collect())
    }
}

impl fmt::Debug for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.go_type())?;
        f.debug_list().entries(self.items()).finish()
    }
}
