//! Characters of a line, one at a time.

/// A cursor over a line.
pub(super) struct Scanner<'a> {
    rest: &'a str,
    escapes: bool,
}

/// What stopped a run of characters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    At(char),
    End,
}

impl<'a> Scanner<'a> {
    /// Starts at the front; with `escapes` a backslash takes the next character as it is.
    pub(super) fn new(line: &'a str, escapes: bool) -> Self {
        Scanner {
            rest: line,
            escapes,
        }
    }

    /// What has not been read yet.
    pub(super) fn rest(&self) -> &'a str {
        self.rest
    }

    /// Skips bytes of what is left; `count` must end on a character.
    pub(super) fn skip(&mut self, count: usize) {
        self.rest = self.rest.get(count..).unwrap_or("");
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    pub(super) fn next(&mut self) -> Option<char> {
        let character = self.peek()?;
        self.skip(character.len_utf8());
        Some(character)
    }

    /// Reads up to one of `stops`, which is consumed.
    pub(super) fn until(&mut self, stops: &[char]) -> (String, Stop) {
        let mut text = String::new();
        while let Some(character) = self.next() {
            if stops.contains(&character) {
                return (text, Stop::At(character));
            }
            if character == '\\' && self.escapes {
                match self.next() {
                    Some(escaped) => text.push(escaped),
                    None => break,
                }
            } else {
                text.push(character);
            }
        }
        (text, Stop::End)
    }
}
