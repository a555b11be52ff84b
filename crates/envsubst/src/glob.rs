//! Patterns that trim a value at either end.

use everflow_limits::{Budget, Exceeded};

/// Which of several matches is trimmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    Shortest,
    Longest,
}

/// Takes a match of the pattern off the start.
pub(crate) fn trim_start(
    value: &str,
    pattern: &str,
    length: Length,
    budget: &Budget,
) -> Result<String, Exceeded> {
    let pattern: Vec<char> = pattern.chars().collect();
    let value: Vec<char> = value.chars().collect();
    Ok(trimmed(&value, &pattern, length, budget)?.iter().collect())
}

/// Takes a match of the pattern off the end: both are turned around, the pattern letter by letter,
/// so that classes in brackets do not work at this end.
pub(crate) fn trim_end(
    value: &str,
    pattern: &str,
    length: Length,
    budget: &Budget,
) -> Result<String, Exceeded> {
    let pattern: Vec<char> = pattern.chars().rev().collect();
    let value: Vec<char> = value.chars().rev().collect();
    let rest = trimmed(&value, &pattern, length, budget)?;
    Ok(rest.iter().rev().collect())
}

fn trimmed<'a>(
    value: &'a [char],
    pattern: &[char],
    length: Length,
    budget: &Budget,
) -> Result<&'a [char], Exceeded> {
    for step in 1..=value.len() {
        let end = match length {
            Length::Shortest => step,
            Length::Longest => value.len() + 1 - step,
        };
        if matches(pattern, &value[..end], budget)? {
            return Ok(&value[end..]);
        }
    }
    Ok(value)
}

/// Whether the pattern covers the whole text: `*` and `?` match anything, slashes included. The
/// last star is the only one that ever needs another try, so this takes no more than the product
/// of both lengths.
fn matches(pattern: &[char], text: &[char], budget: &Budget) -> Result<bool, Exceeded> {
    let (mut at, mut here) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    loop {
        budget.check()?;
        if pattern.get(at) == Some(&'*') {
            at += 1;
            retry = Some((at, here));
            continue;
        }
        if at == pattern.len() && here == text.len() {
            return Ok(true);
        }
        if let Some(next) = text.get(here).and_then(|c| one(&pattern[at..], *c)) {
            (at, here) = (at + next, here + 1);
            continue;
        }
        match retry {
            Some((star, from)) if from < text.len() => {
                retry = Some((star, from + 1));
                (at, here) = (star, from + 1);
            }
            _ => return Ok(false),
        }
    }
}

/// How much of the pattern matches one character; `None` when it does not, or is broken.
fn one(pattern: &[char], c: char) -> Option<usize> {
    match pattern.first()? {
        '?' => Some(1),
        '\\' => (*pattern.get(1)? == c).then_some(2),
        '[' => class(pattern, c),
        first => (*first == c).then_some(1),
    }
}

fn class(pattern: &[char], c: char) -> Option<usize> {
    let negated = pattern.get(1) == Some(&'^');
    let mut at = if negated { 2 } else { 1 };
    let (mut found, mut ranges) = (false, 0);
    loop {
        if ranges > 0 && pattern.get(at) == Some(&']') {
            return (found != negated).then_some(at + 1);
        }
        let (low, next) = letter(pattern, at)?;
        at = next;
        let mut high = low;
        if pattern.get(at) == Some(&'-') {
            (high, at) = letter(pattern, at + 1)?;
        }
        found |= (low..=high).contains(&c);
        ranges += 1;
    }
}

fn letter(pattern: &[char], at: usize) -> Option<(char, usize)> {
    match *pattern.get(at)? {
        '-' | ']' => None,
        '\\' => Some((*pattern.get(at + 1)?, at + 2)),
        c => Some((c, at + 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_texts() {
        let cases = [
            ("", "", true),
            ("*", "", true),
            ("a*b*c", "a/x/b/y/c", true),
            ("a*b*c", "a/x/b/y/d", false),
            ("??", "ä/", true),
            ("[a-c^]", "^", true),
            ("[^a-c]", "b", false),
            ("[^a-c]", "d", true),
            ("\\*", "*", true),
            ("\\*", "x", false),
            ("[", "[", false),
            ("[]", "]", false),
        ];
        for (pattern, text, expected) in cases {
            let pattern: Vec<char> = pattern.chars().collect();
            let text: Vec<char> = text.chars().collect();
            let matched = matches(&pattern, &text, &Budget::unlimited());
            assert_eq!(matched, Ok(expected), "{pattern:?} {text:?}");
        }
    }
}
