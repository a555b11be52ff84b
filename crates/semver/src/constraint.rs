use std::fmt;
use std::str::FromStr;

use crate::error::Mismatch;
use crate::operator::{Comparison, Operator, only_releases};
use crate::pattern::{Pattern, is_space, rewrite_ranges};
use crate::{Error, MAX_CONSTRAINT_GROUPS, MAX_CONSTRAINT_LEN, Version};

/// What versions are wanted: alternatives separated by `||`, each a list of comparisons
/// that all must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constraint {
    groups: Vec<Group>,
    include_prereleases: bool,
}

/// Comparisons that must all hold.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Group {
    comparisons: Vec<Comparison>,
    /// One comparison naming a prerelease opens the whole group to prereleases.
    wants_prereleases: bool,
}

impl Constraint {
    /// Reads a constraint such as `>=1.2 <2 || ^3.1, !=3.1.4`, `1.2 - 1.5` or `1.x`.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text.len() > MAX_CONSTRAINT_LEN {
            return Err(Error::ConstraintTooLong);
        }
        let text = rewrite_ranges(text);
        if text.split("||").count() > MAX_CONSTRAINT_GROUPS {
            return Err(Error::TooManyGroups);
        }
        let groups = text
            .split("||")
            .map(Group::parse)
            .collect::<Result<_, _>>()?;
        Ok(Self {
            groups,
            include_prereleases: false,
        })
    }

    /// Lets prereleases pass even where no comparison names one.
    #[must_use]
    pub fn including_prereleases(mut self) -> Self {
        self.include_prereleases = true;
        self
    }

    /// Whether the version satisfies the constraint.
    pub fn check(&self, version: &Version) -> bool {
        self.groups.iter().any(|group| {
            let prereleases = self.include_prereleases || group.wants_prereleases;
            group
                .comparisons
                .iter()
                .all(|one| one.check(version, prereleases).is_ok())
        })
    }

    /// Like [`Constraint::check`], but tells every reason against the version.
    pub fn validate(&self, version: &Version) -> Result<(), Vec<Mismatch>> {
        let mut reasons = Vec::new();
        let mut prerelease_told = false;
        for group in &self.groups {
            let prereleases = self.include_prereleases || group.wants_prereleases;
            if version.is_prerelease() && !prereleases {
                if !prerelease_told {
                    reasons.push(only_releases(version));
                    prerelease_told = true;
                }
                continue;
            }
            let before = reasons.len();
            reasons.extend(
                group
                    .comparisons
                    .iter()
                    .filter_map(|one| one.check(version, prereleases).err()),
            );
            if reasons.len() == before {
                return Ok(());
            }
        }
        Err(reasons)
    }

    /// The highest version that satisfies the constraint. Texts that are no versions are skipped;
    /// of equal versions the first is taken.
    pub fn latest<'a, I>(&self, versions: I) -> Option<(&'a str, Version)>
    where
        I: IntoIterator<Item = &'a str>,
    {
        let mut best: Option<(&'a str, Version)> = None;
        for text in versions {
            let Ok(version) = Version::parse(text) else {
                continue;
            };
            let better = best
                .as_ref()
                .is_none_or(|(_, top)| version.cmp_precedence(top).is_gt());
            if better && self.check(&version) {
                best = Some((text, version));
            }
        }
        best
    }
}

impl Group {
    fn parse(text: &str) -> Result<Self, Error> {
        let parts =
            split_comparisons(text).ok_or_else(|| Error::ImproperConstraint(text.to_owned()))?;
        let comparisons = parts
            .into_iter()
            .map(|(operator, pattern)| Comparison::new(operator, pattern))
            .collect::<Result<Vec<_>, _>>()?;
        let wants_prereleases = comparisons.iter().any(Comparison::wants_prereleases);
        Ok(Self {
            comparisons,
            wants_prereleases,
        })
    }
}

type Part<'a> = ((&'static str, Operator), Pattern<'a>);

/// Splits comparisons separated by spaces or one comma; `None` if the text is anything else.
fn split_comparisons(text: &str) -> Option<Vec<Part<'_>>> {
    let mut parts = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    loop {
        let operator = Operator::SPELLINGS
            .into_iter()
            .find(|(spelling, _)| rest.starts_with(spelling))
            .unwrap_or(("", Operator::Equal));
        rest = rest[operator.0.len()..].trim_start_matches(is_space);
        let pattern = Pattern::at_start(rest)?;
        rest = &rest[pattern.whole.len()..];
        parts.push((operator, pattern));
        let tail = rest.trim_start_matches(is_space);
        if tail.is_empty() {
            return Some(parts);
        }
        rest = match tail.strip_prefix(',') {
            Some(next) => next.trim_start_matches(is_space),
            None if tail.len() < rest.len() => tail,
            None => return None,
        };
    }
}

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, group) in self.groups.iter().enumerate() {
            if index > 0 {
                f.write_str(" || ")?;
            }
            for (index, comparison) in group.comparisons.iter().enumerate() {
                if index > 0 {
                    f.write_str(" ")?;
                }
                write!(f, "{comparison}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for Constraint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prereleases_can_be_let_in() {
        let version = Version::parse("1.5.0-rc.1").unwrap();
        let constraint = Constraint::parse(">=1.2").unwrap();
        assert!(!constraint.check(&version));
        assert!(constraint.including_prereleases().check(&version));
    }

    #[test]
    fn bounds_hold() {
        assert_eq!(
            Constraint::parse(&" ".repeat(513)),
            Err(Error::ConstraintTooLong)
        );
        let many = vec!["1"; 33].join("||");
        assert_eq!(Constraint::parse(&many), Err(Error::TooManyGroups));
        assert_eq!(Constraint::parse("1.2.3|4"), Err(Error::ConstraintVersion));
    }

    #[test]
    fn errors_have_stable_reasons() {
        assert_eq!(
            Constraint::parse("nope").unwrap_err().reason(),
            "InvalidConstraint"
        );
        assert_eq!(
            Version::parse("nope").unwrap_err().reason(),
            "InvalidVersion"
        );
    }
}
