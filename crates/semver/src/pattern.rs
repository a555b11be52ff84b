//! The shape of versions inside constraints, where `x`, `X` and `*` stand for any number.

/// Where the pieces of a version pattern end, as matched greedily at the start of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pattern<'a> {
    /// Everything that was matched.
    pub whole: &'a str,
    pub major: &'a str,
    pub minor: Option<&'a str>,
    pub patch: Option<&'a str>,
    /// The prerelease with its leading hyphen, or nothing.
    pub prerelease: &'a str,
}

impl<'a> Pattern<'a> {
    /// Matches the longest version pattern at the start of `text`.
    pub(crate) fn at_start(text: &'a str) -> Option<Self> {
        let mut rest = text.strip_prefix('v').unwrap_or(text);
        let major = take_number(&mut rest)?;
        let minor = take_dotted(&mut rest);
        let patch = if minor.is_some() {
            take_dotted(&mut rest)
        } else {
            None
        };
        let prerelease = take_suffix(&mut rest, '-');
        take_suffix(&mut rest, '+');
        let whole = &text[..text.len() - rest.len()];
        Some(Self {
            whole,
            major,
            minor,
            patch,
            prerelease,
        })
    }
}

/// Whether a segment stands for any number.
pub(crate) fn is_wildcard(segment: &str) -> bool {
    matches!(segment, "x" | "X" | "*")
}

/// The whitespace that separates parts of a constraint.
pub(crate) fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\u{c}' | '\r')
}

fn take_number<'a>(rest: &mut &'a str) -> Option<&'a str> {
    // The bar belongs to the accepted characters of the original; such a number is refused later.
    let end = rest
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, 'x' | 'X' | '*' | '|')))
        .unwrap_or(rest.len());
    let (number, tail) = rest.split_at(end);
    *rest = tail;
    (!number.is_empty()).then_some(number)
}

fn take_dotted<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let mut tail = rest.strip_prefix('.')?;
    let number = take_number(&mut tail)?;
    *rest = tail;
    Some(number)
}

/// Takes `-a.b.c` or `+a.b.c`; an incomplete last part is left alone.
fn take_suffix<'a>(rest: &mut &'a str, mark: char) -> &'a str {
    let text = *rest;
    let Some(mut tail) = text.strip_prefix(mark) else {
        return "";
    };
    let mut end = text.len();
    let mut any = false;
    loop {
        let len = tail
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
            .unwrap_or(tail.len());
        if len == 0 {
            break;
        }
        any = true;
        tail = &tail[len..];
        end = text.len() - tail.len();
        match tail.strip_prefix('.') {
            Some(next) => tail = next,
            None => break,
        }
    }
    if !any {
        return "";
    }
    let (suffix, tail) = text.split_at(end);
    *rest = tail;
    suffix
}

/// Rewrites every hyphen range `A - B` into `>= A, <= B `.
pub(crate) fn rewrite_ranges(text: &str) -> String {
    let mut out = text.to_owned();
    let mut from = 0;
    while from < text.len() {
        let Some((whole, low, high)) = range_at_start(&text[from..]) else {
            from += text[from..].chars().next().map_or(1, char::len_utf8);
            continue;
        };
        // The first place with the same text is replaced, wherever the range was found.
        out = out.replacen(whole, &format!(">= {low}, <= {high} "), 1);
        from += whole.len();
    }
    out
}

fn range_at_start(text: &str) -> Option<(&str, &str, &str)> {
    let low = Pattern::at_start(text.trim_start_matches(is_space))?.whole;
    let rest = text.trim_start_matches(is_space).strip_prefix(low)?;
    let rest = skip_spaces(rest)?.strip_prefix('-')?;
    let rest = skip_spaces(rest)?;
    let high = Pattern::at_start(rest)?.whole;
    let rest = rest[high.len()..].trim_start_matches(is_space);
    Some((&text[..text.len() - rest.len()], low, high))
}

/// Skips at least one space.
fn skip_spaces(text: &str) -> Option<&str> {
    let rest = text.trim_start_matches(is_space);
    (rest.len() < text.len()).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_rewritten() {
        assert_eq!(rewrite_ranges("1.2 - 2.3.4"), ">= 1.2, <= 2.3.4 ");
        assert_eq!(
            rewrite_ranges("1 - 2 || 3.x - v4-a.b+c"),
            ">= 1, <= 2 ||>= 3.x, <= v4-a.b+c "
        );
        assert_eq!(rewrite_ranges("1 -2"), "1 -2");
    }

    #[test]
    fn an_incomplete_suffix_is_left() {
        assert_eq!(
            Pattern::at_start("1.2-a. x").map(|p| p.whole),
            Some("1.2-a")
        );
        assert_eq!(Pattern::at_start("1.2- x").map(|p| p.whole), Some("1.2"));
        assert_eq!(Pattern::at_start("1..2").map(|p| p.whole), Some("1"));
        assert_eq!(Pattern::at_start("vx"), Pattern::at_start("vx"));
        assert_eq!(Pattern::at_start("-1"), None);
    }
}
