//! Which artifact of a repository is meant.

use everflow_schema::structural::Pattern;
use everflow_semver::{Constraint, Version};

use super::HELM_CHART_LAYER;
use crate::Error;

/// What of a repository is wanted. Of those given, the first of this order counts: digest,
/// semver, tag; without any the tag `latest`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OciRef {
    /// A digest.
    pub digest: String,
    /// A range of versions.
    pub semver: String,
    /// Which tags count for `semver`.
    pub semver_filter: String,
    /// A tag.
    pub tag: String,
}

/// The tag of the highest version in a range.
pub(crate) fn by_version(
    wanted: &OciRef,
    tags: &[String],
    media_type: &str,
) -> Result<String, Error> {
    let failed = Error::Protocol;
    let filter = match wanted.semver_filter.as_str() {
        "" => None,
        text => Some(Pattern::new(text).map_err(|error| failed(error.to_string()))?),
    };
    let range = &wanted.semver;
    let constraint = Constraint::parse(range)
        .map_err(|error| failed(format!("semver '{range}' parse error: {error}")))?;
    // Versions of charts may have a plus, which tags may not.
    let chart = media_type == HELM_CHART_LAYER;
    let mut best: Option<(Version, &String)> = None;
    for tag in tags {
        if filter.as_ref().is_some_and(|filter| !filter.is_match(tag)) {
            continue;
        }
        let version = match chart {
            true => parse_version(&tag.replace('_', "+")),
            false => parse_version(tag),
        };
        let Some(version) = version.filter(|version| constraint.check(version)) else {
            continue;
        };
        let higher = |(best, _): &(Version, _)| version.cmp_precedence(best).is_gt();
        if best.as_ref().is_none_or(higher) {
            best = Some((version, tag));
        }
    }
    match best {
        Some((_, tag)) => Ok(tag.clone()),
        None => Err(failed(format!("no match found for semver: {range}"))),
    }
}

/// Versions have three numbers; a `v` in front is fine.
fn parse_version(tag: &str) -> Option<Version> {
    Version::parse_strict(tag.strip_prefix('v').unwrap_or(tag)).ok()?;
    Version::parse(tag).ok()
}

/// The versions of a chart by the repository's tags, highest first.
pub(crate) fn chart_versions(tags: &[String]) -> Vec<String> {
    let parse = |tag: &String| Version::parse_strict(&tag.replace('_', "+")).ok();
    let mut versions: Vec<Version> = tags.iter().filter_map(parse).collect();
    versions.sort_by(|one, two| two.cmp_precedence(one));
    versions.iter().map(|version| version.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(range: &str, filter: &str, media_type: &str) -> Result<String, String> {
        let wanted = OciRef {
            semver: range.to_owned(),
            semver_filter: filter.to_owned(),
            ..OciRef::default()
        };
        let tags = [
            "latest",
            "1.0.0",
            "v1.2.0",
            "1.1.0",
            "2.0.0-rc.1",
            "1.3.0-stage",
            "1.2",
            "3.0.0_b1",
            "",
            "\u{0}",
            "sha256-abc.sig",
        ]
        .map(str::to_owned);
        by_version(&wanted, &tags, media_type).map_err(|error| error.to_string())
    }

    #[test]
    fn the_highest_version_in_the_range_is_taken() {
        for (range, filter, media_type, tag) in [
            ("1.x", "", "", "v1.2.0"),
            (">=1.0.0-0", "", "", "2.0.0-rc.1"),
            (">= 1.0.0-0", ".*-stage", "", "1.3.0-stage"),
            ("*", "", "", "v1.2.0"),
            ("*", "", HELM_CHART_LAYER, "3.0.0_b1"),
        ] {
            assert_eq!(find(range, filter, media_type).unwrap(), tag, "{range}");
        }
        for (range, filter, words) in [
            ("9.x", "", "no match found for semver: 9.x"),
            (
                "nope nope",
                "",
                "semver 'nope nope' parse error: improper constraint: \"nope nope\"",
            ),
            ("1.x", "(", "error parsing regexp: missing closing ): `(`"),
        ] {
            assert_eq!(find(range, filter, "").unwrap_err(), words);
        }
    }

    #[test]
    fn versions_of_charts_are_sorted() {
        let tags = ["0.1.0", "v9.0.0", "x", "1.0.0_meta", "0.10.0"].map(str::to_owned);
        assert_eq!(chart_versions(&tags), ["1.0.0+meta", "0.10.0", "0.1.0"]);
    }
}
