//! Replacement templates.

use everflow_gotemplate::FuncError;
use regex_automata::util::captures::Captures;

use crate::support::Output;
use crate::text::runes::{is_digit, is_letter, runes};

/// What `$name` refers to.
enum Reference<'a> {
    Number(usize),
    Name(&'a [u8]),
}

/// Appends the template with its references replaced by the groups of a match.
pub(crate) fn expand(
    out: &mut Output<'_>,
    template: &[u8],
    text: &[u8],
    groups: &Captures,
    names: &[String],
) -> Result<(), FuncError> {
    let mut rest = template;
    while let Some(at) = rest.iter().position(|&b| b == b'$') {
        out.push(&rest[..at])?;
        rest = &rest[at + 1..];
        if let Some(tail) = rest.strip_prefix(b"$") {
            out.push(b"$")?;
            rest = tail;
            continue;
        }
        let Some((reference, tail)) = read_reference(rest) else {
            out.push(b"$")?;
            continue;
        };
        rest = tail;
        let place = match reference {
            Reference::Number(number) => groups.get_group(number),
            Reference::Name(name) => names
                .iter()
                .enumerate()
                .filter(|(_, known)| known.as_bytes() == name)
                .find_map(|(index, _)| groups.get_group(index)),
        };
        if let Some(span) = place {
            out.push(&text[span.range()])?;
        }
    }
    out.push(rest)
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
