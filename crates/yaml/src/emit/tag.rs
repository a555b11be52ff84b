//! Tags in the output: `!!str`, `!local`, `!<tag:example.com,2000:x>`.

use super::emitter::Emitter;

const LONG_PREFIX: &str = "tag:yaml.org,2002:";

/// A tag split into the handle and the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag<'e> {
    /// `!!`, `!`, or nothing for a verbatim tag.
    handle: &'static str,
    suffix: &'e str,
}

impl<'e> Tag<'e> {
    /// Takes a tag in its short (`!!str`) or long form.
    pub fn new(tag: &'e str) -> Self {
        if let Some(suffix) = tag.strip_prefix("!!") {
            Tag {
                handle: "!!",
                suffix,
            }
        } else if let Some(suffix) = tag.strip_prefix('!') {
            Tag {
                handle: "!",
                suffix,
            }
        } else if let Some(suffix) = tag.strip_prefix(LONG_PREFIX) {
            Tag {
                handle: "!!",
                suffix,
            }
        } else {
            Tag {
                handle: "",
                suffix: tag,
            }
        }
    }

    /// How many bytes count towards the length of a key.
    pub fn len(&self) -> usize {
        self.handle.len() + self.suffix.len()
    }
}

impl Emitter<'_> {
    pub(super) fn write_tag(&mut self, tag: Tag<'_>) {
        if tag.handle.is_empty() {
            self.write_indicator("!<", true, false, false);
            self.write_tag_suffix(tag.suffix);
            self.write_indicator(">", false, false, false);
        } else {
            self.write_indicator(tag.handle, true, false, false);
            self.write_tag_suffix(tag.suffix);
        }
        self.whitespace = false;
        self.indention = false;
    }

    /// Everything but URI characters is written as `%XX`.
    fn write_tag_suffix(&mut self, suffix: &str) {
        const HEX: &[u8; 16] = b"0123456789ABCDEF";
        for byte in suffix.bytes() {
            if byte.is_ascii_alphanumeric() || b"_-;/?:@&=+$,.~*'()[]".contains(&byte) {
                self.put(char::from(byte));
            } else {
                self.put('%');
                self.put(char::from(HEX[usize::from(byte >> 4)]));
                self.put(char::from(HEX[usize::from(byte & 0xF)]));
            }
        }
    }
}
