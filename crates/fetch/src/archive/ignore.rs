//! Which files of a source are left out: `.sourceignore` files and `spec.ignore`, matched the way
//! Flux does. That is close to gitignore, but not the same: a directory that is left out does not
//! take its content along by itself, and a pattern without a slash matches any part of the path.

use std::sync::Arc;

use everflow_limits::{Budget, Exceeded};

/// The name of the files with patterns.
pub const IGNORE_FILE: &str = ".sourceignore";

const VERSION_CONTROL: [&str; 4] = [".git/", ".gitignore", ".gitmodules", ".gitattributes"];
const DEFAULTS: [&str; 20] = [
    "*.jpg",
    "*.jpeg",
    "*.gif",
    "*.png",
    "*.wmv",
    "*.flv",
    "*.tar.gz",
    "*.zip",
    ".github/",
    ".circleci/",
    ".travis.yml",
    ".gitlab-ci.yml",
    "appveyor.yml",
    ".drone.yml",
    "cloudbuild.yaml",
    "codeship-services.yml",
    "codeship-steps.yml",
    "**/.goreleaser.yml",
    "**/.sops.yaml",
    "**/.flux.yaml",
];

/// One line of an ignore file, in force below a directory.
#[derive(Debug, Clone)]
pub struct Pattern {
    /// The directory that the pattern is about, as parts of its path.
    scope: Arc<[String]>,
    parts: Vec<String>,
    keeps: bool,
    directories_only: bool,
}

impl Pattern {
    /// Reads one pattern that holds below the directory `scope`.
    pub fn parse(line: &str, scope: &[String]) -> Self {
        Pattern::below(line, &Arc::from(scope))
    }

    fn below(line: &str, scope: &Arc<[String]>) -> Self {
        let (keeps, mut text) = match line.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        if !text.ends_with("\\ ") {
            text = text.trim_end_matches(' ');
        }
        let directories_only = text.ends_with('/');
        let text = text.strip_suffix('/').unwrap_or(text);
        Pattern {
            scope: scope.clone(),
            parts: text.split('/').map(str::to_owned).collect(),
            keeps,
            directories_only,
        }
    }

    /// `Some(true)`: left out. `Some(false)`: kept. `None`: this pattern says nothing.
    fn verdict(&self, path: &[&str], directory: bool) -> Option<bool> {
        let inner = path
            .get(self.scope.len()..)
            .filter(|inner| !inner.is_empty())?;
        if !path
            .iter()
            .zip(self.scope.iter())
            .all(|(one, two)| *one == two.as_str())
        {
            return None;
        }
        let matches = match self.parts.as_slice() {
            [name] => self.matches_name(name, inner, directory),
            _ => self.matches_path(inner, directory),
        };
        matches.then_some(!self.keeps)
    }

    fn matches_name(&self, name: &str, path: &[&str], directory: bool) -> bool {
        let Some(at) = path.iter().position(|part| matches(name, part)) else {
            return false;
        };
        !(self.directories_only && !directory && at == path.len() - 1)
    }

    fn matches_path(&self, mut path: &[&str], directory: bool) -> bool {
        let mut matched = false;
        let mut anywhere = false;
        for (at, part) in self.parts.iter().enumerate() {
            if part.is_empty() {
                anywhere = false;
                continue;
            }
            if part == "**" {
                if at == self.parts.len() - 1 {
                    break;
                }
                anywhere = true;
                continue;
            }
            if part.contains("**") || path.is_empty() {
                return false;
            }
            if anywhere {
                anywhere = false;
                match path.iter().position(|name| matches(part, name)) {
                    Some(found) => {
                        matched = true;
                        path = &path[found + 1..];
                    }
                    None => {
                        // The rest of the pattern is still tried, on a path that is used up.
                        matched = false;
                        path = &[];
                    }
                }
            } else {
                if !matches(part, path[0]) {
                    return false;
                }
                matched = true;
                path = &path[1..];
            }
        }
        matched && !(self.directories_only && !directory && path.is_empty())
    }
}

/// Reads the patterns of a file or of `spec.ignore`, in force below `scope`.
pub fn read_patterns(text: &str, scope: &[String]) -> Vec<Pattern> {
    // Lines may be many and directories deep.
    let scope = Arc::from(scope);
    text.lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
        .map(|line| Pattern::below(line, &scope))
        .collect()
}

/// What patterns take in memory for each byte of their text, and for each line, at worst.
const PATTERN_WEIGHT: (usize, usize) = (32, 128);

/// The same for text that others wrote: what the patterns take is charged.
pub fn read_patterns_within(
    text: &str,
    scope: &[String],
    budget: &Budget,
) -> Result<Vec<Pattern>, Exceeded> {
    let (byte, line) = PATTERN_WEIGHT;
    budget.charge(text.len() * byte + text.lines().count() * line)?;
    Ok(read_patterns(text, scope))
}

/// Decides what is left out.
#[derive(Debug, Clone)]
pub struct Ignore {
    patterns: Vec<Pattern>,
}

impl Ignore {
    /// As for git and OCI sources: the files of version control are always left out; images,
    /// archives and files of CI systems only when there are no patterns at all.
    pub fn with_defaults(patterns: Vec<Pattern>) -> Self {
        let usual: &[&str] = if patterns.is_empty() { &DEFAULTS } else { &[] };
        let builtin = VERSION_CONTROL.iter().chain(usual);
        Ignore {
            patterns: builtin
                .map(|line| Pattern::parse(line, &[]))
                .chain(patterns)
                .collect(),
        }
    }

    /// Only these patterns, as for buckets.
    pub fn only(patterns: Vec<Pattern>) -> Self {
        Ignore { patterns }
    }

    /// Whether a path is left out. The last pattern that says anything decides.
    pub fn leaves_out(&self, path: &str, directory: bool) -> bool {
        let parts: Vec<&str> = path.split('/').collect();
        self.patterns
            .iter()
            .rev()
            .find_map(|pattern| pattern.verdict(&parts, directory))
            .unwrap_or(false)
    }

    /// The same for patterns that may be many: the budget is asked at each.
    pub fn leaves_out_within(
        &self,
        path: &str,
        directory: bool,
        budget: &Budget,
    ) -> Result<bool, Exceeded> {
        let parts: Vec<&str> = path.split('/').collect();
        for pattern in self.patterns.iter().rev() {
            budget.check()?;
            if let Some(left_out) = pattern.verdict(&parts, directory) {
                return Ok(left_out);
            }
        }
        Ok(false)
    }
}

/// Shell patterns as Go's `filepath.Match`: `*`, `?`, `[a-z]`, `[^a]`, `\x`. A malformed pattern
/// matches nothing.
pub fn matches(pattern: &str, name: &str) -> bool {
    // Most patterns are plain, or plain behind a star.
    let special = ['*', '?', '[', '\\'];
    match pattern.strip_prefix('*') {
        None if !pattern.contains(special) => return pattern == name,
        Some(end) if !end.contains(special) && !name.contains('/') => return name.ends_with(end),
        _ => {}
    }
    let Some(pieces) = compile(pattern) else {
        return false;
    };
    let name: Vec<char> = name.chars().collect();
    // Greedy with one way back: the last star takes one more character.
    let (mut piece, mut at) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    loop {
        match pieces.get(piece) {
            Some(Piece::Star) => {
                back = Some((piece, at));
                piece += 1;
                continue;
            }
            Some(one) if name.get(at).is_some_and(|char| one.takes(*char)) => {
                piece += 1;
                at += 1;
                continue;
            }
            None if at == name.len() => return true,
            _ => {}
        }
        match back {
            Some((star, from)) if from < name.len() && name[from] != '/' => {
                back = Some((star, from + 1));
                piece = star + 1;
                at = from + 1;
            }
            _ => return false,
        }
    }
}

enum Piece {
    Star,
    Any,
    One(char),
    Set(bool, Vec<(char, char)>),
}

impl Piece {
    fn takes(&self, char: char) -> bool {
        match self {
            Piece::Star => false,
            Piece::Any => char != '/',
            Piece::One(own) => *own == char,
            Piece::Set(negated, ranges) => {
                *negated
                    != ranges
                        .iter()
                        .any(|(low, high)| (*low..=*high).contains(&char))
            }
        }
    }
}

fn compile(pattern: &str) -> Option<Vec<Piece>> {
    let mut chars = pattern.chars().peekable();
    let mut pieces = Vec::new();
    while let Some(char) = chars.next() {
        pieces.push(match char {
            '*' => Piece::Star,
            '?' => Piece::Any,
            '\\' => Piece::One(chars.next()?),
            '[' => {
                let negated = chars.next_if_eq(&'^').is_some();
                let mut ranges = Vec::new();
                while ranges.is_empty() || chars.peek() != Some(&']') {
                    let low = set_char(&mut chars)?;
                    let high = match chars.next_if_eq(&'-') {
                        Some(_) => set_char(&mut chars)?,
                        None => low,
                    };
                    ranges.push((low, high));
                }
                chars.next();
                Piece::Set(negated, ranges)
            }
            other => Piece::One(other),
        });
    }
    Some(pieces)
}

fn set_char(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<char> {
    match chars.next()? {
        '-' | ']' => None,
        '\\' => chars.next(),
        other => Some(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_patterns_match_as_in_go() {
        for (pattern, name, expected) in [
            ("abc", "abc", true),
            ("*c", "abc", true),
            ("a*/b", "a/c/b", false),
            ("a*b*c*d*e*/f", "axbxcxdxe/f", true),
            ("a*b?c*x", "abxbbxdbxebxczzx", true),
            ("ab[c]", "abc", true),
            ("ab[b-d]", "abc", true),
            ("ab[^e-g]", "abc", true),
            ("a\\*b", "a*b", true),
            ("a\\*b", "ab", false),
            ("a?b", "a☺b", true),
            ("a[^a]b", "a☺b", true),
            ("[\\]a]", "]", true),
            ("[]a]", "]", false),
            ("[x-]", "x", false),
            ("*", "a/b", false),
            ("[", "a", false),
            ("a[", "ab", false),
            ("*x", "xxx", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    fn left_out(lines: &str, path: &str, directory: bool) -> bool {
        Ignore::only(read_patterns(lines, &[])).leaves_out(path, directory)
    }

    #[test]
    fn patterns_match_as_in_flux() {
        assert!(left_out(
            "**/middle/v[uo]l?ano\n!volcano",
            "head/middle/vulkano",
            false
        ));
        assert!(!left_out(
            "**/middle/v[uo]l?ano\n!volcano",
            "head/middle/volcano",
            false
        ));
        assert!(left_out("/*\n!/deploy", "README.md", false));
        assert!(!left_out("/*\n!/deploy", "deploy/a.yaml", false));
        assert!(left_out("foo/", "foo/bar", false));
        assert!(!left_out("foo/", "foo", false));
        assert!(left_out("foo/", "foo", true));
        assert!(left_out("a/**/b", "a/x/y/b", false));
        assert!(!left_out("a/**/b", "c/x/y/b", false));
        assert!(left_out("abc/**", "abc/d/e", false));
        assert!(!left_out("# comment\n\n  \n", "abc", false));
        assert!(left_out("name  ", "name", false));
        assert!(!left_out("a**/b", "ab/b", false));
    }

    #[test]
    fn nested_files_hold_below_their_directory() {
        let ignore = Ignore::only(read_patterns("two.yaml", &["b".to_owned()]));
        assert!(ignore.leaves_out("b/two.yaml", false));
        assert!(ignore.leaves_out("b/c/two.yaml", false));
        assert!(!ignore.leaves_out("a/two.yaml", false));
        assert!(!ignore.leaves_out("b", true));
    }

    #[test]
    fn any_pattern_drops_the_defaults_but_not_those_of_version_control() {
        let defaults = Ignore::with_defaults(Vec::new());
        for path in ["a/logo.png", ".gitignore", "x/.flux.yaml", ".git/config"] {
            assert!(defaults.leaves_out(path, false), "{path}");
        }
        for path in ["logo.svg", ".sourceignore", "lib/.git"] {
            assert!(!defaults.leaves_out(path, false), "{path}");
        }
        let own = Ignore::with_defaults(read_patterns("*.md", &[]));
        assert!(!own.leaves_out("a/logo.png", false));
        assert!(own.leaves_out(".gitmodules", false));
    }
}
