//! Replacement templates.

use everflow_gotemplate::{FuncError, Meter};
use regex_automata::util::captures::Captures;

use crate::support::Output;
use crate::text::runes::{is_digit, is_letter, runes};

/// What `$name` refers to.
enum Reference<'a> {
    Number(usize),
    Name(&'a [u8]),
}

/// A part of a template.
enum Part<'t> {
    Text(&'t [u8]),
    /// The first of these groups that has a place.
    Groups(Vec<usize>),
}

/// A template, read once for all matches.
pub(crate) struct Template<'t> {
    parts: Vec<Part<'t>>,
}

impl<'t> Template<'t> {
    /// Reads a template for an expression whose groups have these names.
    pub(crate) fn new(
        template: &'t [u8],
        names: &[String],
        meter: &Meter<'_>,
    ) -> Result<Self, FuncError> {
        let mut parts = Vec::new();
        let mut rest = template;
        while let Some(at) = rest.iter().position(|&b| b == b'$') {
            meter.charge(3 * size_of::<Part<'_>>() + 32)?;
            parts.push(Part::Text(&rest[..at]));
            rest = &rest[at + 1..];
            if let Some(tail) = rest.strip_prefix(b"$") {
                parts.push(Part::Text(b"$"));
                rest = tail;
                continue;
            }
            let Some((reference, tail)) = read_reference(rest) else {
                parts.push(Part::Text(b"$"));
                continue;
            };
            rest = tail;
            parts.push(Part::Groups(match reference {
                Reference::Number(number) => vec![number],
                Reference::Name(name) => names
                    .iter()
                    .enumerate()
                    .filter(|(_, known)| known.as_bytes() == name)
                    .map(|(index, _)| index)
                    .collect(),
            }));
        }
        parts.push(Part::Text(rest));
        parts.retain(|part| !matches!(part, Part::Text(b"")));
        Ok(Template { parts })
    }

    /// Appends the template with its references replaced by the groups of a match. Each part is a step: what a
    /// group holds may be short, or nothing.
    pub(crate) fn expand(
        &self,
        out: &mut Output<'_>,
        text: &[u8],
        groups: &Captures,
        meter: &Meter<'_>,
    ) -> Result<(), FuncError> {
        meter.steps(self.parts.len() as u64)?;
        for part in &self.parts {
            match part {
                Part::Text(text) => out.push(text)?,
                Part::Groups(wanted) => {
                    let place = wanted.iter().find_map(|group| groups.get_group(*group));
                    if let Some(span) = place {
                        out.push(&text[span.range()])?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Reads the name after a dollar sign, in braces or not.
fn read_reference(text: &[u8]) -> Option<(Reference<'_>, &[u8])> {
    let (braced, text) = match text.strip_prefix(b"{") {
        Some(inner) => (true, inner),
        None => (false, text),
    };
    let len = runes(text)
        .take_while(|&(c, _)| is_letter(c) || is_digit(c) || c == '_')
        .map(|(_, width)| width)
        .sum();
    if len == 0 {
        return None;
    }
    let (name, mut rest) = text.split_at(len);
    if braced {
        rest = rest.strip_prefix(b"}")?;
    }
    let number = std::str::from_utf8(name)
        .ok()
        .filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
        .filter(|digits| digits.len() == 1 || !digits.starts_with('0'))
        .and_then(|digits| digits.parse().ok())
        .filter(|&number: &usize| number < 1_000_000_000);
    Some((
        number.map_or(Reference::Name(name), Reference::Number),
        rest,
    ))
}
