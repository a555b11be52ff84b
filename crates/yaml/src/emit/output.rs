//! The lowest level of the machine: characters, breaks, indents, indicators and comments.

use super::analysis::is_break;
use super::emitter::Emitter;
use super::event::EventComments;

impl<'a> Emitter<'a> {
    pub(super) fn put(&mut self, char: char) {
        self.out.push(char);
        self.column += 1;
    }

    /// Copies text without line breaks.
    pub(super) fn put_text(&mut self, text: &str) {
        self.out.push_str(text);
        self.column += if text.is_ascii() {
            text.len()
        } else {
            text.chars().count()
        };
    }

    pub(super) fn put_break(&mut self) {
        self.out.push('\n');
        self.column = 0;
        self.indention = true;
    }

    /// Copies a line break of the text: `\n` as ours, the exotic ones as they are.
    pub(super) fn copy_break(&mut self, char: char) {
        self.out.push(char);
        self.column = 0;
        self.indention = true;
    }

    /// Goes to the current indent, on a new line unless the cursor can stay on this one.
    pub(super) fn write_indent(&mut self) {
        let indent = self.indent.max(0).unsigned_abs();
        if !self.indention || self.column > indent || (self.column == indent && !self.whitespace) {
            self.put_break();
        }
        if self.foot_indent == self.indent.max(0) {
            self.put_break();
        }
        self.put_spaces(indent);
        self.whitespace = true;
        self.foot_indent = -1;
    }

    fn put_spaces(&mut self, up_to: usize) {
        const SPACES: &str = "                                                                ";
        while self.column < up_to {
            let count = (up_to - self.column).min(SPACES.len());
            self.out.push_str(&SPACES[..count]);
            self.column += count;
        }
    }

    pub(super) fn write_indicator(
        &mut self,
        indicator: &str,
        needs_space: bool,
        is_space: bool,
        is_indention: bool,
    ) {
        if needs_space && !self.whitespace {
            self.put(' ');
        }
        self.out.push_str(indicator);
        self.column += indicator.len();
        self.whitespace = is_space;
        self.indention &= is_indention;
    }

    /// The name of an anchor or alias.
    pub(super) fn write_name(&mut self, name: &str) {
        self.put_text(name);
        self.whitespace = false;
        self.indention = false;
    }

    /// Comments stay pending until a state writes them; a later event's comment replaces them.
    pub(super) fn take_comments(&mut self, comments: EventComments<'a>) {
        if !comments.head.is_empty() {
            self.comments.head = comments.head;
        }
        if !comments.line.is_empty() {
            self.comments.line = comments.line;
        }
        if !comments.foot.is_empty() {
            self.comments.foot = comments.foot;
        }
        if !comments.tail.is_empty() {
            self.comments.tail = comments.tail;
        }
    }

    pub(super) fn has_trailing_comment(&self) -> bool {
        !(self.comments.line.is_empty()
            && self.comments.foot.is_empty()
            && self.comments.tail.is_empty())
    }

    pub(super) fn head_comment(&mut self) {
        if !self.comments.tail.is_empty() {
            self.write_indent();
            let comment = std::mem::take(&mut self.comments.tail);
            self.write_comment(comment);
            self.foot_indent = self.indent.max(0);
        }
        if !self.comments.head.is_empty() {
            self.write_indent();
            let comment = std::mem::take(&mut self.comments.head);
            self.write_comment(comment);
        }
    }

    pub(super) fn line_comment(&mut self) {
        if !self.comments.line.is_empty() {
            if !self.whitespace {
                self.put(' ');
            }
            let comment = std::mem::take(&mut self.comments.line);
            self.write_comment(comment);
        }
    }

    /// After `|` or `>`: the line comment, or just the end of the line.
    pub(super) fn line_comment_or_break(&mut self) {
        if self.comments.line.is_empty() {
            self.put_break();
        } else {
            self.line_comment();
        }
    }

    pub(super) fn foot_comment(&mut self) {
        if !self.comments.foot.is_empty() {
            self.write_indent();
            let comment = std::mem::take(&mut self.comments.foot);
            self.write_comment(comment);
            self.foot_indent = self.indent.max(0);
        }
    }

    /// Writes a comment line by line, each with a `#`, and ends its last line.
    fn write_comment(&mut self, comment: &str) {
        let mut at_line_start = false;
        let mut has_pound = false;
        let mut rest = comment;
        while let Some(char) = rest.chars().next() {
            if is_break(rest.as_bytes()) {
                self.copy_break(char);
                at_line_start = true;
                has_pound = false;
            } else {
                if at_line_start {
                    self.write_indent();
                }
                if !has_pound && char != '#' {
                    self.put('#');
                    self.put(' ');
                }
                has_pound = true;
                self.put(char);
                self.indention = false;
                at_line_start = false;
            }
            rest = &rest[char.len_utf8()..];
        }
        if !at_line_start {
            self.put_break();
        }
        self.whitespace = true;
    }
}
