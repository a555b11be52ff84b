//! Characters and their properties, with Go's answers.

use std::collections::BTreeSet;

use everflow_gotemplate::{FuncError, Meter};
use memchr::memmem;
use unicode_general_category::{GeneralCategory, get_general_category};

use crate::support::Output;

/// What stands for a byte that is no part of valid UTF-8.
pub(crate) const REPLACEMENT: char = '\u{fffd}';

/// The first character of `text` and its length in bytes; a stray byte gives
/// [`REPLACEMENT`] and 1, an empty text gives [`REPLACEMENT`] and 0.
pub(crate) fn decode(text: &[u8]) -> (char, usize) {
    let Some(&first) = text.first() else {
        return (REPLACEMENT, 0);
    };
    if first < 0x80 {
        return (char::from(first), 1);
    }
    let head = &text[..text.len().min(4)];
    let valid = match std::str::from_utf8(head) {
        Ok(valid) => valid,
        Err(error) => std::str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default(),
    };
    valid
        .chars()
        .next()
        .map_or((REPLACEMENT, 1), |c| (c, c.len_utf8()))
}

/// The characters of a text with their byte lengths.
pub(crate) fn runes(text: &[u8]) -> impl Iterator<Item = (char, usize)> + '_ {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (c, width) = decode(rest);
        rest = &rest[width..];
        Some((c, width))
    })
}

/// Applies `change` to every character; stray bytes become the replacement character.
pub(crate) fn map(text: &[u8], mut change: impl FnMut(char) -> char) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for (c, _) in runes(text) {
        push(&mut out, change(c));
    }
    out
}

/// Appends a character.
pub(crate) fn push(out: &mut Vec<u8>, c: char) {
    let mut buffer = [0; 4];
    out.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
}

/// A text in which every stray byte is replaced by the replacement character.
pub(crate) fn to_valid(text: &[u8]) -> String {
    match std::str::from_utf8(text) {
        Ok(valid) => valid.to_owned(),
        Err(_) => runes(text).map(|(c, _)| c).collect(),
    }
}

pub(crate) fn is_space(c: char) -> bool {
    c.is_whitespace()
}

pub(crate) fn is_upper(c: char) -> bool {
    get_general_category(c) == GeneralCategory::UppercaseLetter
}

pub(crate) fn is_lower(c: char) -> bool {
    get_general_category(c) == GeneralCategory::LowercaseLetter
}

pub(crate) fn is_title(c: char) -> bool {
    get_general_category(c) == GeneralCategory::TitlecaseLetter
}

pub(crate) fn is_letter(c: char) -> bool {
    use GeneralCategory as G;
    matches!(
        get_general_category(c),
        G::UppercaseLetter
            | G::LowercaseLetter
            | G::TitlecaseLetter
            | G::ModifierLetter
            | G::OtherLetter
    )
}

pub(crate) fn is_digit(c: char) -> bool {
    get_general_category(c) == GeneralCategory::DecimalNumber
}

pub(crate) fn is_number(c: char) -> bool {
    use GeneralCategory as G;
    matches!(
        get_general_category(c),
        G::DecimalNumber | G::LetterNumber | G::OtherNumber
    )
}

pub(crate) fn is_punctuation(c: char) -> bool {
    use GeneralCategory as G;
    matches!(
        get_general_category(c),
        G::ConnectorPunctuation
            | G::DashPunctuation
            | G::OpenPunctuation
            | G::ClosePunctuation
            | G::InitialPunctuation
            | G::FinalPunctuation
            | G::OtherPunctuation
    )
}

/// The upper case of one character, always one character.
pub(crate) fn to_upper(c: char) -> char {
    let mut mapped = c.to_uppercase();
    match (mapped.next(), mapped.next()) {
        (Some(only), None) => only,
        _ => simple_upper(c),
    }
}

/// Characters whose full upper case is longer than one character, but which have a short one.
fn simple_upper(c: char) -> char {
    let code = c as u32;
    let offset = match code {
        0x1f80..=0x1f87 | 0x1f90..=0x1f97 | 0x1fa0..=0x1fa7 => 8,
        0x1fb3 | 0x1fc3 | 0x1ff3 => 9,
        _ => 0,
    };
    char::from_u32(code + offset).unwrap_or(c)
}

/// The lower case of one character, always one character.
pub(crate) fn to_lower(c: char) -> char {
    let mut mapped = c.to_lowercase();
    match (mapped.next(), mapped.next()) {
        (Some(only), None) => only,
        // The only one: a capital I with a dot.
        (first, _) => first.unwrap_or(c),
    }
}

/// The title case of one character.
pub(crate) fn to_title(c: char) -> char {
    match c {
        '\u{1c4}'..='\u{1c6}' => '\u{1c5}',
        '\u{1c7}'..='\u{1c9}' => '\u{1c8}',
        '\u{1ca}'..='\u{1cc}' => '\u{1cb}',
        '\u{1f1}'..='\u{1f3}' => '\u{1f2}',
        // Georgian letters are their own title case.
        '\u{10d0}'..='\u{10fa}' | '\u{10fd}'..='\u{10ff}' => c,
        _ => to_upper(c),
    }
}

/// The text without white space at both ends.
pub(crate) fn trim_space(text: &[u8]) -> &[u8] {
    trim_end_space(trim_start_space(text))
}

fn trim_start_space(mut text: &[u8]) -> &[u8] {
    while let (c, width @ 1..) = decode(text) {
        if !is_space(c) {
            break;
        }
        text = &text[width..];
    }
    text
}

fn trim_end_space(mut text: &[u8]) -> &[u8] {
    while let (c, width @ 1..) = decode_last(text) {
        if !is_space(c) {
            break;
        }
        text = &text[..text.len() - width];
    }
    text
}

/// The last character of a text and its length, as [`decode`] does for the first.
pub(crate) fn decode_last(text: &[u8]) -> (char, usize) {
    for width in 1..=text.len().min(4) {
        let (c, used) = decode(&text[text.len() - width..]);
        if used == width && (c != REPLACEMENT || width == 3) {
            return (c, width);
        }
    }
    (REPLACEMENT, usize::from(!text.is_empty()))
}

/// The text without any of the characters of `set` at both ends.
pub(crate) fn trim_any<'a>(mut text: &'a [u8], set: &[u8]) -> &'a [u8] {
    let set: BTreeSet<char> = runes(set).map(|(c, _)| c).collect();
    while let (c, width @ 1..) = decode(text) {
        if !set.contains(&c) {
            break;
        }
        text = &text[width..];
    }
    while let (c, width @ 1..) = decode_last(text) {
        if !set.contains(&c) {
            break;
        }
        text = &text[..text.len() - width];
    }
    text
}

/// Where `needle` first occurs.
pub(crate) fn find(text: &[u8], needle: &[u8]) -> Option<usize> {
    memmem::find(text, needle)
}

/// Splits at every occurrence of `separator`, into at most `limit` parts if that is not negative.
/// An empty separator splits into characters.
pub(crate) fn split<'t>(
    text: &'t [u8],
    separator: &[u8],
    limit: i64,
) -> impl Iterator<Item = &'t [u8]> {
    let finder = memmem::Finder::new(separator).into_owned();
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    let by_character = separator.is_empty();
    let mut count = 0;
    let mut rest = (limit != 0 && !(by_character && text.is_empty())).then_some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        count += 1;
        let cut = match (by_character, count < most) {
            (_, false) => None,
            (true, true) => Some(decode(text).1).filter(|width| *width < text.len()),
            (false, true) => finder.find(text),
        };
        rest = cut.map(|at| &text[at + finder.needle().len()..]);
        Some(&text[..cut.unwrap_or(text.len())])
    })
}

/// Replaces every occurrence of `old`; an empty one matches around every character.
pub(crate) fn replace(
    text: &[u8],
    old: &[u8],
    new: &[u8],
    meter: &Meter<'_>,
) -> Result<Vec<u8>, FuncError> {
    let mut out = Output::new(text.len(), meter)?;
    let mut rest = text;
    if old.is_empty() {
        for (_, width) in runes(text) {
            out.push(new)?;
            out.push(&rest[..width])?;
            rest = &rest[width..];
        }
        out.push(new)?;
        return Ok(out.into_bytes());
    }
    let mut from = 0;
    for at in memmem::find_iter(text, old) {
        out.push(&text[from..at])?;
        out.push(new)?;
        from = at + old.len();
    }
    out.push(&text[from..])?;
    Ok(out.into_bytes())
}

#[cfg(test)]
mod tests {
    use everflow_gotemplate::Limits;
    use everflow_limits::Budget;

    use super::*;

    #[test]
    fn stray_bytes_are_single_replacements() {
        assert_eq!(decode(b"\xff\xfe"), (REPLACEMENT, 1));
        assert_eq!(decode_last("aé".as_bytes()), ('é', 2));
        assert_eq!(decode_last(b"a\xc3"), (REPLACEMENT, 1));
        assert_eq!(decode_last("\u{fffd}".as_bytes()), (REPLACEMENT, 3));
        assert_eq!(to_valid(b"a\xe6\x97z"), "a\u{fffd}\u{fffd}z");
    }

    #[test]
    fn case_maps_one_to_one() {
        assert_eq!(to_upper('ß'), 'ß');
        assert_eq!(to_upper('\u{1f80}'), '\u{1f88}');
        assert_eq!(to_lower('İ'), 'i');
        assert_eq!(to_title('ǆ'), 'ǅ');
    }

    #[test]
    fn splitting_and_replacing() {
        let parts = |text: &'static str, separator: &str, limit| {
            split(text.as_bytes(), separator.as_bytes(), limit)
                .map(|part| std::str::from_utf8(part).unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(parts("a,b,c", ",", -1), ["a", "b", "c"]);
        assert_eq!(parts("a,b,c", ",", 2), ["a", "b,c"]);
        assert_eq!(parts("a,b,", ",", 3), ["a", "b", ""]);
        assert_eq!(parts("aé", "", -1), ["a", "é"]);
        assert_eq!(parts("aéi", "", 2), ["a", "éi"]);
        assert_eq!(parts("", ",", -1), [""]);
        assert!(parts("", "", -1).is_empty());
        assert!(parts("a", ",", 0).is_empty());
        let budget = Budget::unlimited();
        let meter = Meter::new(&Limits::default(), &budget);
        assert_eq!(replace(b"ab", b"", b"-", &meter).unwrap(), b"-a-b-");
        assert_eq!(replace(b"aXbX", b"X", b"", &meter).unwrap(), b"ab");
    }
}
