use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use crate::error::NumberError;
use crate::{Error, MAX_VERSION_LEN};

/// One semantic version together with the text it was read from.
///
/// `==` compares all parts including metadata and original text;
/// use [`Version::cmp_precedence`] to order versions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Version {
    major: u64,
    minor: u64,
    patch: u64,
    prerelease: String,
    metadata: String,
    original: String,
}

impl Version {
    /// Builds a version from its parts, which are taken as they are.
    pub fn new(major: u64, minor: u64, patch: u64, prerelease: &str, metadata: &str) -> Self {
        let mut version = Self {
            major,
            minor,
            patch,
            prerelease: prerelease.to_owned(),
            metadata: metadata.to_owned(),
            original: String::new(),
        };
        version.original = version.to_string();
        version
    }

    /// Reads a version leniently: a leading `v`, missing minor and patch and leading zeros are
    /// all right.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text.len() > MAX_VERSION_LEN {
            return Err(Error::VersionTooLong);
        }
        let shape = LooseShape::split(text).ok_or(Error::InvalidVersion)?;
        let segment = |digits: Option<&str>| match digits {
            None => Ok(0),
            Some(digits) => number(digits).map_err(Error::Segment),
        };
        let version = Self {
            major: segment(Some(shape.major))?,
            minor: segment(shape.minor)?,
            patch: segment(shape.patch)?,
            prerelease: shape.prerelease.unwrap_or_default().to_owned(),
            metadata: shape.metadata.unwrap_or_default().to_owned(),
            original: text.to_owned(),
        };
        if shape.prerelease.is_some() {
            check_prerelease(&version.prerelease)?;
        }
        if shape.metadata.is_some() {
            check_metadata(&version.metadata)?;
        }
        Ok(version)
    }

    /// Reads a version that must be exactly as the semantic versioning standard has it.
    pub fn parse_strict(text: &str) -> Result<Self, Error> {
        if text.is_empty() {
            return Err(Error::Empty);
        }
        if text.len() > MAX_VERSION_LEN {
            return Err(Error::VersionTooLong);
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(Error::InvalidVersion);
        };
        let (rest, metadata) = match rest.split_once('+') {
            Some((rest, metadata)) => (rest, Some(metadata)),
            None => (rest, None),
        };
        if let Some(metadata) = metadata {
            check_metadata(metadata)?;
        }
        let (patch, prerelease) = match rest.split_once('-') {
            Some((patch, prerelease)) => (patch, Some(prerelease)),
            None => (rest, None),
        };
        if let Some(prerelease) = prerelease {
            check_prerelease(prerelease)?;
        }
        for part in [major, minor, patch] {
            if !only_digits(part) {
                return Err(Error::InvalidCharacters);
            }
            if part.len() > 1 && part.starts_with('0') {
                return Err(Error::LeadingZero);
            }
        }
        Ok(Self {
            major: number(major).map_err(Error::StrictSegment)?,
            minor: number(minor).map_err(Error::StrictSegment)?,
            patch: number(patch).map_err(Error::StrictSegment)?,
            prerelease: prerelease.unwrap_or_default().to_owned(),
            metadata: metadata.unwrap_or_default().to_owned(),
            original: text.to_owned(),
        })
    }

    /// The first number.
    pub fn major(&self) -> u64 {
        self.major
    }

    /// The second number.
    pub fn minor(&self) -> u64 {
        self.minor
    }

    /// The third number.
    pub fn patch(&self) -> u64 {
        self.patch
    }

    /// The part after `-`, without it; empty for a release.
    pub fn prerelease(&self) -> &str {
        &self.prerelease
    }

    /// The part after `+`, without it.
    pub fn metadata(&self) -> &str {
        &self.metadata
    }

    /// The text the version was read from.
    pub fn original(&self) -> &str {
        &self.original
    }

    /// Whether the version is a prerelease.
    pub fn is_prerelease(&self) -> bool {
        !self.prerelease.is_empty()
    }

    /// The next patch version; for a prerelease the release it leads to. `None` on overflow.
    pub fn next_patch(&self) -> Option<Self> {
        let patch = if self.is_prerelease() {
            self.patch
        } else {
            self.patch.checked_add(1)?
        };
        Some(self.successor(self.major, self.minor, patch))
    }

    /// The next minor version. `None` on overflow.
    pub fn next_minor(&self) -> Option<Self> {
        Some(self.successor(self.major, self.minor.checked_add(1)?, 0))
    }

    /// The next major version. `None` on overflow.
    pub fn next_major(&self) -> Option<Self> {
        Some(self.successor(self.major.checked_add(1)?, 0, 0))
    }

    /// The same version with another prerelease part (empty: none).
    pub fn with_prerelease(&self, prerelease: &str) -> Result<Self, Error> {
        if !prerelease.is_empty() {
            check_prerelease(prerelease)?;
        }
        let mut next = self.clone();
        next.prerelease = prerelease.to_owned();
        next.original = format!("{}{next}", self.v_prefix());
        Ok(next)
    }

    /// The same version with another metadata part (empty: none).
    pub fn with_metadata(&self, metadata: &str) -> Result<Self, Error> {
        if !metadata.is_empty() {
            check_metadata(metadata)?;
        }
        let mut next = self.clone();
        next.metadata = metadata.to_owned();
        next.original = format!("{}{next}", self.v_prefix());
        Ok(next)
    }

    /// The order of precedence: prereleases come before their release, metadata does not count.
    pub fn cmp_precedence(&self, other: &Self) -> Ordering {
        (self.major, self.minor, self.patch)
            .cmp(&(other.major, other.minor, other.patch))
            .then_with(|| match (self.is_prerelease(), other.is_prerelease()) {
                (false, false) => Ordering::Equal,
                (false, true) => Ordering::Greater,
                (true, false) => Ordering::Less,
                (true, true) => compare_prereleases(&self.prerelease, &other.prerelease),
            })
    }

    fn successor(&self, major: u64, minor: u64, patch: u64) -> Self {
        let mut next = Self::new(major, minor, patch, "", "");
        next.original.insert_str(0, self.v_prefix());
        next
    }

    fn v_prefix(&self) -> &'static str {
        if self.original.starts_with('v') {
            "v"
        } else {
            ""
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if !self.prerelease.is_empty() {
            write!(f, "-{}", self.prerelease)?;
        }
        if !self.metadata.is_empty() {
            write!(f, "+{}", self.metadata)?;
        }
        Ok(())
    }
}

impl FromStr for Version {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text)
    }
}

/// Sorts versions by precedence, lowest first; equal ones keep their order.
pub fn sort_ascending(versions: &mut [Version]) {
    versions.sort_by(Version::cmp_precedence);
}

/// Orders two prerelease parts segment by segment. An absent segment comes first.
pub(crate) fn compare_prereleases(left: &str, right: &str) -> Ordering {
    let mut left = left.split('.');
    let mut right = right.split('.');
    loop {
        let (l, r) = (left.next(), right.next());
        if l.is_none() && r.is_none() {
            return Ordering::Equal;
        }
        let order = compare_segments(l.unwrap_or_default(), r.unwrap_or_default());
        if order.is_ne() {
            return order;
        }
    }
}

fn compare_segments(left: &str, right: &str) -> Ordering {
    if left.is_empty() || right.is_empty() {
        return right.is_empty().cmp(&left.is_empty());
    }
    match (number(left), number(right)) {
        // Numbers come before words, and a number too large to hold counts as a word.
        (Ok(l), Ok(r)) => l.cmp(&r),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => left.cmp(right),
    }
}

/// The pieces of a leniently written version.
struct LooseShape<'a> {
    major: &'a str,
    minor: Option<&'a str>,
    patch: Option<&'a str>,
    prerelease: Option<&'a str>,
    metadata: Option<&'a str>,
}

impl<'a> LooseShape<'a> {
    fn split(text: &'a str) -> Option<Self> {
        let rest = text.strip_prefix('v').unwrap_or(text);
        let (rest, metadata) = match rest.split_once('+') {
            Some((rest, metadata)) => (rest, Some(metadata)),
            None => (rest, None),
        };
        let (numbers, prerelease) = match rest.split_once('-') {
            Some((numbers, prerelease)) => (numbers, Some(prerelease)),
            None => (rest, None),
        };
        let well_formed = |part: &str| {
            part.split('.')
                .all(|id| !id.is_empty() && only_identifier(id))
        };
        if !prerelease.is_none_or(well_formed) || !metadata.is_none_or(well_formed) {
            return None;
        }
        let mut segments = numbers.split('.');
        let shape = Self {
            major: segments.next()?,
            minor: segments.next(),
            patch: segments.next(),
            prerelease,
            metadata,
        };
        let is_number = |digits: &str| !digits.is_empty() && only_digits(digits);
        (is_number(shape.major)
            && shape.minor.is_none_or(is_number)
            && shape.patch.is_none_or(is_number)
            && segments.next().is_none())
        .then_some(shape)
    }
}

fn number(digits: &str) -> Result<u64, NumberError> {
    if only_digits(digits)
        && let Ok(value) = digits.parse()
    {
        return Ok(value);
    }
    Err(NumberError {
        text: digits.to_owned(),
    })
}

fn only_digits(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit())
}

fn only_identifier(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

fn check_prerelease(prerelease: &str) -> Result<(), Error> {
    for part in prerelease.split('.') {
        if part.is_empty() {
            return Err(Error::InvalidPrerelease);
        }
        if only_digits(part) {
            if part.len() > 1 && part.starts_with('0') {
                return Err(Error::LeadingZero);
            }
        } else if !only_identifier(part) {
            return Err(Error::InvalidPrerelease);
        }
    }
    Ok(())
}

fn check_metadata(metadata: &str) -> Result<(), Error> {
    if metadata
        .split('.')
        .all(|part| !part.is_empty() && only_identifier(part))
    {
        Ok(())
    } else {
        Err(Error::InvalidMetadata)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn successors_keep_the_v() {
        let version = Version::parse("v1.2.3-rc.1+b").unwrap();
        assert_eq!(version.next_patch().unwrap().original(), "v1.2.3");
        assert_eq!(version.next_minor().unwrap().original(), "v1.3.0");
        assert_eq!(version.next_major().unwrap().original(), "v2.0.0");
        assert_eq!(version.with_prerelease("").unwrap().original(), "v1.2.3+b");
        assert_eq!(
            version.with_metadata("x.1").unwrap().to_string(),
            "1.2.3-rc.1+x.1"
        );
        assert!(Version::new(u64::MAX, 0, 0, "", "").next_major().is_none());
    }

    #[test]
    fn a_too_long_text_is_refused() {
        let long = format!("1.2.3-{}", "a".repeat(300));
        assert_eq!(Version::parse(&long), Err(Error::VersionTooLong));
        assert_eq!(Version::parse_strict(&long), Err(Error::VersionTooLong));
    }

    #[test]
    fn a_number_beyond_64_bits_is_a_word() {
        let huge = Version::parse("1.0.0-99999999999999999999").unwrap();
        let small = Version::parse("1.0.0-5").unwrap();
        assert_eq!(small.cmp_precedence(&huge), Ordering::Less);
    }
}
