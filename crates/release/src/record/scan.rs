//! JSON read from a stream, value by value, so that large ones need not be held.

use std::io::BufRead;

use everflow_json::Value;
use everflow_limits::{Budget, Exceeded};

use crate::error::Unreadable;

/// Takes parts of a value's text as they come.
pub(super) type Sink<'s> = &'s mut dyn FnMut(&[u8]);

/// What a value takes beside its text, in bytes.
const VALUE: usize = 64;

/// Reads one document from its start to its end.
pub(super) struct Scanner<'b, R> {
    input: R,
    budget: &'b Budget,
    /// What the whole document would take as a tree, as far as it was read.
    weight: usize,
}

/// What [`Scanner::entry`] came to.
pub(super) enum Entry {
    /// A key; its value follows.
    Key(String),
    /// The end of the object.
    End,
}

impl<'b, R: BufRead> Scanner<'b, R> {
    pub(super) fn new(input: R, budget: &'b Budget) -> Self {
        Scanner {
            input,
            budget,
            weight: 0,
        }
    }

    /// Counts what is passed, and ends where the whole would be too large to be read later.
    fn pass(&mut self, bytes: usize, values: usize) -> Result<(), Exceeded> {
        self.weight = self.weight.saturating_add(bytes + values * VALUE);
        self.budget.check()?;
        match self.weight as u64 > self.budget.share() {
            true => Err(Exceeded::Memory {
                limit: self.budget.share(),
            }),
            false => Ok(()),
        }
    }

    /// Enters an object or a list.
    pub(super) fn open(&mut self, bracket: u8) -> Result<(), Unreadable> {
        match self.next_byte()? {
            found if found == bracket => Ok(()),
            _ => Err(Unreadable::NotARecord),
        }
    }

    /// The next key of the object that was entered.
    pub(super) fn entry(&mut self) -> Result<Entry, Unreadable> {
        let mut first = self.next_byte()?;
        if first == b',' {
            first = self.next_byte()?;
        }
        match first {
            b'}' => Ok(Entry::End),
            b'"' => {
                let mut text = vec![b'"'];
                self.string(&mut |part| text.extend_from_slice(part))?;
                let key = everflow_json::from_slice(&text)?;
                match self.next_byte()? {
                    b':' => Ok(Entry::Key(key)),
                    _ => Err(Unreadable::NotARecord),
                }
            }
            _ => Err(Unreadable::NotARecord),
        }
    }

    /// Whether the list that was entered has another item.
    pub(super) fn has_item(&mut self) -> Result<bool, Unreadable> {
        let mut next = self.peek()?;
        if next == b',' {
            self.next_byte()?;
            next = self.peek()?;
        }
        if next == b']' {
            self.next_byte()?;
            return Ok(false);
        }
        Ok(true)
    }

    /// What kind of value follows, by its first byte.
    pub(super) fn peek(&mut self) -> Result<u8, Unreadable> {
        loop {
            let buffer = self.input.fill_buf()?;
            match buffer.first() {
                None => return Err(Unreadable::Incomplete),
                Some(byte) if byte.is_ascii_whitespace() => self.input.consume(1),
                Some(byte) => return Ok(*byte),
            }
        }
    }

    /// The next value as a tree. What it takes stays charged.
    pub(super) fn value(&mut self) -> Result<Value, Unreadable> {
        let (mut text, before) = (Vec::new(), self.weight);
        self.raw(&mut |part| text.extend_from_slice(part))?;
        self.budget.charge(self.weight - before)?;
        let _held = self.budget.hold(text.len())?;
        Ok(everflow_json::from_slice(&text)?)
    }

    /// Passes the next value by.
    pub(super) fn skip(&mut self) -> Result<(), Unreadable> {
        self.raw(&mut |_| ())
    }

    /// Gives the text of the next value in parts.
    pub(super) fn raw(&mut self, sink: Sink<'_>) -> Result<(), Unreadable> {
        let mut depth = 0_u64;
        loop {
            let byte = self.peek()?;
            match byte {
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.checked_sub(1).ok_or(Unreadable::NotARecord)?,
                b'"' => {
                    self.next_byte()?;
                    sink(b"\"");
                    self.string(sink)?;
                    if depth == 0 {
                        return Ok(());
                    }
                    continue;
                }
                b',' | b':' => {}
                _ => {
                    self.pass(0, 1)?;
                    self.word(sink)?;
                    if depth == 0 {
                        return Ok(());
                    }
                    continue;
                }
            }
            self.next_byte()?;
            self.pass(1, usize::from(matches!(byte, b'{' | b'[')))?;
            sink(&[byte]);
            if depth == 0 && matches!(byte, b'}' | b']') {
                return Ok(());
            }
        }
    }

    /// The rest of a string whose first quote has been read, with its last quote.
    fn string(&mut self, sink: Sink<'_>) -> Result<(), Unreadable> {
        let mut escaped = false;
        self.pass(0, 1)?;
        loop {
            let buffer = self.input.fill_buf()?;
            if buffer.is_empty() {
                return Err(Unreadable::Incomplete);
            }
            let mut end = None;
            for (index, byte) in buffer.iter().enumerate() {
                match byte {
                    _ if escaped => escaped = false,
                    b'\\' => escaped = true,
                    b'"' => {
                        end = Some(index + 1);
                        break;
                    }
                    _ => {}
                }
            }
            let used = end.unwrap_or(buffer.len());
            sink(&buffer[..used]);
            self.input.consume(used);
            self.pass(used, 0)?;
            if end.is_some() {
                return Ok(());
            }
        }
    }

    /// A number, `true`, `false` or `null`.
    fn word(&mut self, sink: Sink<'_>) -> Result<(), Unreadable> {
        loop {
            let buffer = self.input.fill_buf()?;
            let is_end = |byte: &u8| byte.is_ascii_whitespace() || b",:]}".contains(byte);
            let end = buffer.iter().position(is_end);
            let used = end.unwrap_or(buffer.len());
            sink(&buffer[..used]);
            self.input.consume(used);
            self.pass(used, 0)?;
            if end.is_some() || used == 0 {
                return Ok(());
            }
        }
    }

    fn next_byte(&mut self) -> Result<u8, Unreadable> {
        let byte = self.peek()?;
        self.input.consume(1);
        Ok(byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    fn scanner<'t>(text: &'t str, budget: &'t Budget) -> Scanner<'t, BufReader<&'t [u8]>> {
        // A buffer so small that every token is cut.
        Scanner::new(BufReader::with_capacity(3, text.as_bytes()), budget)
    }

    #[test]
    fn values_are_found_wherever_the_buffer_ends() {
        let budget = Budget::unlimited();
        let mut scanner = scanner(
            " {\"a\" : [1, {\"x\\\"}\": \"]\"}, null], \"b\":\"te\\\\xt\", \"c\":-1.5e3,\"d\":true}",
            &budget,
        );
        scanner.open(b'{').unwrap();
        let mut seen = Vec::new();
        while let Entry::Key(key) = scanner.entry().unwrap() {
            seen.push((key, scanner.value().unwrap().to_string()));
        }
        let seen: Vec<(&str, &str)> = seen
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        assert_eq!(
            seen,
            [
                ("a", "[1,{\"x\\\"}\":\"]\"},null]"),
                ("b", "\"te\\\\xt\""),
                ("c", "-1500.0"),
                ("d", "true")
            ]
        );
    }

    #[test]
    fn lists_are_walked_item_by_item() {
        let budget = Budget::unlimited();
        let mut scanner = scanner("[ 1 , \"]\",[2] ]", &budget);
        scanner.open(b'[').unwrap();
        let mut count = 0;
        while scanner.has_item().unwrap() {
            scanner.skip().unwrap();
            count += 1;
        }
        assert_eq!(count, 3);
    }

    #[test]
    fn texts_that_end_too_soon_are_errors() {
        for text in ["{\"a\":[1", "{\"a\":\"x", "{\"a\"", "{", ""] {
            let budget = Budget::unlimited();
            let mut scanner = scanner(text, &budget);
            let walked = scanner.open(b'{').and_then(|()| {
                while let Entry::Key(_) = scanner.entry()? {
                    scanner.skip()?;
                }
                Ok(())
            });
            assert!(walked.is_err(), "{text}");
        }
    }
}
