//! Which version of a chart is meant.

use everflow_semver::{Constraint, Error as SemverError, Version};

use super::stored::StoredVersion;

/// Why no version was chosen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectError {
    /// The repository does not have the chart.
    #[error("no chart name found")]
    NoChart,
    /// The repository has the name, and no version with it.
    #[error("no chart version found")]
    NoVersions,
    /// What was asked for is neither a version of the chart nor a range.
    #[error("{0}")]
    Constraint(#[from] SemverError),
    /// No version is in the range.
    #[error("no '{name}' chart with version matching '{wanted}' found")]
    NoMatch {
        /// The chart.
        name: String,
        /// What was asked for.
        wanted: String,
    },
    /// No tag is in the range.
    #[error("could not locate a version matching provided version string {0}")]
    NoTag(String),
}

/// A version as Flux reads it: all three numbers, with or without a `v`.
pub fn parse_version(text: &str) -> Result<Version, SemverError> {
    Version::parse_strict(text.strip_prefix('v').unwrap_or(text))?;
    Version::parse(text)
}

fn constraint(wanted: &str) -> Result<Constraint, SemverError> {
    Constraint::parse(match wanted {
        "" => "*",
        wanted => wanted,
    })
}

/// The version of a chart that is meant by `wanted`: one of exactly that name, or else the highest
/// in the range; of equal ones the one that was created last. Nothing or `*` is the highest that
/// is no prerelease.
pub fn select_version<'v>(
    name: &str,
    versions: &'v [StoredVersion],
    wanted: &str,
) -> Result<&'v StoredVersion, SelectError> {
    if versions.is_empty() {
        return Err(SelectError::NoVersions);
    }
    let exact = versions
        .iter()
        .find(|version| !wanted.is_empty() && version.version == wanted);
    if let Some(exact) = exact {
        return Ok(exact);
    }
    let constraint = constraint(wanted)?;
    let mut best: Option<(Version, &StoredVersion)> = None;
    for candidate in versions {
        let Ok(version) = parse_version(&candidate.version) else {
            continue;
        };
        if !constraint.check(&version) {
            continue;
        }
        let better = best.as_ref().is_none_or(|(best, chosen)| {
            version
                .cmp_precedence(best)
                .then_with(|| candidate.created.moment().cmp(&chosen.created.moment()))
                .is_ge()
        });
        if better {
            best = Some((version, candidate));
        }
    }
    match best {
        Some((_, chosen)) => Ok(chosen),
        None => Err(SelectError::NoMatch {
            name: name.to_owned(),
            wanted: wanted.to_owned(),
        }),
    }
}

/// The tag of an OCI repository that is meant by `wanted`, by the same rules.
pub fn select_tag<'t>(tags: &'t [String], wanted: &str) -> Result<&'t str, SelectError> {
    if let Some(exact) = tags.iter().find(|tag| !wanted.is_empty() && *tag == wanted) {
        return Ok(exact);
    }
    let constraint = constraint(wanted)?;
    let mut best: Option<(Version, &str)> = None;
    for tag in tags {
        let Ok(version) = parse_version(tag) else {
            continue;
        };
        let better = |(best, _): &(Version, &str)| version.cmp_precedence(best).is_gt();
        if constraint.check(&version) && best.as_ref().is_none_or(better) {
            best = Some((version, tag));
        }
    }
    match best {
        Some((_, tag)) => Ok(tag),
        None => Err(SelectError::NoTag(wanted.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::GoTime;

    fn versions(list: &[(&str, &str)]) -> Vec<StoredVersion> {
        list.iter()
            .map(|(version, created)| StoredVersion {
                name: "app".to_owned(),
                version: (*version).to_owned(),
                created: GoTime::parse(created).unwrap(),
                ..StoredVersion::default()
            })
            .collect()
    }

    const DAY: &str = "2026-01-01T00:00:00Z";

    #[test]
    fn ranges_select_the_highest_and_exact_versions_themselves() {
        let all = versions(&[
            ("2.1.0-rc.1", DAY),
            ("2.0.0", DAY),
            ("1.2.0", DAY),
            ("v1.1.0", DAY),
            ("1.0", DAY),
        ]);
        let choose = |wanted: &str| {
            select_version("app", &all, wanted)
                .map(|chosen| chosen.version.as_str())
                .map_err(|error| error.to_string())
        };
        assert_eq!(choose(""), Ok("2.0.0"));
        assert_eq!(choose("*"), Ok("2.0.0"));
        assert_eq!(choose("1.x"), Ok("1.2.0"));
        assert_eq!(choose("~1.1"), Ok("v1.1.0"));
        assert_eq!(choose(">=2.0.0-0"), Ok("2.1.0-rc.1"));
        assert_eq!(choose("1.1.0"), Ok("v1.1.0"));
        // Found by its name, though it is no full version.
        assert_eq!(choose("1.0"), Ok("1.0"));
        assert_eq!(
            choose("9"),
            Err("no 'app' chart with version matching '9' found".to_owned())
        );
        assert_eq!(
            choose("nope"),
            Err("improper constraint: \"nope\"".to_owned())
        );
        assert_eq!(
            select_version("app", &[], "1"),
            Err(SelectError::NoVersions)
        );
    }

    #[test]
    fn of_equal_versions_the_latest_is_taken() {
        let all = versions(&[
            ("1.0.0+a", "2026-01-02T00:00:00Z"),
            ("1.0.0+b", "2026-01-03T00:00:00Z"),
            ("1.0.0+c", "2026-01-01T00:00:00Z"),
        ]);
        assert_eq!(select_version("app", &all, "1").unwrap().version, "1.0.0+b");
    }

    #[test]
    fn tags_follow_the_same_rules() {
        let tags: Vec<String> = ["latest", "1.0.0", "v1.2.0", "2.0.0-rc1"]
            .map(str::to_owned)
            .to_vec();
        assert_eq!(select_tag(&tags, "1.x"), Ok("v1.2.0"));
        assert_eq!(select_tag(&tags, "latest"), Ok("latest"));
        assert_eq!(select_tag(&tags, ""), Ok("v1.2.0"));
        assert_eq!(
            select_tag(&tags, "3.x").unwrap_err().to_string(),
            "could not locate a version matching provided version string 3.x"
        );
    }
}
