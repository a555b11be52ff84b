//! Go strings: byte sequences that usually, but not always, are UTF-8.

use std::borrow::{Borrow, Cow};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use smol_str::SmolStr;

/// A Go string. Cheap to clone; short strings need no allocation.
///
/// Go strings are bytes. Nearly all are valid UTF-8 and are kept as text, so that [`GoStr::as_str`]
/// costs nothing; the few that are not (`trunc` cutting a character, `b64dec` of binary data) keep
/// their bytes. Equality, order and hash are those of the bytes, as in Go.
#[derive(Clone)]
pub struct GoStr(Repr);

#[derive(Clone)]
enum Repr {
    Text(SmolStr),
    /// Only ever holds bytes that are not valid UTF-8.
    Bytes(Arc<[u8]>),
}

impl GoStr {
    /// The empty string.
    pub const EMPTY: GoStr = GoStr(Repr::Text(SmolStr::new_inline("")));

    /// A string from text.
    pub fn new(text: impl AsRef<str>) -> Self {
        GoStr(Repr::Text(SmolStr::new(text)))
    }

    /// A string from a literal, without allocation.
    pub const fn from_static(text: &'static str) -> Self {
        GoStr(Repr::Text(SmolStr::new_static(text)))
    }

    /// A string from bytes, which need not be UTF-8.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => GoStr(Repr::Text(SmolStr::new(text))),
            Err(_) => GoStr(Repr::Bytes(bytes.into())),
        }
    }

    /// A string from a byte buffer, which need not be UTF-8.
    pub fn from_vec(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => GoStr(Repr::Text(SmolStr::from(text))),
            Err(error) => GoStr(Repr::Bytes(error.into_bytes().into())),
        }
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Text(text) => text.as_bytes(),
            Repr::Bytes(bytes) => bytes,
        }
    }

    /// The text, or `None` when the bytes are not UTF-8. Constant time.
    pub fn as_str(&self) -> Option<&str> {
        match &self.0 {
            Repr::Text(text) => Some(text),
            Repr::Bytes(_) => None,
        }
    }

    /// The text, with U+FFFD in place of bytes that are not UTF-8.
    pub fn to_str_lossy(&self) -> Cow<'_, str> {
        match &self.0 {
            Repr::Text(text) => Cow::Borrowed(text),
            Repr::Bytes(bytes) => String::from_utf8_lossy(bytes),
        }
    }

    /// The text to share; `None` when the bytes are not UTF-8.
    pub fn as_shared(&self) -> Option<&SmolStr> {
        match &self.0 {
            Repr::Text(text) => Some(text),
            Repr::Bytes(_) => None,
        }
    }

    /// The text to keep, as [`GoStr::to_str_lossy`] gives it to read.
    pub fn to_text(&self) -> SmolStr {
        match &self.0 {
            Repr::Text(text) => text.clone(),
            Repr::Bytes(bytes) => String::from_utf8_lossy(bytes).into(),
        }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.as_bytes().len()
    }

    /// Whether it is `""`.
    pub fn is_empty(&self) -> bool {
        self.as_bytes().is_empty()
    }
}

impl Default for GoStr {
    fn default() -> Self {
        GoStr::EMPTY
    }
}

impl From<&str> for GoStr {
    fn from(text: &str) -> Self {
        GoStr::new(text)
    }
}

impl From<SmolStr> for GoStr {
    fn from(text: SmolStr) -> Self {
        GoStr(Repr::Text(text))
    }
}

impl From<String> for GoStr {
    fn from(text: String) -> Self {
        GoStr(Repr::Text(SmolStr::from(text)))
    }
}

impl From<&String> for GoStr {
    fn from(text: &String) -> Self {
        GoStr::new(text)
    }
}

impl From<Vec<u8>> for GoStr {
    fn from(bytes: Vec<u8>) -> Self {
        GoStr::from_vec(bytes)
    }
}

impl From<&[u8]> for GoStr {
    fn from(bytes: &[u8]) -> Self {
        GoStr::from_bytes(bytes)
    }
}

impl AsRef<[u8]> for GoStr {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl Borrow<[u8]> for GoStr {
    fn borrow(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl PartialEq for GoStr {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for GoStr {}

impl PartialEq<str> for GoStr {
    fn eq(&self, other: &str) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl PartialEq<&str> for GoStr {
    fn eq(&self, other: &&str) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl PartialOrd for GoStr {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for GoStr {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl Hash for GoStr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl fmt::Debug for GoStr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.to_str_lossy(), f)
    }
}

impl fmt::Display for GoStr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.to_str_lossy(), f)
    }
}
