//! Regular expressions in Go's syntax.

use regex::{Regex, RegexBuilder};

use crate::error::{Error, Result};

/// How large a compiled expression may be; a pattern that needs more is refused.
const SIZE_LIMIT: usize = 2 << 20;
/// How large an expression is that may be tried on long texts: the worst ones take time for each of
/// their states at each letter.
const SMALL: usize = 64 << 10;
/// How long a text is that a small expression is tried on, and a large one.
const LONGEST: (usize, usize) = (64 << 10, 1 << 10);
/// How long the text of an expression may be.
const LENGTH_LIMIT: usize = 64 << 10;

/// An expression that has to match a whole text.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// Anything matches.
    Any,
    /// Only this text matches; most selectors are plain names.
    Literal(String),
    /// A real expression.
    Expression(Expression),
}

/// An expression, and how long the texts are that it is tried on.
#[derive(Clone, Debug)]
pub struct Expression {
    regex: Regex,
    longest: usize,
}

impl Expression {
    /// True when it is not tried on texts of so many bytes.
    pub fn is_too_long_for(&self, bytes: usize) -> bool {
        bytes > self.longest
    }

    /// True when the text matches. Texts that are too long match nothing: no name, image or label is so
    /// long.
    pub fn is_match(&self, text: &str) -> bool {
        !self.is_too_long_for(text.len()) && self.regex.is_match(text)
    }
}

impl Pattern {
    /// Compiles an expression that is anchored at both ends; the empty one matches anything.
    pub fn anchored(pattern: &str) -> Result<Self> {
        if pattern.is_empty() {
            return Ok(Pattern::Any);
        }
        if !pattern.contains(is_meta) {
            return Ok(Pattern::Literal(pattern.to_owned()));
        }
        compile(&format!("^(?:{pattern})$")).map(Pattern::Expression)
    }

    /// True when the whole text matches.
    pub fn matches(&self, text: &str) -> bool {
        match self {
            Pattern::Any => true,
            Pattern::Literal(literal) => literal == text,
            Pattern::Expression(expression) => expression.is_match(text),
        }
    }

    /// The only text that can match, if there is just one.
    pub fn literal(&self) -> Option<&str> {
        match self {
            Pattern::Literal(literal) => Some(literal),
            _ => None,
        }
    }
}

fn is_meta(c: char) -> bool {
    matches!(
        c,
        '\\' | '.' | '+' | '*' | '?' | '(' | ')' | '|' | '[' | ']' | '{' | '}' | '^' | '$'
    )
}

/// Compiles an expression as it stands.
pub fn compile(pattern: &str) -> Result<Expression> {
    let refuse = |why: String| {
        Error::Configuration(format!(
            "error parsing regexp: {why}: `{}`",
            shorten(pattern)
        ))
    };
    if pattern.len() > LENGTH_LIMIT {
        return Err(refuse("expression is too long".to_owned()));
    }
    let mut builder = RegexBuilder::new(&translate(pattern));
    builder.dfa_size_limit(SIZE_LIMIT);
    if let Ok(regex) = builder.size_limit(SMALL).build() {
        let longest = LONGEST.0;
        return Ok(Expression { regex, longest });
    }
    let regex = builder
        .size_limit(SIZE_LIMIT)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => {
                refuse("expression nests too deeply or repeats too often".to_owned())
            }
            regex::Error::Syntax(text) => {
                let reason = text.lines().last().unwrap_or_default();
                refuse(reason.trim_start_matches("error: ").to_owned())
            }
            other => refuse(other.to_string()),
        })?;
    let longest = LONGEST.1;
    Ok(Expression { regex, longest })
}

fn shorten(pattern: &str) -> String {
    pattern.chars().take(200).collect()
}

/// Rewrites what Go reads differently: its classes are ASCII only, brackets do not nest inside
/// brackets, `\Q..\E` quotes, and a `{` that starts no repetition is a plain character.
fn translate(pattern: &str) -> String {
    let chars: Vec<char> = pattern.chars().collect();
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut in_class = false;
    let mut class_start = 0;
    let mut i = 0;
    while i < chars.len() {
        let c = chars[i];
        match c {
            '\\' if i + 1 < chars.len() => {
                i += 1;
                if chars[i] == 'Q' {
                    i = quote(&chars, i + 1, &mut out);
                    continue;
                }
                push_escape(chars[i], in_class, &mut out);
            }
            '[' if in_class => {
                if chars.get(i + 1) == Some(&':') {
                    out.push('[');
                } else {
                    out.push_str("\\[");
                }
            }
            '[' => {
                in_class = true;
                out.push('[');
                if chars.get(i + 1) == Some(&'^') {
                    i += 1;
                    out.push('^');
                }
                class_start = i + 1;
            }
            ']' if in_class && i == class_start => out.push_str("\\]"),
            ']' if in_class => {
                out.push(']');
                let named =
                    i >= 1 && chars[i - 1] == ':' && inside_named_class(&chars[class_start..i]);
                in_class = named;
            }
            '&' | '~' if in_class => {
                out.push('\\');
                out.push(c);
            }
            '-' if in_class && chars.get(i + 1) == Some(&'-') => out.push_str("\\-"),
            '{' if !in_class && !starts_repetition(&chars[i + 1..]) => out.push_str("\\{"),
            c => out.push(c),
        }
        i += 1;
    }
    out
}

fn inside_named_class(before: &[char]) -> bool {
    let text: String = before.iter().collect();
    match text.rfind("[:") {
        Some(start) => {
            let name = &text[start + 2..text.len() - 1];
            !name.is_empty()
                && name
                    .trim_start_matches('^')
                    .chars()
                    .all(|c| c.is_ascii_alphabetic())
        }
        None => false,
    }
}

fn quote(chars: &[char], mut i: usize, out: &mut String) -> usize {
    let mut quoted = String::new();
    while i < chars.len() {
        if chars[i] == '\\' && chars.get(i + 1) == Some(&'E') {
            i += 2;
            break;
        }
        quoted.push(chars[i]);
        i += 1;
    }
    out.push_str(&regex::escape(&quoted));
    i
}

fn push_escape(c: char, in_class: bool, out: &mut String) {
    let class = match c {
        'd' => Some("0-9"),
        'w' => Some("0-9A-Za-z_"),
        's' => Some("\\t\\n\\f\\r "),
        _ => None,
    };
    match (class, in_class) {
        (Some(class), true) => out.push_str(class),
        (Some(class), false) => {
            out.push('[');
            out.push_str(class);
            out.push(']');
        }
        (None, false) if matches!(c, 'D' | 'W' | 'S') => {
            out.push_str(match c {
                'D' => "[^0-9]",
                'W' => "[^0-9A-Za-z_]",
                _ => "[^\\t\\n\\f\\r ]",
            });
        }
        (None, false) if matches!(c, 'b' | 'B') => {
            out.push_str(if c == 'b' { "(?-u:\\b)" } else { "(?-u:\\B)" });
        }
        _ => {
            out.push('\\');
            out.push(c);
        }
    }
}

fn starts_repetition(rest: &[char]) -> bool {
    let digits = |from: usize| {
        rest[from..]
            .iter()
            .take_while(|c| c.is_ascii_digit())
            .count()
    };
    let first = digits(0);
    if first == 0 {
        return false;
    }
    match rest.get(first) {
        Some('}') => true,
        Some(',') => rest.get(first + 1 + digits(first + 1)) == Some(&'}'),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_syntax_is_understood() {
        assert!(compile("^a{b$").unwrap().is_match("a{b"));
        assert!(compile("^[[:alpha:]_]+$").unwrap().is_match("ab_"));
        assert!(compile(r"^\Qa.b\E$").unwrap().is_match("a.b"));
        assert!(!compile(r"^\Qa.b\E$").unwrap().is_match("axb"));
        assert!(!compile(r"^\d$").unwrap().is_match("٣"));
        assert!(compile("^[a[b]$").unwrap().is_match("["));
        assert!(compile("(").is_err());
    }

    #[test]
    fn plain_names_need_no_expression() {
        assert_eq!(Pattern::anchored("web").unwrap().literal(), Some("web"));
        assert!(!Pattern::anchored("web").unwrap().matches("web2"));
        assert!(Pattern::anchored("web.*").unwrap().matches("web2"));
        assert!(!Pattern::anchored("a|b").unwrap().matches("ab"));
    }

    #[test]
    fn an_expression_that_would_explode_is_refused() {
        assert!(Pattern::anchored("((((a{99}){99}){99}){99}){99}").is_err());
        assert!(Pattern::anchored(&"(".repeat(100_000)).is_err());
    }
}
