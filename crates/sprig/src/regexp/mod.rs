//! Regular expressions with Go's syntax, complaints and way of finding matches.

mod bounded;
mod class;
mod expand;
mod translate;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

pub use bounded::Bounded;
use everflow_gotemplate::{FuncError, Meter, Value, gofmt};
use expand::Template;
use regex_automata::util::captures::Captures;
use regex_automata::{Input, Span};

use crate::support::{Output, Parts, fail};
use crate::text::runes::decode;

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct Expression {
    bounded: Bounded,
    /// The names of the groups, empty for those without; the first is the whole match.
    names: Vec<String>,
}

/// Expressions that are kept compiled, the last used first.
const KEPT: usize = 32;
/// Larger ones are not.
const MOST_KEPT_BYTES: usize = 32 << 10;

thread_local! {
    static COMPILED: RefCell<VecDeque<(Vec<u8>, Rc<Expression>)>> = RefCell::default();
}

fn known(pattern: &[u8]) -> Option<Rc<Expression>> {
    COMPILED.with_borrow_mut(|kept| {
        let index = kept.iter().position(|(known, _)| known == pattern)?;
        let entry = kept.remove(index)?;
        let expression = Rc::clone(&entry.1);
        kept.push_front(entry);
        Some(expression)
    })
}

/// Compiles an expression; the error is Go's.
pub(crate) fn compile(pattern: &[u8], meter: &Meter<'_>) -> Result<Rc<Expression>, FuncError> {
    if let Some(expression) = known(pattern) {
        return Ok(expression);
    }
    meter.check()?;
    let expression = Rc::new(Expression::new(pattern, meter)?);
    if pattern.len() + expression.bounded.bytes() <= MOST_KEPT_BYTES {
        COMPILED.with_borrow_mut(|kept| {
            kept.push_front((pattern.to_vec(), Rc::clone(&expression)));
            kept.truncate(KEPT);
        });
    }
    Ok(expression)
}

/// As [`compile`], with the text of Go's panic for the error.
pub(crate) fn must_compile(pattern: &[u8], meter: &Meter<'_>) -> Result<Rc<Expression>, FuncError> {
    compile(pattern, meter).map_err(|error| {
        if error.exceeded().is_some() {
            return error;
        }
        let backquoted = std::str::from_utf8(pattern)
            .ok()
            .filter(|text| can_backquote(text));
        let shown = match backquoted {
            Some(text) => format!("`{text}`"),
            None => gofmt::quote(pattern),
        };
        format!("regexp: Compile({shown}): {error}").into()
    })
}

fn can_backquote(text: &str) -> bool {
    text.chars()
        .all(|c| c != '`' && c != '\u{feff}' && c != '\u{7f}' && (c >= ' ' || c == '\t'))
}

impl Expression {
    fn new(pattern: &[u8], meter: &Meter<'_>) -> Result<Self, FuncError> {
        let translated = translate::translate(pattern)?;
        match Bounded::compile(&translated.pattern, meter)? {
            Some(bounded) => Ok(Expression {
                bounded,
                names: translated.names,
            }),
            None => {
                let shown = String::from_utf8_lossy(pattern);
                fail(format!(
                    "error parsing regexp: expression too large: `{shown}`"
                ))
            }
        }
    }

    pub(crate) fn is_match(&self, text: &[u8], meter: &Meter<'_>) -> Result<bool, FuncError> {
        self.bounded.is_match(text, meter)
    }

    /// The first match, empty if there is none.
    pub(crate) fn find<'a>(
        &self,
        text: &'a [u8],
        meter: &Meter<'_>,
    ) -> Result<&'a [u8], FuncError> {
        let _held = self.bounded.prepare(text, 0, meter)?;
        Ok(match self.search(text, 0, meter)? {
            Some(span) => &text[span.range()],
            None => &[],
        })
    }

    /// The next match at or after a place; empty matches inside a character do not count.
    fn search(
        &self,
        text: &[u8],
        from: usize,
        meter: &Meter<'_>,
    ) -> Result<Option<Span>, FuncError> {
        let mut from = from;
        loop {
            meter.steps(1)?;
            let Some(found) = self.bounded.regex.find(Input::new(text).range(from..)) else {
                return Ok(None);
            };
            if !found.is_empty() || is_boundary(text, found.start()) {
                return Ok(Some(found.span()));
            }
            from = found.start() + 1;
        }
    }

    fn search_groups(
        &self,
        text: &[u8],
        from: usize,
        groups: &mut Captures,
        meter: &Meter<'_>,
    ) -> Result<Option<Span>, FuncError> {
        let mut from = from;
        loop {
            meter.steps(1)?;
            self.bounded
                .regex
                .captures(Input::new(text).range(from..), groups);
            let Some(found) = groups.get_match() else {
                return Ok(None);
            };
            if !found.is_empty() || is_boundary(text, found.start()) {
                return Ok(Some(found.span()));
            }
            from = found.start() + 1;
        }
    }

    /// Calls back for every match, at most `limit` times unless that is negative. An empty match right
    /// after another match does not count.
    fn each_match(
        &self,
        text: &[u8],
        limit: i64,
        meter: &Meter<'_>,
        mut call: impl FnMut(Span) -> Result<(), FuncError>,
    ) -> Result<(), FuncError> {
        let _held = self.bounded.prepare(text, 0, meter)?;
        let most = usize::try_from(limit).unwrap_or(text.len() + 1);
        let mut count = 0;
        let mut at = 0;
        let mut previous_end = None;
        while count < most && at <= text.len() {
            let Some(span) = self.search(text, at, meter)? else {
                break;
            };
            let mut accepted = true;
            if span.end == at {
                accepted = previous_end != Some(span.start);
                at += decode(&text[at..]).1.max(1);
            } else {
                at = span.end;
            }
            previous_end = Some(span.end);
            if accepted {
                count += 1;
                call(span)?;
            }
        }
        Ok(())
    }

    /// All matches; `None` where Go gives a nil slice.
    pub(crate) fn find_all(
        &self,
        text: &[u8],
        limit: i64,
        meter: &Meter<'_>,
    ) -> Result<Option<Vec<Value>>, FuncError> {
        let mut parts = Parts::new(meter);
        self.each_match(text, limit, meter, |span| parts.push(&text[span.range()]))?;
        Ok((!parts.values.is_empty()).then_some(parts.values))
    }

    /// The texts between the matches; `None` for a limit of zero.
    pub(crate) fn split(
        &self,
        text: &[u8],
        limit: i64,
        pattern: &[u8],
        meter: &Meter<'_>,
    ) -> Result<Option<Vec<Value>>, FuncError> {
        if limit == 0 {
            return Ok(None);
        }
        if !pattern.is_empty() && text.is_empty() {
            return Ok(Some(vec![Value::string("")]));
        }
        let mut parts = Parts::new(meter);
        let (mut begin, mut end) = (0, 0);
        // The match after the last part only tells that there is a rest.
        self.each_match(text, limit, meter, |span| {
            if limit > 0 && parts.values.len() as i64 == limit - 1 {
                return Ok(());
            }
            end = span.start;
            if span.end != 0 {
                parts.push(&text[begin..end])?;
            }
            begin = span.end;
            Ok(())
        })?;
        if end != text.len() {
            parts.push(&text[begin..])?;
        }
        Ok(Some(parts.values))
    }

    /// The text with every match replaced by `template`, in which `$1` and `${name}` stand for
    /// groups unless it is taken literally.
    pub(crate) fn replace_all(
        &self,
        text: &[u8],
        template: &[u8],
        literal: bool,
        meter: &Meter<'_>,
    ) -> Result<Vec<u8>, FuncError> {
        let groups = if literal { 0 } else { self.names.len() };
        let _held = self.bounded.prepare(text, groups, meter)?;
        let mut out = Output::new(text.len(), meter)?;
        let parts = match literal {
            true => None,
            false => Some(Template::new(template, &self.names, meter)?),
        };
        let mut groups = self.bounded.regex.create_captures();
        let (mut last_end, mut at) = (0, 0);
        while at <= text.len() {
            let found = match literal {
                true => self.search(text, at, meter)?,
                false => self.search_groups(text, at, &mut groups, meter)?,
            };
            let Some(span) = found else {
                break;
            };
            out.push(&text[last_end..span.start])?;
            if span.end > last_end || span.start == 0 {
                match &parts {
                    None => out.push(template)?,
                    Some(parts) => parts.expand(&mut out, text, &groups, meter)?,
                }
            }
            last_end = span.end;
            let width = decode(&text[at..]).1;
            at = span.end.max(at + width.max(1));
        }
        if last_end < text.len() {
            out.push(&text[last_end..])?;
        }
        Ok(out.into_bytes())
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
    use everflow_gotemplate::Limits;
    use everflow_limits::Budget;

    use super::*;

    fn replaced(pattern: &str, text: &str, template: &str) -> String {
        let budget = Budget::unlimited();
        let meter = Meter::new(&Limits::default(), &budget);
        let expression = compile(pattern.as_bytes(), &meter).unwrap();
        let (text, template) = (text.as_bytes(), template.as_bytes());
        let replaced = expression.replace_all(text, template, false, &meter);
        String::from_utf8(replaced.unwrap()).unwrap()
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
        let budget = Budget::unlimited();
        let meter = Meter::new(&Limits::default(), &budget);
        let split = |pattern: &str, text: &str, limit| {
            let expression = compile(pattern.as_bytes(), &meter).unwrap();
            let parts = expression.split(text.as_bytes(), limit, pattern.as_bytes(), &meter);
            parts.unwrap().map(|parts| {
                parts
                    .iter()
                    .map(|part| part.as_text().unwrap().to_string())
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
