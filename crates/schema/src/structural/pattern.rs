//! Go's regular expressions on Rust's engine.

use regex::{Regex, RegexBuilder};

/// A pattern that cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PatternError(String);

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
            .map_err(|error| PatternError(error.to_string()))
    }

    /// Whether the text holds a match.
    pub fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
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
        assert!(Pattern::new("(").is_err());
    }
}
