//! Patterns of `.Files.Glob`: `*` stays within a directory, `**` does not, `{a,b}` are
//! alternatives.

use regex::bytes::{Regex, RegexBuilder};

/// Bytes of a compiled pattern; it is compiled anew for every call.
const SIZE_LIMIT: usize = 1 << 20;

/// A compiled pattern.
pub(super) struct Glob(Option<Regex>);

impl Glob {
    /// A pattern that cannot be read matches everything, as helm has it.
    pub(super) fn new(pattern: &str) -> Self {
        let compiled = |text: String| RegexBuilder::new(&text).size_limit(SIZE_LIMIT).build().ok();
        Glob(to_regex(pattern).and_then(compiled))
    }

    pub(super) fn matches(&self, name: &[u8]) -> bool {
        self.0.as_ref().is_none_or(|regex| regex.is_match(name))
    }
}

fn to_regex(pattern: &str) -> Option<String> {
    let mut out = String::from("(?s)^");
    let mut depth = 0usize;
    let mut characters = pattern.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '*' => {
                let mut stars = 1;
                while characters.next_if_eq(&'*').is_some() {
                    stars += 1;
                }
                out.push_str(if stars > 1 { ".*" } else { "[^/]*" });
            }
            '?' => out.push_str("[^/]"),
            '[' => out.push_str(&class(&mut characters)?),
            '{' => {
                depth += 1;
                out.push_str("(?:");
            }
            '}' if depth > 0 => {
                depth -= 1;
                out.push(')');
            }
            ',' if depth > 0 => out.push('|'),
            '\\' => out.push_str(&regex::escape(&characters.next()?.to_string())),
            other => out.push_str(&regex::escape(&other.to_string())),
        }
    }
    out.push('$');
    (depth == 0).then_some(out)
}

fn class(characters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<String> {
    let mut out = String::from("[");
    if characters.next_if_eq(&'!').is_some() {
        out.push('^');
    }
    let mut empty = true;
    loop {
        match characters.next()? {
            ']' if !empty => break,
            '-' if !empty => out.push('-'),
            '\\' => out.push_str(&regex::escape(&characters.next()?.to_string())),
            other => out.push_str(&regex::escape(&other.to_string())),
        }
        empty = false;
    }
    out.push(']');
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_classes_and_alternatives() {
        let cases = [
            ("*.yaml", "a.yaml", true),
            ("*.yaml", "d/a.yaml", false),
            ("**.yaml", "d/a.yaml", true),
            ("conf/*", "conf/a", true),
            ("conf/**", "conf/a/b", true),
            ("{a,b}.txt", "b.txt", true),
            ("[a-c].txt", "b.txt", true),
            ("[!a-c].txt", "b.txt", false),
            ("a?c", "abc", true),
            ("[", "anything", true),
        ];
        for (pattern, name, want) in cases {
            assert_eq!(
                Glob::new(pattern).matches(name.as_bytes()),
                want,
                "{pattern} {name}"
            );
        }
    }
}
