//! Wrapping, shortening and the like, byte by byte where the original works so.

use everflow_gotemplate::{FuncError, Meter};

use super::runes::{
    is_digit, is_letter, is_lower, is_space, is_title, is_upper, map, push, to_lower, to_title,
    to_upper,
};
use crate::support::Output;

/// Wraps a line at spaces so that lines have at most `width` bytes. Words that are longer are
/// kept or, if asked for, broken.
pub(crate) fn wrap(
    text: &[u8],
    width: i64,
    line_break: &[u8],
    break_words: bool,
    meter: &Meter<'_>,
) -> Result<Vec<u8>, FuncError> {
    let line_break = if line_break.is_empty() {
        b"\n"
    } else {
        line_break
    };
    let width = usize::try_from(width.max(1)).unwrap_or(usize::MAX);
    let mut out = Output::new(text.len(), meter)?;
    let mut rest = text;
    while rest.len() > width {
        meter.steps(1)?;
        if rest[0] == b' ' {
            rest = &rest[1..];
            continue;
        }
        let window = &rest[..=width];
        let cut = match window.iter().rposition(|&b| b == b' ') {
            Some(space) => (space, space + 1),
            None if break_words => (width, width),
            None => match rest[width..].iter().position(|&b| b == b' ') {
                Some(space) => (width + space, width + space + 1),
                None => {
                    break;
                }
            },
        };
        out.push(&rest[..cut.0])?;
        out.push(line_break)?;
        rest = &rest[cut.1..];
    }
    out.push(rest)?;
    Ok(out.into_bytes())
}

/// Shortens a text to `width` bytes with dots at its end and, from an offset on, at its start.
pub(crate) fn abbreviate(text: &[u8], offset: i64, width: i64) -> Vec<u8> {
    let len = text.len() as i64;
    if text.is_empty() || width < 4 {
        return Vec::new();
    }
    if len <= width {
        return text.to_vec();
    }
    let mut offset = offset.min(len);
    if len - offset < width - 3 {
        offset = len - (width - 3);
    }
    let kept = (width - 3) as usize;
    if offset <= 4 {
        return [&text[..kept], b"..."].concat();
    }
    if width < 7 {
        return Vec::new();
    }
    if offset + width - 3 < len {
        let tail = abbreviate(&text[offset as usize..], 0, width - 3);
        return [b"...".as_slice(), &tail].concat();
    }
    [b"...", &text[text.len() - kept..]].concat()
}

/// The first byte of every word, each taken for a character.
pub(crate) fn initials(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut after_gap = true;
    for &byte in text {
        let c = char::from(byte);
        if is_space(c) {
            after_gap = true;
        } else if after_gap {
            push(&mut out, c);
            after_gap = false;
        }
    }
    out
}

/// The text without white space; if there was any, bytes are taken for characters.
pub(crate) fn without_spaces(text: &[u8]) -> Vec<u8> {
    if !text.iter().any(|&byte| is_space(char::from(byte))) {
        return text.to_vec();
    }
    let mut out = Vec::with_capacity(text.len());
    for c in text
        .iter()
        .map(|&byte| char::from(byte))
        .filter(|&c| !is_space(c))
    {
        push(&mut out, c);
    }
    out
}

/// Lower case for the first letter of every word.
pub(crate) fn untitle(text: &[u8]) -> Vec<u8> {
    let mut at_start = true;
    map(text, |c| {
        if is_space(c) {
            at_start = true;
            c
        } else if std::mem::take(&mut at_start) {
            to_lower(c)
        } else {
            c
        }
    })
}

/// Title case for the first letter of every word.
pub(crate) fn title(text: &[u8]) -> Vec<u8> {
    let mut previous = ' ';
    map(text, |c| {
        let starts = is_separator(previous);
        previous = c;
        if starts { to_title(c) } else { c }
    })
}

fn is_separator(c: char) -> bool {
    if c.is_ascii() {
        return !(c.is_ascii_alphanumeric() || c == '_');
    }
    !is_letter(c) && !is_digit(c) && is_space(c)
}

/// Swaps upper and lower case; a lower case letter at the start of a word gets title case.
pub(crate) fn swap_case(text: &[u8]) -> Vec<u8> {
    let mut at_start = true;
    map(text, |c| {
        if is_upper(c) || is_title(c) {
            at_start = false;
            to_lower(c)
        } else if is_lower(c) {
            if std::mem::take(&mut at_start) {
                to_title(c)
            } else {
                to_upper(c)
            }
        } else {
            at_start = is_space(c);
            c
        }
    })
}

/// Upper case. Text that is plain ASCII or unchanged keeps its bytes.
pub(crate) fn upper(text: &[u8]) -> Vec<u8> {
    if text.is_ascii() {
        text.to_ascii_uppercase()
    } else {
        map(text, to_upper)
    }
}

/// Lower case.
pub(crate) fn lower(text: &[u8]) -> Vec<u8> {
    if text.is_ascii() {
        text.to_ascii_lowercase()
    } else {
        map(text, to_lower)
    }
}

#[cfg(test)]
mod tests {
    use everflow_gotemplate::Limits;
    use everflow_limits::Budget;

    use super::*;

    #[test]
    fn long_words_are_kept_or_broken() {
        let budget = Budget::unlimited();
        let meter = Meter::new(&Limits::default(), &budget);
        let wrapped = |text: &str, width, line_break: &str, break_words| {
            let bytes = (text.as_bytes(), line_break.as_bytes());
            let wrapped = wrap(bytes.0, width, bytes.1, break_words, &meter);
            String::from_utf8(wrapped.unwrap()).unwrap()
        };
        assert_eq!(
            wrapped("the quick brown", 5, "", false),
            "the\nquick\nbrown"
        );
        assert_eq!(wrapped("abcdefghij k", 4, "", false), "abcdefghij\nk");
        assert_eq!(wrapped("abcdefghij k", 4, "|", true), "abcd|efgh|ij k");
    }

    #[test]
    fn shortening() {
        assert_eq!(abbreviate(b"Now is the time", 0, 10), b"Now is ...");
        assert_eq!(abbreviate(b"Now is the time", 6, 10), b"... the...");
    }
}
