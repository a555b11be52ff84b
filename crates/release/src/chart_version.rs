//! The version of a chart whose source can move: the digest of what it is at becomes a part of it.

use everflow_semver::Version;

use crate::error::Error;

/// How much of a digest goes into a version.
const SHORT_DIGEST: usize = 12;

/// The version of a chart from an OCIRepository or an ExternalArtifact, with what its revision is known by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrackedVersion {
    /// `VERSION+DIGEST`.
    pub version: String,
    /// The digest, which goes into snapshots and events.
    pub digest: String,
}

/// Adds the digest in an artifact's revision to the version of its chart, so that the same version with
/// other content is an upgrade. A tag that is a version must be that of the chart.
///
/// # Errors
/// When version and revision do not fit together.
///
/// ```
/// use everflow_release::chart_version::tracked;
/// let tracked = tracked("1.2.0", "1.2.0@sha256:2e5b2539656688396f41")?;
/// assert_eq!(tracked.version, "1.2.0+2e5b25396566");
/// assert_eq!(tracked.digest, "sha256:2e5b2539656688396f41");
/// # Ok::<(), everflow_release::Error>(())
/// ```
pub fn tracked(chart_version: &str, revision: &str) -> Result<TrackedVersion, Error> {
    let version = Version::parse(chart_version)
        .map_err(|_| Error::ChartVersion(format!("invalid chart version {chart_version}")))?;
    let (digest, short) = match tag_version(revision) {
        Some((tag, of_tag)) => {
            let digest = revision.split_once('@').map(|(_, digest)| digest);
            let Some(digest) = digest.filter(|_| of_tag == without_metadata(&version)) else {
                return Err(Error::ChartVersion(format!(
                    "artifact revision {tag} does not match chart version {chart_version}"
                )));
            };
            (digest, short(digest)?)
        }
        None => (revision, short(revision)?),
    };
    Ok(TrackedVersion {
        version: format!("{}+{short}", without_metadata(&version)),
        digest: digest.to_owned(),
    })
}

/// The tag of a revision and the version that it is, if it is one. In tags a `_` stands for the `+` that
/// registries refuse.
fn tag_version(revision: &str) -> Option<(&str, String)> {
    let (tag, version) = match revision.split_once('@') {
        Some((tag, _)) => (tag, tag.replace('_', "+")),
        None => (revision, revision.to_owned()),
    };
    let version = Version::parse(&version).ok()?;
    Some((tag, without_metadata(&version)))
}

fn without_metadata(version: &Version) -> String {
    let text = version.to_string();
    match text.split_once('+') {
        Some((text, _)) => text.to_owned(),
        None => text,
    }
}

fn short(digest: &str) -> Result<&str, Error> {
    let mut parts = digest.split(':');
    let hex = match (parts.next(), parts.next(), parts.next()) {
        (Some(_), Some(hex), None) => hex.get(..SHORT_DIGEST),
        _ => None,
    };
    hex.ok_or_else(|| Error::ChartVersion(format!("invalid artifact revision {digest}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:9f927509faa97e63f1b0b0814734660e";

    #[test]
    fn a_tag_that_is_no_version_stays_a_part_of_the_digest() {
        let revision = format!("latest@{DIGEST}");
        let tracked = tracked("1.0.0", &revision).unwrap();
        assert_eq!(tracked.version, "1.0.0+9f927509faa9");
        assert_eq!(tracked.digest, revision);
    }

    #[test]
    fn a_tag_that_is_a_version_must_be_that_of_the_chart() {
        let plus = tracked("1.0.0+build.1", &format!("v1.0.0_build.1@{DIGEST}")).unwrap();
        assert_eq!(plus.version, "1.0.0+9f927509faa9");
        let error = tracked("1.0.0", &format!("1.1.0@{DIGEST}")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "artifact revision 1.1.0 does not match chart version 1.0.0"
        );
    }

    #[test]
    fn revisions_without_a_digest_are_refused() {
        for revision in ["latest", "latest@sha256:1", "a:b:c"] {
            assert!(tracked("1.0.0", revision).is_err(), "{revision}");
        }
        assert!(tracked("one", DIGEST).is_err());
    }
}
