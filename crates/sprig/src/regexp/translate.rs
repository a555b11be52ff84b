//! Reads an expression by Go's grammar and writes it in that of the regex crate.

use super::class;
use crate::text::runes::to_valid;

/// An expression for the regex crate.
pub(crate) struct Translated {
    pub pattern: String,
    /// Group names by number.
    pub names: Vec<String>,
}

#[derive(Clone, Copy)]
struct Flags {
    fold_case: bool,
    multi_line: bool,
    dot_newline: bool,
    swap_greed: bool,
}

/// A piece that a repetition applies to.
struct Atom {
    pattern: String,
    /// The product of the nested repetition counts inside.
    repeats: u64,
}

/// An open group: the alternatives so far and the atoms of the last one.
struct Frame {
    opening: &'static str,
    /// Flags to go back to when the group ends.
    outer: Flags,
    done: String,
    atoms: Vec<Atom>,
    repeats: u64,
}

const MAX_DEPTH: usize = 1000;
const MAX_REPEAT: i64 = 1000;

struct Translator<'a> {
    whole: &'a str,
    flags: Flags,
    frames: Vec<Frame>,
    names: Vec<String>,
}

/// Translates an expression; the error is Go's.
pub(crate) fn translate(pattern: &[u8]) -> Result<Translated, String> {
    let whole = match std::str::from_utf8(pattern) {
        Ok(whole) => whole,
        Err(error) => {
            let rest = to_valid(&pattern[error.valid_up_to()..]);
            return Err(problem("invalid UTF-8", &rest));
        }
    };
    let flags = Flags {
        fold_case: false,
        multi_line: false,
        dot_newline: false,
        swap_greed: false,
    };
    let mut translator = Translator {
        whole,
        flags,
        frames: Vec::new(),
        names: vec![String::new()],
    };
    translator.open("");
    translator.run()
}

fn problem(what: &str, expression: &str) -> String {
    format!("error parsing regexp: {what}: `{expression}`")
}

/// The part of `from` before `rest`, which is its end.
fn consumed<'a>(from: &'a str, rest: &str) -> &'a str {
    &from[..from.len() - rest.len()]
}

fn first_char(text: &str) -> Option<(char, &str)> {
    let c = text.chars().next()?;
    Some((c, &text[c.len_utf8()..]))
}

impl<'a> Translator<'a> {
    fn run(mut self) -> Result<Translated, String> {
        let mut rest = self.whole;
        let mut last_repeat = "";
        while let Some((c, tail)) = first_char(rest) {
            let here = rest;
            let mut repeated = false;
            rest = match c {
                '(' if tail.starts_with('?') => self.open_special(here)?,
                '(' => {
                    self.names.push(String::new());
                    self.open("(");
                    tail
                }
                '|' => {
                    self.alternative();
                    tail
                }
                ')' => {
                    self.close()?;
                    tail
                }
                '^' => {
                    self.push(if self.flags.multi_line {
                        "(?m:^)"
                    } else {
                        r"\A"
                    });
                    tail
                }
                '$' => {
                    self.push(if self.flags.multi_line {
                        "(?m:$)"
                    } else {
                        r"\z"
                    });
                    tail
                }
                '.' => {
                    self.push(if self.flags.dot_newline {
                        "(?s:.)"
                    } else {
                        r"[^\n]"
                    });
                    tail
                }
                '[' => self.bracketed(here)?,
                '*' | '+' | '?' => {
                    repeated = true;
                    self.repeat(&here[..1], None, here, tail, last_repeat)?
                }
                '{' => match read_counts(here) {
                    Some((min, max, after)) => {
                        repeated = true;
                        self.repeat_counted(min, max, here, after, last_repeat)?
                    }
                    None => {
                        self.literal('{');
                        tail
                    }
                },
                '\\' => self.escaped(here)?,
                _ => {
                    self.literal(c);
                    tail
                }
            };
            last_repeat = if repeated { here } else { "" };
        }
        if self.frames.len() != 1 {
            return Err(problem("missing closing )", self.whole));
        }
        let pattern = self
            .frames
            .pop()
            .map(|frame| finish(frame).pattern)
            .unwrap_or_default();
        Ok(Translated {
            pattern,
            names: self.names,
        })
    }

    fn open(&mut self, opening: &'static str) {
        self.frames.push(Frame {
            opening,
            outer: self.flags,
            done: String::new(),
            atoms: Vec::new(),
            repeats: 1,
        });
    }

    fn close(&mut self) -> Result<(), String> {
        if self.frames.len() < 2 {
            return Err(problem("unexpected )", self.whole));
        }
        if self.frames.len() > MAX_DEPTH {
            return Err(problem("expression nests too deeply", self.whole));
        }
        let Some(frame) = self.frames.pop() else {
            return Ok(());
        };
        self.flags = frame.outer;
        let atom = finish(frame);
        self.push_atom(atom);
        Ok(())
    }

    fn alternative(&mut self) {
        if let Some(frame) = self.frames.last_mut() {
            flush(frame);
            frame.done.push('|');
        }
    }

    fn push(&mut self, pattern: &str) {
        self.push_atom(Atom {
            pattern: pattern.to_owned(),
            repeats: 1,
        });
    }

    fn push_atom(&mut self, atom: Atom) {
        if let Some(frame) = self.frames.last_mut() {
            frame.atoms.push(atom);
        }
    }

    fn literal(&mut self, c: char) {
        let mut plain = String::new();
        let escaped = regex::escape(c.encode_utf8(&mut [0; 4]));
        if self.flags.fold_case && c.is_alphabetic() {
            plain.push_str("(?i:");
            plain.push_str(&escaped);
            plain.push(')');
        } else {
            plain.push_str(&escaped);
        }
        self.push(&plain);
    }

    fn class(&mut self, pattern: &str) {
        if self.flags.fold_case {
            self.push(&format!("(?i:{pattern})"));
        } else {
            self.push(pattern);
        }
    }

    fn repeat_counted(
        &mut self,
        min: i64,
        max: i64,
        here: &'a str,
        after: &'a str,
        last_repeat: &'a str,
    ) -> Result<&'a str, String> {
        if !(0..=MAX_REPEAT).contains(&min) || max > MAX_REPEAT || max >= 0 && min > max {
            return Err(problem("invalid repeat count", consumed(here, after)));
        }
        let operator = match max {
            -1 => format!("{{{min},}}"),
            _ if max == min => format!("{{{min}}}"),
            _ => format!("{{{min},{max}}}"),
        };
        let count = if max < 0 { min } else { max };
        self.repeat(&operator, Some((min, max, count)), here, after, last_repeat)
    }

    fn repeat(
        &mut self,
        operator: &str,
        counts: Option<(i64, i64, i64)>,
        here: &'a str,
        after: &'a str,
        last_repeat: &'a str,
    ) -> Result<&'a str, String> {
        let (lazy, after) = match after.strip_prefix('?') {
            Some(tail) => (true, tail),
            None => (false, after),
        };
        if !last_repeat.is_empty() {
            return Err(problem(
                "invalid nested repetition operator",
                consumed(last_repeat, after),
            ));
        }
        let lazy = if lazy != self.flags.swap_greed {
            "?"
        } else {
            ""
        };
        let Some(atom) = self
            .frames
            .last_mut()
            .and_then(|frame| frame.atoms.last_mut())
        else {
            return Err(problem(
                "missing argument to repetition operator",
                consumed(here, after),
            ));
        };
        atom.pattern = format!("(?:{}){operator}{lazy}", atom.pattern);
        if let Some((min, max, count)) = counts {
            atom.repeats = atom.repeats.saturating_mul(count.unsigned_abs());
            if (min >= 2 || max >= 2) && atom.repeats > MAX_REPEAT as u64 {
                return Err(problem("invalid repeat count", consumed(here, after)));
            }
            atom.repeats = atom.repeats.max(1);
        }
        Ok(after)
    }

    /// `(?P<name>`, `(?<name>`, `(?flags)` and `(?flags:`.
    fn open_special(&mut self, here: &'a str) -> Result<&'a str, String> {
        let name_start = if here.len() > 4 && here.starts_with("(?P<") {
            Some(4)
        } else if here.len() > 3 && here.starts_with("(?<") {
            Some(3)
        } else {
            None
        };
        if let Some(start) = name_start {
            let Some(end) = here.find('>') else {
                return Err(problem("invalid named capture", here));
            };
            let name = &here[start..end];
            if name.is_empty() || !name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric()) {
                return Err(problem("invalid named capture", &here[..=end]));
            }
            self.names.push(name.to_owned());
            self.open("(");
            return Ok(&here[end + 1..]);
        }
        let mut flags = self.flags;
        let (mut on, mut seen) = (true, false);
        let mut rest = &here[2..];
        while let Some((c, tail)) = first_char(rest) {
            rest = tail;
            match c {
                'i' => flags.fold_case = on,
                'm' => flags.multi_line = on,
                's' => flags.dot_newline = on,
                'U' => flags.swap_greed = on,
                '-' if on => {
                    on = false;
                    seen = false;
                    continue;
                }
                ':' | ')' if on || seen => {
                    if c == ':' {
                        self.open("(?:");
                    }
                    self.flags = flags;
                    return Ok(rest);
                }
                _ => break,
            }
            seen = true;
        }
        Err(problem(
            "invalid or unsupported Perl syntax",
            consumed(here, rest),
        ))
    }

    fn escaped(&mut self, here: &'a str) -> Result<&'a str, String> {
        let letter = here.as_bytes().get(1).copied().unwrap_or_default();
        let after = here.get(2..).unwrap_or_default();
        match letter {
            b'A' => self.push(r"\A"),
            b'b' => self.push(r"(?-u:\b)"),
            b'B' => self.push(r"(?-u:\B)"),
            b'z' => self.push(r"\z"),
            b'C' => return Err(problem("invalid escape sequence", &here[..2])),
            b'Q' => {
                let (literal, rest) = after.split_once(r"\E").unwrap_or((after, ""));
                literal.chars().for_each(|c| self.literal(c));
                return Ok(rest);
            }
            b'p' | b'P' => {
                let (class, rest) = unicode_class(here)?;
                self.class(&class);
                return Ok(rest);
            }
            _ => {
                if let Some(class) = class::perl(letter) {
                    self.class(class);
                    return Ok(after);
                }
                let (c, rest) = read_escape(here)?;
                self.literal(c);
                return Ok(rest);
            }
        }
        Ok(after)
    }

    fn bracketed(&mut self, here: &'a str) -> Result<&'a str, String> {
        let mut rest = &here[1..];
        let mut out = String::from("[");
        if let Some(tail) = rest.strip_prefix('^') {
            out.push('^');
            rest = tail;
        }
        let mut first = true;
        while rest.is_empty() || !rest.starts_with(']') || first {
            first = false;
            if rest.len() > 2
                && rest.starts_with("[:")
                && let Some(end) = rest[2..].find(":]")
            {
                let name = &rest[2..end + 2];
                let class = class::posix(name)
                    .ok_or_else(|| problem("invalid character class range", &rest[..end + 4]))?;
                out.push_str(&class);
                rest = &rest[end + 4..];
                continue;
            }
            if rest.starts_with(r"\p") || rest.starts_with(r"\P") {
                let (class, tail) = unicode_class(rest)?;
                out.push_str(&class);
                rest = tail;
                continue;
            }
            if let [b'\\', letter, ..] = rest.as_bytes()
                && let Some(class) = class::perl(*letter)
            {
                out.push_str(class);
                rest = &rest[2..];
                continue;
            }
            rest = read_range(rest, here, &mut out)?;
        }
        out.push(']');
        self.class(&out);
        Ok(&rest[1..])
    }
}

/// Reads one character or a range inside brackets.
fn read_range<'a>(text: &'a str, whole: &str, out: &mut String) -> Result<&'a str, String> {
    let (low, mut rest) = class_char(text, whole)?;
    let mut high = low;
    if rest.len() >= 2 && rest.starts_with('-') && !rest[1..].starts_with(']') {
        (high, rest) = class_char(&rest[1..], whole)?;
        if high < low {
            return Err(problem(
                "invalid character class range",
                consumed(text, rest),
            ));
        }
    }
    out.push_str(&class::member(low));
    if high != low {
        out.push('-');
        out.push_str(&class::member(high));
    }
    Ok(rest)
}

fn class_char<'a>(text: &'a str, whole: &str) -> Result<(char, &'a str), String> {
    match first_char(text) {
        None => Err(problem("missing closing ]", whole)),
        Some(('\\', _)) => read_escape(text),
        Some(found) => Ok(found),
    }
}

/// `\pL`, `\p{Greek}`, `\P{^Greek}`.
fn unicode_class(text: &str) -> Result<(String, &str), String> {
    let mut negated = text.starts_with(r"\P");
    let Some((c, tail)) = first_char(&text[2..]) else {
        return Err(problem("invalid character class range", text));
    };
    let (name, rest) = if c == '{' {
        match text.find('}') {
            Some(end) => (&text[3..end], &text[end + 1..]),
            None => return Err(problem("invalid character class range", text)),
        }
    } else {
        (consumed(&text[2..], tail), tail)
    };
    let plain = match name.strip_prefix('^') {
        Some(plain) => {
            negated = !negated;
            plain
        }
        None => name,
    };
    class::unicode(plain, negated)
        .map(|class| (class, rest))
        .ok_or_else(|| problem("invalid character class range", consumed(text, rest)))
}

/// An escape that stands for one character.
fn read_escape(text: &str) -> Result<(char, &str), String> {
    let Some((c, mut rest)) = first_char(&text[1..]) else {
        return Err(problem("trailing backslash at end of expression", ""));
    };
    let octal = |text: &str| text.chars().next().and_then(|c| c.to_digit(8));
    let code = match c {
        'a' => Some(7),
        'f' => Some(12),
        'n' => Some(10),
        'r' => Some(13),
        't' => Some(9),
        'v' => Some(11),
        '0'..='7' if c == '0' || octal(rest).is_some() => {
            let mut code = c.to_digit(8).unwrap_or_default();
            for _ in 0..2 {
                let Some(digit) = octal(rest) else { break };
                code = code * 8 + digit;
                rest = &rest[1..];
            }
            Some(code)
        }
        'x' => {
            let (code, tail) = read_hex(rest);
            rest = tail;
            code
        }
        _ if c.is_ascii() && !c.is_ascii_alphanumeric() => Some(c as u32),
        _ => None,
    };
    code.and_then(char::from_u32)
        .map(|c| (c, rest))
        .ok_or_else(|| problem("invalid escape sequence", consumed(text, rest)))
}

/// `41` or `{1F600}` after `\x`; also returns what was not looked at.
fn read_hex(text: &str) -> (Option<u32>, &str) {
    if let Some(mut rest) = text.strip_prefix('{') {
        let mut code: Option<u32> = None;
        while let Some((c, tail)) = first_char(rest) {
            rest = tail;
            if c == '}' {
                return (code, rest);
            }
            let Some(digit) = c.to_digit(16) else {
                return (None, rest);
            };
            let next = code.unwrap_or(0) * 16 + digit;
            if next > 0x10_ffff {
                return (None, rest);
            }
            code = Some(next);
        }
        return (None, rest);
    }
    let Some((high, rest)) = first_char(text) else {
        return (None, text);
    };
    let Some((low, rest)) = first_char(rest) else {
        return (None, rest);
    };
    match (high.to_digit(16), low.to_digit(16)) {
        (Some(high), Some(low)) => (Some(high * 16 + low), rest),
        _ => (None, rest),
    }
}

/// `{2}`, `{2,}` and `{2,5}`; an open end is -1, and so are numbers too large to hold.
fn read_counts(text: &str) -> Option<(i64, i64, &str)> {
    let (min, rest) = read_count(text.strip_prefix('{')?)?;
    if let Some(rest) = rest.strip_prefix('}') {
        return Some((min, min, rest));
    }
    let rest = rest.strip_prefix(',')?;
    if let Some(rest) = rest.strip_prefix('}') {
        return Some((min, -1, rest));
    }
    let (max, rest) = read_count(rest)?;
    let rest = rest.strip_prefix('}')?;
    Some((if max < 0 { -1 } else { min }, max, rest))
}

fn read_count(text: &str) -> Option<(i64, &str)> {
    let len = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, rest) = text.split_at(len);
    if digits.is_empty() || digits.len() > 1 && digits.starts_with('0') {
        return None;
    }
    let value = digits
        .parse::<i64>()
        .ok()
        .filter(|&value| value < 1_000_000_000)
        .unwrap_or(-1);
    Some((value, rest))
}

fn flush(frame: &mut Frame) {
    for atom in frame.atoms.drain(..) {
        frame.done.push_str(&atom.pattern);
        frame.repeats = frame.repeats.max(atom.repeats);
    }
}

fn finish(mut frame: Frame) -> Atom {
    flush(&mut frame);
    let closing = if frame.opening.is_empty() { "" } else { ")" };
    Atom {
        pattern: format!("{}{}{closing}", frame.opening, frame.done),
        repeats: frame.repeats,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_messages_match_go() {
        for (pattern, complaint) in [
            ("(", "missing closing ): `(`"),
            ("a)", "unexpected ): `a)`"),
            ("[a-", "missing closing ]: `[a-`"),
            ("(?<=a)b", "invalid named capture: `(?<=a)b`"),
            ("(?!x)", "invalid or unsupported Perl syntax: `(?!`"),
            (r"\1", r"invalid escape sequence: `\1`"),
            (r"\Z", r"invalid escape sequence: `\Z`"),
            ("*a", "missing argument to repetition operator: `*`"),
            ("a**", "invalid nested repetition operator: `**`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("(a{100}){100}", "invalid repeat count: `{100}`"),
            ("[b-a]", "invalid character class range: `b-a`"),
            (r"\p{Nope}", r"invalid character class range: `\p{Nope}`"),
            (r"a\", "trailing backslash at end of expression: ``"),
        ] {
            let error = translate(pattern.as_bytes()).err();
            assert_eq!(
                error,
                Some(format!("error parsing regexp: {complaint}")),
                "{pattern}"
            );
        }
    }

    #[test]
    fn go_syntax_is_understood() {
        for (pattern, text) in [
            (r"^\Qa.b\E+$", "a.bbb"),
            ("a{,2}", "a{,2}"),
            ("[]a]+", "]a"),
            (r"\pN\p{Greek}", "1α"),
            (
                "(?i)straße",
                "STRASSE"
                    .to_lowercase()
                    .as_str()
                    .replace("ss", "ß")
                    .as_str(),
            ),
            ("[[:upper:]&&]", "&"),
            (r"a(?i)*b", "aaab"),
            ("(?U)a+?", "aa"),
        ] {
            let translated = translate(pattern.as_bytes()).map_err(|e| format!("{pattern}: {e}"));
            let regex = regex::bytes::Regex::new(&translated.unwrap().pattern).unwrap();
            assert!(regex.is_match(text.as_bytes()), "{pattern}");
        }
    }
}
