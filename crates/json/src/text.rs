//! Text of trees and back, for trees alone.
//!
//! `serde_json` knows neither what it reads nor what it writes; a tree does, and takes half the time. What is out of the
//! ordinary is left to `serde_json`: it refuses, in its words, what there is to refuse.

use crate::{Map, Number, Result, Text, Value};

/// Trees that nest deeper than this are read by `serde_json`, which has a limit of its own.
const DEEP: usize = 100;

/// Reads a tree.
///
/// # Errors
/// The text is not JSON, or nests too deep.
pub fn read(text: &[u8]) -> Result<Value> {
    read_without(text, &[])
}

/// Reads a tree without what stands at a path of fields: it costs a fraction of building it.
///
/// # Errors
/// The text is not JSON, or nests too deep.
pub fn read_without(text: &[u8], path: &[&str]) -> Result<Value> {
    let read = std::str::from_utf8(text).ok().and_then(|text| {
        let mut reader = Reader {
            text,
            at: 0,
            items: Vec::new(),
            entries: Vec::with_capacity(32),
        };
        reader.document(path)
    });
    match read {
        Some(value) => Ok(value),
        None => serde_json::from_slice(text),
    }
}

/// Whether a byte cannot stand for itself in a string.
fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// Where a text is read. `None` as an answer means that it is not for this reader.
struct Reader<'t> {
    text: &'t str,
    at: usize,
    /// What was read of lists that are not whole yet: each takes its own from the end when it is whole, and so has no
    /// more room than it needs.
    items: Vec<Value>,
    /// The same of maps.
    entries: Vec<(Text, Value)>,
}

impl<'t> Reader<'t> {
    fn document(&mut self, path: &[&str]) -> Option<Value> {
        let first = self.next()?;
        let value = self.value(first, path, 0)?;
        self.next().is_none().then_some(value)
    }

    /// The next byte that is not white space, taken.
    fn next(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        loop {
            let byte = *bytes.get(self.at)?;
            self.at += 1;
            if !matches!(byte, b' ' | b'\n' | b'\t' | b'\r') {
                return Some(byte);
            }
        }
    }

    /// A value, of which the first byte is taken.
    fn value(&mut self, first: u8, path: &[&str], depth: usize) -> Option<Value> {
        match first {
            b'"' => self.string().map(Value::String),
            b'{' if depth < DEEP => self.map(path, depth),
            b'[' if depth < DEEP => self.list(depth),
            b't' => self.word("rue", Value::Bool(true)),
            b'f' => self.word("alse", Value::Bool(false)),
            b'n' => self.word("ull", Value::Null),
            b'-' | b'0'..=b'9' => self.number(),
            _ => None,
        }
    }

    fn word(&mut self, rest: &str, value: Value) -> Option<Value> {
        let found = self.text.as_bytes().get(self.at..)?;
        self.at += rest.len();
        found.starts_with(rest.as_bytes()).then_some(value)
    }

    fn map(&mut self, path: &[&str], depth: usize) -> Option<Value> {
        let start = self.entries.len();
        let mut byte = self.next()?;
        while byte != b'}' {
            if byte != b'"' {
                return None;
            }
            let key = self.string()?;
            if self.next()? != b':' {
                return None;
            }
            let first = self.next()?;
            match path.split_first() {
                Some((field, [])) if key == *field => self.skip(first, depth + 1)?,
                Some((field, rest)) if key == *field => {
                    let value = self.value(first, rest, depth + 1)?;
                    self.entries.push((key, value));
                }
                _ => {
                    let value = self.value(first, &[], depth + 1)?;
                    self.entries.push((key, value));
                }
            }
            byte = match self.next()? {
                b',' => self.next().filter(|byte| *byte != b'}')?,
                b'}' => b'}',
                _ => return None,
            };
        }
        Some(Value::Object(Map::of_entries(
            self.entries.split_off(start),
        )))
    }

    fn list(&mut self, depth: usize) -> Option<Value> {
        let start = self.items.len();
        let mut byte = self.next()?;
        while byte != b']' {
            let item = self.value(byte, &[], depth + 1)?;
            self.items.push(item);
            byte = match self.next()? {
                b',' => self.next().filter(|byte| *byte != b']')?,
                b']' => b']',
                _ => return None,
            };
        }
        Some(Value::Array(self.items.split_off(start)))
    }

    /// Reads a value and keeps nothing of it.
    fn skip(&mut self, first: u8, depth: usize) -> Option<()> {
        let (open, close) = match first {
            b'"' => return self.quoted().map(drop),
            b'{' => (true, b'}'),
            b'[' => (false, b']'),
            _ => return self.value(first, &[], depth).map(drop),
        };
        if depth >= DEEP {
            return None;
        }
        let mut byte = self.next()?;
        while byte != close {
            if open {
                if byte != b'"' {
                    return None;
                }
                self.quoted()?;
                if self.next()? != b':' {
                    return None;
                }
                byte = self.next()?;
            }
            self.skip(byte, depth + 1)?;
            byte = match self.next()? {
                b',' => self.next().filter(|byte| *byte != close)?,
                byte if byte == close => byte,
                _ => return None,
            };
        }
        Some(())
    }

    /// What stands between quotes, of which the first is taken, and whether there are escapes in it.
    fn quoted(&mut self) -> Option<(&'t str, bool)> {
        let bytes = self.text.as_bytes();
        let (start, mut escaped) = (self.at, false);
        loop {
            let rest = bytes.get(self.at..)?;
            let place = rest.iter().position(|byte| is_special(*byte))?;
            self.at += place + 1;
            match rest.get(place)? {
                b'"' => return Some((self.text.get(start..self.at - 1)?, escaped)),
                b'\\' => {
                    escaped = true;
                    self.at += 1;
                }
                _ => return None,
            }
        }
    }

    fn string(&mut self) -> Option<Text> {
        let start = self.at - 1;
        let (inside, escaped) = self.quoted()?;
        match escaped {
            false => Some(Text::new(inside)),
            true => {
                let quoted = self.text.get(start..self.at)?;
                let text: String = serde_json::from_str(quoted).ok()?;
                Some(text.into())
            }
        }
    }

    fn number(&mut self) -> Option<Value> {
        let bytes = self.text.as_bytes();
        let start = self.at - 1;
        let rest = bytes.get(self.at..)?;
        let length = rest
            .iter()
            .position(|byte| !matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'))
            .unwrap_or(rest.len());
        self.at += length;
        let text = self.text.get(start..self.at)?;
        let plain = text.bytes().all(|byte| byte.is_ascii_digit());
        let number = match plain && (text.len() == 1 || !text.starts_with('0')) {
            true => Number::from(text.parse::<u64>().ok()?),
            false => serde_json::from_str(text).ok()?,
        };
        Some(Value::Number(number))
    }
}

/// Where text is written to.
pub trait Sink {
    /// Takes more text.
    fn put(&mut self, text: &str);
}

impl Sink for String {
    fn put(&mut self, text: &str) {
        self.push_str(text);
    }
}

impl Sink for Vec<u8> {
    fn put(&mut self, text: &str) {
        self.extend_from_slice(text.as_bytes());
    }
}

/// The text of a tree on one line, as `serde_json` writes it.
pub fn to_vec(value: &Value) -> Vec<u8> {
    let mut text = Vec::with_capacity(512);
    write(value, &mut text);
    text
}

/// Writes a tree on one line, as `serde_json` does.
pub fn write(value: &Value, out: &mut impl Sink) {
    match value {
        Value::Null => out.put("null"),
        Value::Bool(true) => out.put("true"),
        Value::Bool(false) => out.put("false"),
        Value::Number(number) => write_number(number, out),
        Value::String(text) => write_string(text, out),
        Value::Array(items) => {
            out.put("[");
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.put(",");
                }
                write(item, out);
            }
            out.put("]");
        }
        Value::Object(map) => write_entries(map, out),
    }
}

/// Writes a map of these entries.
pub fn write_entries<'m>(
    entries: impl IntoIterator<Item = (&'m Text, &'m Value)>,
    out: &mut impl Sink,
) {
    out.put("{");
    for (index, (key, value)) in entries.into_iter().enumerate() {
        if index > 0 {
            out.put(",");
        }
        write_string(key, out);
        out.put(":");
        write(value, out);
    }
    out.put("}");
}

fn write_number(number: &Number, out: &mut impl Sink) {
    let Some(mut rest) = number.as_u64() else {
        out.put(&number.to_string());
        return;
    };
    // The digits, the last one at the end.
    let mut digits = [b'0'; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.put(std::str::from_utf8(&digits[start..]).unwrap_or_default());
}

/// Writes text between quotes, with what must be escaped.
pub fn write_string(text: &str, out: &mut impl Sink) {
    out.put("\"");
    let mut rest = text;
    while let Some(at) = rest.bytes().position(is_special) {
        let (plain, from) = rest.split_at(at);
        out.put(plain);
        let mut others = from.chars();
        match others.next() {
            Some('"') => out.put("\\\""),
            Some('\\') => out.put("\\\\"),
            Some('\n') => out.put("\\n"),
            Some('\r') => out.put("\\r"),
            Some('\t') => out.put("\\t"),
            Some('\u{8}') => out.put("\\b"),
            Some('\u{c}') => out.put("\\f"),
            Some(other) => out.put(&format!("\\u{:04x}", u32::from(other))),
            None => {}
        }
        rest = others.as_str();
    }
    out.put(rest);
    out.put("\"");
}

#[cfg(test)]
mod tests {
    use crate::json;

    use super::*;

    fn written(value: &Value) -> String {
        let mut text = String::new();
        write(value, &mut text);
        text
    }

    /// What is read and written is what `serde_json` reads and writes, and so is what is refused.
    fn alike(text: &str) {
        let theirs = serde_json::from_str::<Value>(text);
        let ours = read(text.as_bytes());
        match (&ours, &theirs) {
            (Ok(ours), Ok(theirs)) => {
                assert_eq!(ours, theirs, "{text}");
                assert_eq!(written(ours), serde_json::to_string(theirs).unwrap());
            }
            (Err(ours), Err(theirs)) => assert_eq!(ours.to_string(), theirs.to_string(), "{text}"),
            _ => panic!("{text}: {ours:?} and {theirs:?}"),
        }
    }

    #[test]
    fn texts_are_read_and_written_as_by_serde_json() {
        for text in [
            r#"{"b":1,"a":[true,false,null,{}],"b":"twice","":""}"#,
            r#" [ ] "#,
            "\t{\n\"a\" : -1 , \"b\":\r[ 1 , 2 ]}",
            r#"["\u0041\n\"\\\/\b\f\r\t\ud83d\ude00","ä€😀","\u0000\u001f\u007f"]"#,
            "[0,-0,1,-1,0.5,-0.0,1e3,1E-2,1.5e+300,18446744073709551615,18446744073709551616,-9223372036854775808,-9223372036854775809,123456789012345678901234567890]",
            r#"{"a": {"a": {"a": [[[[]]]]}}}"#,
            "\"plain\"",
            "12",
            "null",
        ] {
            alike(text);
        }
    }

    #[test]
    fn invalid_json_is_refused_with_the_message_of_serde_json() {
        for text in [
            "",
            " ",
            "{",
            "}",
            "[",
            "[1",
            "[1,",
            "[1,]",
            "[,1]",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":1",
            "{\"a\":1,",
            "{\"a\":1,}",
            "{,}",
            "{1:2}",
            "{\"a\" 1}",
            "{\"a\":1 \"b\":2}",
            "nul",
            "nulll",
            "truefalse",
            "tru",
            "\"open",
            "\"\\",
            "\"\\x\"",
            "\"\\ud800\"",
            "\"a\nb\"",
            "01",
            "-",
            "-a",
            "1.",
            "1e",
            "1e999",
            "--1",
            "+1",
            ".5",
            "1 2",
            "{} x",
            "[1 2]",
        ] {
            alike(text);
        }
        for depth in [50, 99, 100, 101, 126, 127, 128, 129, 500] {
            alike(&format!("{}{}", "[".repeat(depth), "]".repeat(depth)));
            alike(&format!(
                "{}1{}",
                "{\"a\":".repeat(depth),
                "}".repeat(depth)
            ));
        }
        assert!(read(b"\"\xff\"").is_err());
    }

    #[test]
    fn reading_without_a_path_drops_only_that_path() {
        let text = r#"{"a":{"b":{"c":[1,"x\"y",{"d":null}]},"c":1},"b":{"c":2},"c":{"a":{"b":3}}}"#;
        let all: Value = read(text.as_bytes()).unwrap();
        let mut less = all.clone();
        less["a"].as_object_mut().unwrap().remove("b");
        assert_eq!(read_without(text.as_bytes(), &["a", "b"]).unwrap(), less);
        assert_eq!(read_without(text.as_bytes(), &["x"]).unwrap(), all);
        for broken in [
            r#"{"a":{"b":[}}"#,
            r#"{"a":{"b":{"c"}}}"#,
            r#"{"a":{"b":{"c":1,}}}"#,
            r#"{"a":{"b":tru}}"#,
            r#"{"a":{"b":"x}}"#,
        ] {
            assert!(read_without(broken.as_bytes(), &["a", "b"]).is_err());
        }
        let other = json!({"a": [1]}).to_string();
        let read = read_without(other.as_bytes(), &["a", "b"]).unwrap();
        assert_eq!(read, json!({"a": [1]}));
    }

    /// Random trees and random damage to their texts.
    #[test]
    fn random_texts_are_read_alike() {
        let mut random = 1_u64;
        let mut next = |below: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        fn tree(next: &mut impl FnMut(u64) -> u64, depth: u64) -> Value {
            match next(if depth > 3 { 5 } else { 8 }) {
                0 => Value::Null,
                1 => Value::Bool(next(2) == 0),
                2 => json!(next(1 << 30)),
                3 => json!(-(next(1 << 20) as i64)),
                4 => {
                    let letters = ["a", "\"", "\\", "\n", "ü", "\u{1}", " ", "/", "b", "😀"];
                    let text: String = (0..next(30)).map(|_| letters[next(10) as usize]).collect();
                    text.into()
                }
                5 | 6 => {
                    let entries = (0..next(6)).map(|_| {
                        let key = format!("k{}", next(9));
                        (key, tree(next, depth + 1))
                    });
                    entries.collect::<Vec<_>>().into_iter().collect()
                }
                _ => Value::Array((0..next(5)).map(|_| tree(next, depth + 1)).collect()),
            }
        }
        for _ in 0..2_000 {
            let text = tree(&mut next, 0).to_string();
            alike(&text);
            let mut damaged: Vec<char> = text.chars().collect();
            let place = next(damaged.len() as u64) as usize;
            match next(3) {
                0 => drop(damaged.remove(place)),
                1 => damaged.insert(place, ['"', ',', '{', ']', '0'][next(5) as usize]),
                _ => damaged.truncate(place),
            }
            alike(&damaged.into_iter().collect::<String>());
        }
    }
}
