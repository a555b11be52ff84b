//! `.helmignore`: which files of a chart directory stay out of the chart.

use super::path_match::path_match;

/// A rule that cannot be used, in helm's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IgnoreError {
    /// `**` is not supported.
    #[error("double-star (**) syntax is not supported")]
    DoubleStar,
    /// The pattern cannot be read.
    #[error(transparent)]
    BadPattern(#[from] super::path_match::BadPattern),
}

/// The rules of one `.helmignore`, with helm's defaults behind them.
#[derive(Debug, Clone, Default)]
pub struct IgnoreRules {
    rules: Vec<Rule>,
}

#[derive(Debug, Clone)]
struct Rule {
    pattern: String,
    scope: Scope,
    negated: bool,
    only_directories: bool,
}

/// What a pattern is held against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    WholePath,
    BaseName,
}

impl IgnoreRules {
    /// Reads the content of a `.helmignore`; empty text gives the defaults alone.
    pub fn parse(text: &str) -> Result<Self, IgnoreError> {
        let mut rules = IgnoreRules::default();
        for line in text.trim_start_matches('\u{feff}').lines() {
            rules.add(line)?;
        }
        rules.add("templates/.?*")?;
        Ok(rules)
    }

    fn add(&mut self, line: &str) -> Result<(), IgnoreError> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        if line.contains("**") {
            return Err(IgnoreError::DoubleStar);
        }
        path_match(line, "abc")?;
        let (line, negated) = match line.strip_prefix('!') {
            Some(rest) => (rest, true),
            None => (line, false),
        };
        let (line, only_directories) = match line.strip_suffix('/') {
            Some(rest) => (rest, true),
            None => (line, false),
        };
        let (pattern, scope) = match line.strip_prefix('/') {
            Some(rest) => (rest, Scope::WholePath),
            None if line.contains('/') => (line, Scope::WholePath),
            None => (line, Scope::BaseName),
        };
        self.rules.push(Rule {
            pattern: pattern.to_owned(),
            scope,
            negated,
            only_directories,
        });
        Ok(())
    }

    /// Whether a path (with `/`, relative to the chart) stays out.
    ///
    /// A negated rule ignores everything that it does not match: helm's reading, not git's.
    pub fn ignores(&self, path: &str, is_directory: bool) -> bool {
        if matches!(path, "" | "." | "./") {
            return false;
        }
        for rule in &self.rules {
            let applies = is_directory || !rule.only_directories;
            if rule.negated {
                if !applies || !rule.matches(path) {
                    return true;
                }
            } else if applies && rule.matches(path) {
                return true;
            }
        }
        false
    }
}

impl Rule {
    fn matches(&self, path: &str) -> bool {
        let subject = match self.scope {
            Scope::WholePath => path,
            Scope::BaseName => path.rsplit('/').next().unwrap_or(path),
        };
        path_match(&self.pattern, subject).unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> IgnoreRules {
        IgnoreRules::parse(text).unwrap()
    }

    #[test]
    fn names_match_anywhere_and_paths_only_where_they_say() {
        let rules = rules("*.bak\n/top.txt\ndocs/*.md\n");
        assert!(rules.ignores("a/b/c.bak", false));
        assert!(rules.ignores("top.txt", false));
        assert!(!rules.ignores("a/top.txt", false));
        assert!(rules.ignores("docs/a.md", false));
        assert!(!rules.ignores("docs/a/b.md", false));
    }

    #[test]
    fn a_trailing_slash_means_directories() {
        let rules = rules("cache/\n");
        assert!(rules.ignores("cache", true));
        assert!(!rules.ignores("cache", false));
    }

    #[test]
    fn a_negated_rule_ignores_all_else() {
        let rules = rules("!keep.txt\n");
        assert!(!rules.ignores("keep.txt", false));
        assert!(rules.ignores("Chart.yaml", false));
    }

    #[test]
    fn hidden_templates_are_ignored_by_default() {
        assert!(rules("").ignores("templates/.swp", false));
        assert!(!rules("").ignores("templates/a.yaml", false));
    }

    #[test]
    fn double_stars_and_broken_patterns_are_refused() {
        assert_eq!(
            IgnoreRules::parse("a/**\n").unwrap_err(),
            IgnoreError::DoubleStar
        );
        assert!(IgnoreRules::parse("a[\n").is_err());
    }
}
