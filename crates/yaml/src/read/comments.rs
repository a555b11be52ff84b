//! Comments, attached by the rules of go-yaml v3. They are followed even where nobody wants them,
//! because they decide how far ahead go-yaml looks, and so which error it finds first.

use super::scanner::Scanner;
use super::token::{Mark, Token, TokenKind};
use crate::error::Error;
use std::collections::VecDeque;

/// How far go-yaml looks for the next comment.
const LOOK_AHEAD: usize = 512;

/// Where a comment belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Head,
    Line,
    Foot,
}

#[derive(Debug)]
struct Comment {
    place: Place,
    text: String,
    /// Where the search for it began.
    scan: u32,
    /// The token it belongs to is at or behind this index.
    token: u32,
    start: Mark,
    end: u32,
}

/// Comments that wait for their token, and those that wait for their event.
#[derive(Debug, Default)]
pub(crate) struct CommentQueue {
    queue: VecDeque<Comment>,
    /// Some comment waits for its event.
    pub(crate) unfolded: bool,
    pub(crate) head: String,
    pub(crate) line: String,
    pub(crate) foot: String,
    pub(crate) stem: Option<String>,
}

impl CommentQueue {
    #[inline(always)]
    pub(super) fn waiting(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Gives the comments up to a token to the next event.
    pub(super) fn unfold(&mut self, token: &Token<'_>) {
        while let Some(comment) = self.queue.front() {
            if token.start.index < comment.token
                || comment.place == Place::Head && token.kind == TokenKind::BlockEnd
            {
                return;
            }
            let target = match comment.place {
                Place::Head => &mut self.head,
                Place::Line => &mut self.line,
                Place::Foot => &mut self.foot,
            };
            self.unfolded = true;
            if !target.is_empty() {
                target.push('\n');
            }
            target.push_str(&comment.text);
            self.queue.pop_front();
        }
    }

    /// Where a block ends that is followed by comments: those at its own indentation belong to it.
    pub(super) fn block_end(&self, mark: Mark, indent: i32) -> Mark {
        let mut end = mark;
        let mut stop = mark.index;
        for comment in self.queue.iter().rev() {
            if comment.end < stop {
                break;
            }
            if comment.start.column as i32 == indent + 1 {
                end = comment.start;
            }
            stop = comment.scan;
        }
        end
    }
}

impl Scanner<'_> {
    /// A comment behind the `-` of a new sequence is the head of what the entry holds.
    pub(super) fn reconsider_line_comment(&mut self) {
        let tokens = self.queue.len();
        if tokens < 2
            || self.queue[tokens - 2].kind != TokenKind::BlockSequenceStart
            || self.queue[tokens - 1].kind != TokenKind::BlockEntry
            || self.is_break_at(self.pos)
        {
            return;
        }
        let here = self.mark();
        if let Some(comment) = self.comments.queue.back_mut()
            && comment.place == Place::Line
        {
            comment.place = Place::Head;
            if comment.start.line + 1 == here.line {
                comment.token = here.index;
            }
        }
    }

    /// The comment behind a token on its line.
    pub(super) fn scan_line_comment(&mut self, token: Mark) -> Result<(), Error> {
        if self.newlines > 0 {
            return Ok(());
        }
        let mut ahead = 0;
        while ahead < LOOK_AHEAD && self.is_blank_at(self.pos + ahead) {
            ahead += 1;
        }
        if ahead == LOOK_AHEAD || self.byte(ahead) != b'#' {
            return Ok(());
        }
        self.pos += ahead;
        let start = self.mark();
        let from = self.pos;
        self.skip_comment();
        self.comments.queue.push_back(Comment {
            place: Place::Line,
            text: self.text[from..self.pos].to_owned(),
            scan: 0,
            token: token.index,
            start,
            end: 0,
        });
        Ok(())
    }

    /// Comments on lines of their own.
    pub(super) fn scan_comments(&mut self, scan_mark: Mark) -> Result<(), Error> {
        let last = self.queue.len().wrapping_sub(1);
        let mut owner = self.queue.get(last);
        if last > 0 && owner.is_some_and(|token| token.kind == TokenKind::FlowEntry) {
            owner = self.queue.get(last - 1);
        }
        let (owner_kind, owner_index) =
            owner.map_or((TokenKind::StreamStart, 1), |t| (t.kind, t.start.index));
        let indent = self.indent.max(0);
        let mut search = CommentSearch {
            scan: scan_mark.index,
            token: owner_index,
            after_value: owner_kind == TokenKind::Value,
            start: Mark::default(),
            indent,
            text: String::new(),
            foot_line: self.foot_line(scan_mark),
            first_empty: self.newlines <= 1,
            recent_empty: false,
            line: self.line,
            column: self.column() as u32,
        };
        let mut ahead = 0;
        while ahead < LOOK_AHEAD {
            if !self.comment_step(&mut search, &mut ahead) {
                break;
            }
            ahead += 1;
        }
        if !search.text.is_empty() {
            self.comments.queue.push_back(Comment {
                place: Place::Head,
                text: search.text,
                scan: search.scan,
                token: search.start.index,
                start: search.start,
                end: self.mark().index + ahead as u32 - 1,
            });
        }
        Ok(())
    }

    /// The line on which a comment must begin to belong to what is before it.
    fn foot_line(&self, scan_mark: Mark) -> i64 {
        if scan_mark.line == 0 {
            return -1;
        }
        let mut line = i64::from(self.line) - i64::from(self.newlines) + 1;
        if self.newlines == 0 && self.column() > 1 {
            line += 1;
        }
        line
    }

    /// Looks at one character; false when the comments are over.
    fn comment_step(&mut self, search: &mut CommentSearch, ahead: &mut usize) -> bool {
        search.column += 1;
        let at = self.pos + *ahead;
        if self.is_blank_at(at) {
            return true;
        }
        let here = Mark {
            index: at as u32 + 1,
            line: search.line,
            column: search.column,
        };
        let byte = self.byte_at(at);
        let close_flow = self.flow_level > 0 && matches!(byte, b']' | b'}');
        if close_flow || self.is_breakz_at(at) {
            if close_flow || !search.recent_empty {
                if close_flow || search.is_foot() {
                    if !search.text.is_empty() {
                        if (search.start.column as i32) - 1 < search.indent {
                            search.token = search.start.index;
                        }
                        let foot = search.split(here);
                        self.comments.queue.push_back(foot);
                    }
                } else if !search.text.is_empty() && byte != 0 {
                    search.text.push('\n');
                }
            }
            if !self.is_break_at(at) {
                return false;
            }
            search.first_empty = false;
            search.recent_empty = true;
            search.column = 0;
            search.line += 1;
            return true;
        }
        if !search.text.is_empty()
            && (search.column as i32) - 1 < search.indent
            && search.column != search.start.column
        {
            let foot = search.split(here);
            self.comments.queue.push_back(foot);
        }
        if byte != b'#' {
            return false;
        }
        if search.text.is_empty() {
            search.start = here;
        } else {
            search.text.push('\n');
        }
        search.recent_empty = false;
        self.take_comment_line(at, &mut search.text);
        *ahead = 0;
        search.column = 0;
        search.line = self.line;
        search.indent = self.indent.max(0);
        true
    }

    /// Moves to the comment at an index and takes it.
    fn take_comment_line(&mut self, at: usize, text: &mut String) {
        while self.pos < at {
            if self.is_break_at(self.pos) {
                self.take_break();
            } else {
                self.skip();
            }
        }
        let from = self.pos;
        self.skip_comment();
        text.push_str(&self.text[from..self.pos]);
    }
}

/// The state of the search for comments on lines of their own.
struct CommentSearch {
    scan: u32,
    token: u32,
    after_value: bool,
    start: Mark,
    indent: i32,
    text: String,
    foot_line: i64,
    first_empty: bool,
    recent_empty: bool,
    line: u32,
    column: u32,
}

impl CommentSearch {
    /// The lines so far belong to what is before them.
    fn is_foot(&self) -> bool {
        self.first_empty
            && (i64::from(self.start.line) == self.foot_line && !self.after_value
                || (self.start.column as i32) - 1 < self.indent)
    }

    /// Ends the lines so far as a foot comment.
    fn split(&mut self, here: Mark) -> Comment {
        let foot = Comment {
            place: Place::Foot,
            text: std::mem::take(&mut self.text),
            scan: self.scan,
            token: self.token,
            start: self.start,
            end: here.index,
        };
        self.scan = here.index;
        self.token = here.index;
        foot
    }
}
