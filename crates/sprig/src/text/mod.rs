//! Text as Go sees it: bytes that are usually, but not always, UTF-8.

pub(crate) mod case;
pub(crate) mod runes;
pub(crate) mod words;
