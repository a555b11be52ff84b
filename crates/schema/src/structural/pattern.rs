//! Go's regular expressions on Rust's engine.

use regex::{Regex, RegexBuilder};

/// A pattern that cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PatternError(String);

/// How the message begins where there is no room for a pattern.
const NO_ROOM: &str = "patterns may take ";

impl PatternError {
    /// Whether the pattern may be right and there is no room for it.
    pub fn is_for_want_of_room(&self) -> bool {
        self.0.starts_with(NO_ROOM)
    }
}

/// A compiled pattern with Go's meaning.
#[derive(Debug, Clone)]
pub struct Pattern(Regex);

impl Pattern {
    /// Compiles a pattern in Go's syntax.
    pub fn new(pattern: &str) -> Result<Self, PatternError> {
        RegexBuilder::new(&translate(pattern))
            .size_limit(16 << 20)
            .build()
            .map(Self)
            .map_err(|error| PatternError(go_error(pattern, &error)))
    }

    /// Whether the text holds a match.
    pub fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

/// Compiles patterns that are kept together: what all of them take has a bound.
#[derive(Debug)]
pub struct Patterns {
    all: usize,
    left: usize,
}

/// What one is counted as: the least of these that it fits into, in bytes.
const SIZES: [usize; 4] = [8 << 10, 32 << 10, 128 << 10, 512 << 10];

impl Patterns {
    /// With so many bytes for all of them.
    pub fn within(bytes: usize) -> Self {
        Patterns {
            all: bytes,
            left: bytes,
        }
    }

    /// Compiles one more, in Go's syntax.
    pub fn compile(&mut self, pattern: &str) -> Result<Pattern, PatternError> {
        let translated = translate(pattern);
        for bytes in SIZES {
            let Some(left) = self.left.checked_sub(bytes) else {
                break;
            };
            let built = RegexBuilder::new(&translated)
                .size_limit(bytes)
                .dfa_size_limit(bytes)
                .build();
            match built {
                Ok(regex) => {
                    self.left = left;
                    return Ok(Pattern(regex));
                }
                Err(regex::Error::CompiledTooBig(_)) => {}
                Err(error) => return Err(PatternError(go_error(pattern, &error))),
            }
        }
        Err(PatternError(format!(
            "{NO_ROOM}{} MiB together: use fewer or simpler ones",
            self.all >> 20
        )))
    }
}

/// Go's words for the commonest mistakes, ours for the rest.
fn go_error(pattern: &str, error: &regex::Error) -> String {
    let mut depth = 0i32;
    let mut class_start = None;
    let mut escaped = false;
    for (at, character) in pattern.char_indices() {
        if std::mem::take(&mut escaped) {
            continue;
        }
        match (character, class_start) {
            ('\\', _) => escaped = true,
            (']', Some(start)) if at > start + 1 => class_start = None,
            (_, Some(_)) => {}
            ('[', None) => class_start = Some(at),
            ('(', None) => depth += 1,
            (')', None) => depth -= 1,
            _ => {}
        }
        if depth < 0 {
            return format!("error parsing regexp: unexpected ): `{pattern}`");
        }
    }
    if escaped {
        return "error parsing regexp: trailing backslash at end of expression: ``".to_owned();
    }
    if let Some(start) = class_start {
        return format!(
            "error parsing regexp: missing closing ]: `{}`",
            &pattern[start..]
        );
    }
    if depth > 0 {
        return format!("error parsing regexp: missing closing ): `{pattern}`");
    }
    for perl in ["(?=", "(?!", "(?<=", "(?<!"] {
        if pattern.contains(perl) {
            return format!("error parsing regexp: invalid or unsupported Perl syntax: `{perl}`");
        }
    }
    if let Some(first) = pattern
        .chars()
        .next()
        .filter(|first| "*+?".contains(*first))
    {
        return format!("error parsing regexp: missing argument to repetition operator: `{first}`");
    }
    let text = error.to_string();
    format!(
        "error parsing regexp: {}",
        text.lines()
            .last()
            .unwrap_or_default()
            .trim_start_matches("error: ")
    )
}

/// Both engines know nearly the same syntax. Go's `\d`, `\w`, `\s` and `\b` are ASCII only, it
/// has `\Q...\E`, and inside brackets it knows no nesting and no set operators.
fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern;
    let mut in_class = false;
    while let Some(character) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("\\Q") {
            let (literal, after) = after.split_once("\\E").unwrap_or((after, ""));
            out.push_str(&regex::escape(literal));
            rest = after;
            continue;
        }
        if character == '\\' {
            let Some(escaped) = rest[1..].chars().next() else {
                out.push('\\');
                break;
            };
            push_escape(&mut out, escaped, in_class);
            rest = &rest[1 + escaped.len_utf8()..];
            continue;
        }
        if in_class {
            if let Some(end) = rest.strip_prefix("[:").and_then(|inner| inner.find(":]")) {
                let length = 2 + end + 2;
                out.push_str(&rest[..length]);
                rest = &rest[length..];
                continue;
            }
            match character {
                ']' => {
                    in_class = false;
                    out.push(']');
                }
                '[' | '&' | '~' => {
                    out.push('\\');
                    out.push(character);
                }
                other => out.push(other),
            }
            rest = &rest[character.len_utf8()..];
            continue;
        }
        out.push(character);
        rest = &rest[character.len_utf8()..];
        if character == '[' {
            in_class = true;
            if let Some(after) = rest.strip_prefix('^') {
                out.push('^');
                rest = after;
            }
            // A bracket that comes first is itself.
            if let Some(after) = rest.strip_prefix(']') {
                out.push_str("\\]");
                rest = after;
            }
        }
    }
    out
}

fn push_escape(out: &mut String, escaped: char, in_class: bool) {
    let class = match escaped {
        'd' => "0-9",
        'D' => "^0-9",
        'w' => "0-9A-Za-z_",
        'W' => "^0-9A-Za-z_",
        's' => "\\t\\n\\x0C\\r\\x20",
        'S' => "^\\t\\n\\x0C\\r\\x20",
        'b' if !in_class => return out.push_str("(?-u:\\b)"),
        'B' if !in_class => return out.push_str("(?-u:\\B)"),
        other => {
            out.push('\\');
            out.push(other);
            return;
        }
    };
    if in_class && !class.starts_with('^') {
        out.push_str(class);
    } else {
        out.push('[');
        out.push_str(class);
        out.push(']');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_patterns_keep_their_meaning() {
        let cases = [
            (r"^\d+$", "12", true),
            (r"^\d+$", "१", false),
            (r"^[\w.-]+$", "a_b.c-d", true),
            (r"^[^\s]+$", "a\u{a0}b", true),
            (r"^[\D]$", "x", true),
            (r"^[[a]$", "[", true),
            (r"^[a&&b]+$", "a&b", true),
            (r"^[]a]+$", "]a", true),
            (r"^[[:alpha:]]+$", "abc", true),
            (r"^\Qa.b\E$", "a.b", true),
            (r"^\Qa.b\E$", "axb", false),
            (r"^[\-._a-zA-Z0-9]+$", "a-b", true),
            (r"a$", "a\n", false),
            (r"\bfoo\b", "a foo b", true),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(
                Pattern::new(pattern).unwrap().is_match(text),
                expected,
                "{pattern} {text}"
            );
        }
    }

    #[test]
    fn errors_match_go() {
        let cases = [
            ("(", "missing closing ): `(`"),
            ("a)", "unexpected ): `a)`"),
            ("a[b", "missing closing ]: `[b`"),
            ("*a", "missing argument to repetition operator: `*`"),
            ("a\\", "trailing backslash at end of expression: ``"),
            ("(?!a)", "invalid or unsupported Perl syntax: `(?!`"),
        ];
        for (pattern, expected) in cases {
            let error = Pattern::new(pattern).unwrap_err().to_string();
            assert_eq!(error, format!("error parsing regexp: {expected}"));
        }
    }
}
