//! Regular expressions with Go's syntax, complaints and way of finding matches.

mod class;
mod expand;
mod translate;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use everflow_gotemplate::gofmt;
use regex::bytes::{CaptureLocations, Regex, RegexBuilder};

use crate::text::runes::decode;

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct Expression {
    regex: Regex,
    /// The names of the groups, empty for those without; the first is the whole match.
    names: Vec<String>,
}

/// The compiled form of an expression needs at most this many bytes.
const SIZE_LIMIT: usize = 32 << 20;
/// Expressions that are kept compiled.
const KEPT: usize = 256;

thread_local! {
    static COMPILED: RefCell<HashMap<Vec<u8>, Rc<Expression>>> = RefCell::default();
}

/// Compiles an expression; the error is Go's.
pub(crate) fn compile(pattern: &[u8]) -> Result<Rc<Expression>, String> {
    if let Some(known) = COMPILED.with_borrow(|kept| kept.get(pattern).cloned()) {
        return Ok(known);
    }
    let expression = Rc::new(Expression::new(pattern)?);
    COMPILED.with_borrow_mut(|kept| {
        if kept.len() >= KEPT {
            kept.clear();
        }
        kept.insert(pattern.to_vec(), Rc::clone(&expression));
    });
    Ok(expression)
}

/// As [`compile`], with the text of Go's panic for the error.
pub(crate) fn must_compile(pattern: &[u8]) -> Result<Rc<Expression>, String> {
    compile(pattern).map_err(|error| {
        let backquoted = std::str::from_utf8(pattern)
            .ok()
            .filter(|text| can_backquote(text));
        let shown = match backquoted {
            Some(text) => format!("`{text}`"),
            None => gofmt::quote(pattern),
        };
        format!("regexp: Compile({shown}): {error}")
    })
}

fn can_backquote(text: &str) -> bool {
    text.chars()
        .all(|c| c != '`' && c != '\u{feff}' && c != '\u{7f}' && (c >= ' ' || c == '\t'))
}

impl Expression {
    fn new(pattern: &[u8]) -> Result<Self, String> {
        let translated = translate::translate(pattern)?;
        let regex = RegexBuilder::new(&translated.pattern)
            .size_limit(SIZE_LIMIT)
            .nest_limit(4000)
            .build()
            .map_err(|_| {
                let shown = String::from_utf8_lossy(pattern);
                format!("error parsing regexp: expression too large: `{shown}`")
            })?;
        Ok(Self {
            regex,
            names: translated.names,
        })
    }

    pub(crate) fn is_match(&self, text: &[u8]) -> bool {
        self.regex.is_match(text)
    }

    /// The first match, empty if there is none.
    pub(crate) fn find<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        match self.search(text, 0) {
            Some((from, to)) => &text[from..to],
            None => &[],
        }
    }

    /// The next match at or after a place; empty matches inside a character do not count.
    fn search(&self, text: &[u8], from: usize) -> Option<(usize, usize)> {
        let mut from = from;
        loop {
            let found = self.regex.find_at(text, from)?;
            if !found.is_empty() || is_boundary(text, found.start()) {
                return Some((found.start(), found.end()));
            }
            from = found.start() + 1;
        }
    }

    fn search_groups(
        &self,
        text: &[u8],
        from: usize,
        groups: &mut CaptureLocations,
    ) -> Option<(usize, usize)> {
        let mut from = from;
        loop {
            let found = self.regex.captures_read_at(groups, text, from)?;
            if !found.is_empty() || is_boundary(text, found.start()) {
                return Some((found.start(), found.end()));
            }
            from = found.start() + 1;
        }
    }

    /// Where the matches are, at most `limit` unless that is negative. An empty match right after
    /// another match does not count.
    fn find_places(&self, text: &[u8], limit: i64) -> Vec<(usize, usize)> {
        let most = usize::try_from(limit).unwrap_or(text.len() + 1);
        let mut places = Vec::new();
        let mut at = 0;
        let mut previous_end = None;
        while places.len() < most && at <= text.len() {
            let Some((from, to)) = self.search(text, at) else {
                break;
            };
            let mut accepted = true;
            if to == at {
                accepted = previous_end != Some(from);
                at += decode(&text[at..]).1.max(1);
            } else {
                at = to;
            }
            previous_end = Some(to);
            if accepted {
                places.push((from, to));
            }
        }
        places
    }

    /// All matches; `None` where Go gives a nil slice.
    pub(crate) fn find_all(&self, text: &[u8], limit: i64) -> Option<Vec<Vec<u8>>> {
        let places = self.find_places(text, limit);
        (!places.is_empty()).then(|| {
            places
                .into_iter()
                .map(|(from, to)| text[from..to].to_vec())
                .collect()
        })
    }

    /// The texts between the matches; `None` for a limit of zero.
    pub(crate) fn split(&self, text: &[u8], limit: i64, pattern: &[u8]) -> Option<Vec<Vec<u8>>> {
        if limit == 0 {
            return None;
        }
        if !pattern.is_empty() && text.is_empty() {
            return Some(vec![Vec::new()]);
        }
        let mut parts = Vec::new();
        let (mut begin, mut end) = (0, 0);
        for (from, to) in self.find_places(text, limit) {
            if limit > 0 && parts.len() as i64 == limit - 1 {
                break;
            }
            end = from;
            if to != 0 {
                parts.push(text[begin..end].to_vec());
            }
            begin = to;
        }
        if end != text.len() {
            parts.push(text[begin..].to_vec());
        }
        Some(parts)
    }

    /// The text with every match replaced by `template`, in which `$1` and `${name}` stand for
    /// groups unless it is taken literally.
    pub(crate) fn replace_all(&self, text: &[u8], template: &[u8], literal: bool) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len());
        let mut groups = self.regex.capture_locations();
        let (mut last_end, mut at) = (0, 0);
        while at <= text.len() {
            let Some((from, to)) = self.search_groups(text, at, &mut groups) else {
                break;
            };
            out.extend_from_slice(&text[last_end..from]);
            if to > last_end || from == 0 {
                if literal {
                    out.extend_from_slice(template);
                } else {
                    expand::expand(&mut out, template, text, &groups, &self.names);
                }
            }
            last_end = to;
            let width = decode(&text[at..]).1;
            at = to.max(at + width.max(1));
        }
        if last_end < text.len() {
            out.extend_from_slice(&text[last_end..]);
        }
        out
    }
}

/// Whether a character starts (or the text ends) here.
fn is_boundary(text: &[u8], at: usize) -> bool {
    match text.get(at) {
        None => true,
        Some(byte) if byte & 0xc0 != 0x80 => true,
        // A stray continuation byte is a character of its own.
        Some(_) => (1..=3.min(at)).all(|back| decode(&text[at - back..]).1 <= back),
    }
}

/// The text with everything escaped that means something in an expression.
pub(crate) fn quote_meta(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 8);
    for &byte in text {
        if br"\.+*?()|[]{}^$".contains(&byte) {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(pattern: &str, text: &str, template: &str) -> String {
        let expression = compile(pattern.as_bytes()).unwrap();
        String::from_utf8(expression.replace_all(text.as_bytes(), template.as_bytes(), false))
            .unwrap()
    }

    #[test]
    fn replacing() {
        assert_eq!(replaced("x*", "abc", "x"), "xaxbxcx");
        assert_eq!(replaced("a(x*)b", "-ab-axxb-", "${1}W"), "-W-xxW-");
        assert_eq!(replaced("a(x*)b", "-ab-axxb-", "$1W"), "---");
        assert_eq!(replaced("", "é日", "-"), "-é-日-");
        assert_eq!(replaced("(?P<n>b)", "abc", "<$n$$>"), "a<b$>c");
    }

    #[test]
    fn splitting() {
        let split = |pattern: &str, text: &str, limit| {
            let expression = compile(pattern.as_bytes()).unwrap();
            let parts = expression.split(text.as_bytes(), limit, pattern.as_bytes());
            parts.map(|parts| {
                parts
                    .into_iter()
                    .map(|p| String::from_utf8(p).unwrap())
                    .collect::<Vec<_>>()
            })
        };
        assert_eq!(split("z+", "pizza", -1).unwrap(), ["pi", "a"]);
        assert_eq!(split("", "abc", -1).unwrap(), ["a", "b", "c"]);
        assert_eq!(
            split("a*", "abaabaccadaaae", 5).unwrap(),
            ["", "b", "b", "c", "cadaaae"]
        );
        assert_eq!(split("x", "a", 0), None);
    }
}
