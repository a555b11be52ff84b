//! What the machine is told: events, their comments and the settings of a printer.

use super::analysis::Analysis;
use super::tag::Tag;
use crate::Style;

/// What differs between the printers built on the machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Profile {
    /// Scalars break at the first space past this column.
    pub width: usize,
    /// `|` may hold tabs.
    pub tabs_in_blocks: bool,
    /// `- ` of a list under a key stands in the key's column.
    pub compact_lists: bool,
    /// How much further in what is inside of a node stands.
    pub step: u8,
}

impl Profile {
    /// go-yaml v2: folds at 80 columns.
    pub const V2: Profile = Profile {
        width: 80,
        tabs_in_blocks: false,
        compact_lists: true,
        step: 2,
    };

    /// go-yaml v3 as kyaml sets it up: two spaces, never folds.
    pub const fn v3(compact_lists: bool) -> Profile {
        Profile {
            width: usize::MAX,
            tabs_in_blocks: true,
            compact_lists,
            step: 2,
        }
    }

    /// go-yaml v3 as it comes: four spaces, never folds.
    pub const V3_PLAIN: Profile = Profile {
        width: usize::MAX,
        tabs_in_blocks: true,
        compact_lists: false,
        step: 4,
    };
}

/// One step of a tree's walk.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event<'e> {
    Alias(&'e str),
    Scalar {
        text: &'e str,
        style: Style,
        properties: Properties<'e>,
    },
    SequenceStart {
        flow: bool,
        empty: bool,
        properties: Properties<'e>,
    },
    SequenceEnd,
    MappingStart {
        flow: bool,
        empty: bool,
        properties: Properties<'e>,
    },
    MappingEnd,
}

/// What stands before a node's content.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Properties<'e> {
    pub anchor: Option<&'e str>,
    pub tag: Option<Tag<'e>>,
}

/// Comments that travel with an event; empty where there is none.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EventComments<'a> {
    pub head: &'a str,
    pub line: &'a str,
    pub foot: &'a str,
    /// The foot comment of the key before, printed once its value is complete.
    pub tail: &'a str,
}

/// libyaml's rule: one line, and at most 128 bytes with anchor and tag.
pub(super) fn fits_as_simple_key(event: &Event<'_>, analysis: Option<Analysis>) -> bool {
    const LIMIT: usize = 128;
    let length = match event {
        Event::Alias(name) => name.len(),
        Event::Scalar {
            text, properties, ..
        } => {
            if analysis.is_some_and(|analysis| analysis.multiline) {
                return false;
            }
            text.len() + properties.len()
        }
        Event::SequenceStart {
            empty: true,
            properties,
            ..
        }
        | Event::MappingStart {
            empty: true,
            properties,
            ..
        } => properties.len(),
        _ => return false,
    };
    length <= LIMIT
}

impl Properties<'_> {
    fn len(&self) -> usize {
        self.anchor.map_or(0, str::len) + self.tag.map_or(0, |tag| tag.len())
    }
}
