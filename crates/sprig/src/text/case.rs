//! Conversions between naming styles.

use super::runes::{
    self, REPLACEMENT, decode, is_number, is_punctuation, is_space, is_upper, push, to_lower,
    to_upper,
};

/// Letters except Chinese ones, which have no case and stand each for a word.
fn is_letter(c: char) -> bool {
    runes::is_letter(c)
        && !matches!(c, '\u{4e00}'..='\u{9fcc}' | '\u{3400}'..='\u{4d85}' | '\u{20000}'..='\u{2b81d}')
}

fn is_connector(c: char) -> bool {
    c == '-' || c == '_' || is_space(c)
}

/// `some_words here` becomes `SomeWordsHere`. Leading connectors stay.
pub(crate) fn pascal(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    let mut pending = None;
    let mut word_starts_upper = false;
    while !rest.is_empty() {
        let (c, width) = decode(rest);
        rest = &rest[width..];
        if !is_connector(c) {
            word_starts_upper = is_upper(c);
            pending = Some(to_upper(c));
            break;
        }
        push(&mut out, c);
        pending = Some(c);
    }
    let Some(mut current) = pending else {
        return out;
    };
    // A text of connectors only has its last one twice, as in the original.
    while !rest.is_empty() {
        let previous = current;
        let (mut c, width) = decode(rest);
        rest = &rest[width..];
        match (is_connector(previous), is_connector(c)) {
            (true, true) => push(&mut out, previous),
            (true, false) => {
                word_starts_upper = is_upper(c);
                c = to_upper(c);
            }
            (false, _) => {
                if word_starts_upper {
                    if is_upper(c) {
                        c = to_lower(c);
                    } else {
                        word_starts_upper = false;
                    }
                }
                push(&mut out, previous);
            }
        }
        current = c;
    }
    push(&mut out, current);
    out
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Invalid,
    Number,
    Upper,
    Letters,
    Connector,
    Punctuation,
    Other,
}

impl Kind {
    /// Whether no connector is put before such a word.
    fn stands_alone(self) -> bool {
        matches!(self, Self::Connector | Self::Punctuation)
    }

    fn continues_number(self) -> bool {
        matches!(self, Self::Letters | Self::Number)
    }
}

/// `FirstName` becomes `first_name` with whatever connector is asked for.
pub(crate) fn separated(text: &[u8], connector: char) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 8);
    if text.is_empty() {
        return out;
    }
    let (mut kind, mut word, mut rest) = next_word(text);
    while !rest.is_empty() {
        if kind != Kind::Connector {
            write_lower(&mut out, kind, word, connector);
        }
        let (previous_kind, previous) = (kind, word);
        (kind, word, rest) = next_word(rest);
        match previous_kind {
            Kind::Number => {
                while kind.continues_number() {
                    write_lower(&mut out, kind, word, connector);
                    (kind, word, rest) = next_word(rest);
                }
                if kind != Kind::Invalid && !kind.stands_alone() {
                    push(&mut out, connector);
                }
            }
            Kind::Connector => write_lower(&mut out, previous_kind, previous, connector),
            Kind::Punctuation => {}
            _ if kind != Kind::Number => {
                if !kind.stands_alone() {
                    push(&mut out, connector);
                }
            }
            _ if rest.is_empty() => {}
            _ => {
                let number = word;
                (kind, word, rest) = next_word(rest);
                if kind == Kind::Letters {
                    // Lower case letters after the number: the number begins a word.
                    push(&mut out, connector);
                    write_lower(&mut out, Kind::Number, number, connector);
                    while kind.continues_number() {
                        write_lower(&mut out, kind, word, connector);
                        (kind, word, rest) = next_word(rest);
                    }
                    if kind != Kind::Invalid && !kind.stands_alone() {
                        push(&mut out, connector);
                    }
                } else {
                    // The number belongs to the word before it.
                    write_lower(&mut out, Kind::Number, number, connector);
                    if !kind.stands_alone() {
                        push(&mut out, connector);
                    }
                }
            }
        }
    }
    write_lower(&mut out, kind, word, connector);
    out
}

fn write_lower(out: &mut Vec<u8>, kind: Kind, word: &[u8], connector: char) {
    if kind != Kind::Upper && kind != Kind::Connector {
        out.extend_from_slice(word);
        return;
    }
    let mut rest = word;
    while !rest.is_empty() {
        let (c, width) = decode(rest);
        rest = &rest[width..];
        push(
            out,
            if is_connector(c) {
                connector
            } else if is_upper(c) {
                to_lower(c)
            } else {
                c
            },
        );
    }
}

/// The next valid character, with the length of it and all stray bytes before it.
/// If there is none, the previous character stands in.
fn next_valid(mut text: &[u8], previous: char) -> (char, usize) {
    let mut size = 0;
    while !text.is_empty() {
        let (c, width) = decode(text);
        size += width;
        if c != REPLACEMENT {
            return (c, size);
        }
        text = &text[width..];
    }
    (previous, size)
}

/// Takes characters from `text[from..]` as long as `belongs` says so; returns where that ends,
/// the character that ended it (or the last one) and the length of the last one taken.
fn take_while(
    text: &[u8],
    from: usize,
    start: char,
    belongs: impl Fn(char) -> bool,
) -> (usize, char, usize) {
    let mut end = from;
    let mut c = start;
    let mut last = 0;
    while end < text.len() {
        let (next, size) = next_valid(&text[end..], c);
        c = next;
        if !belongs(c) {
            break;
        }
        last = size;
        end += size;
    }
    (end, c, last)
}

fn next_word(text: &[u8]) -> (Kind, &[u8], &[u8]) {
    if text.is_empty() {
        return (Kind::Invalid, text, text);
    }
    let (first, size) = next_valid(text, REPLACEMENT);
    if first == REPLACEMENT {
        let (word, rest) = text.split_at(size);
        return (Kind::Invalid, word, rest);
    }
    let small = |c: char| is_letter(c) && !is_upper(c);
    let (kind, end) = if is_connector(first) {
        (
            Kind::Connector,
            take_while(text, size, first, is_connector).0,
        )
    } else if is_punctuation(first) {
        (
            Kind::Punctuation,
            take_while(text, size, first, is_punctuation).0,
        )
    } else if is_upper(first) {
        (Kind::Upper, end_of_upper(text, size, first))
    } else if is_letter(first) {
        (Kind::Letters, take_while(text, size, first, small).0)
    } else if is_number(first) {
        (Kind::Number, take_while(text, size, first, is_number).0)
    } else {
        let other =
            |c: char| !(is_connector(c) || is_letter(c) || is_number(c) || is_punctuation(c));
        (Kind::Other, take_while(text, size, first, other).0)
    };
    let (word, rest) = text.split_at(end);
    (kind, word, rest)
}

/// Where a word that begins with a capital ends: `HTTPStatus` gives `HTTP`, `Status` all of it.
fn end_of_upper(text: &[u8], size: usize, first: char) -> usize {
    if size >= text.len() {
        return size;
    }
    let (second, width) = next_valid(&text[size..], first);
    let small = |c: char| is_letter(c) && !is_upper(c);
    if is_upper(second) {
        let (end, stopper, last) = take_while(text, size + width, second, is_upper);
        let last = if end == size + width { width } else { last };
        return if end < text.len() && is_letter(stopper) {
            end - last
        } else {
            end
        };
    }
    if is_letter(second) {
        return take_while(text, size + width, second, small).0;
    }
    size
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snake(text: &str) -> String {
        String::from_utf8(separated(text.as_bytes(), '_')).unwrap()
    }

    #[test]
    fn snake_case() {
        for (from, to) in [
            ("FirstName", "first_name"),
            ("HTTPServer", "http_server"),
            ("NoHTTPS", "no_https"),
            ("GO PATH", "go_path"),
            ("http2xx", "http_2xx"),
            ("HTTP20xOK", "http_20x_ok"),
            ("Duration2m3s", "duration_2m3s"),
            ("Bld4Floor3rd", "bld4_floor_3rd"),
        ] {
            assert_eq!(snake(from), to);
        }
    }

    #[test]
    fn pascal_case() {
        for (from, to) in [
            ("some_words", "SomeWords"),
            ("_complex__case_", "_Complex_Case_"),
            ("GOLANG_IS_GREAT", "GolangIsGreat"),
            ("a", "A"),
        ] {
            assert_eq!(String::from_utf8(pascal(from.as_bytes())).unwrap(), to);
        }
    }
}
