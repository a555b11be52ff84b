use crate::error::Mismatch;
use crate::version::compare_prereleases;
use crate::{Error, Version};
use everflow_gotext::quoted;

use crate::pattern::{Pattern, is_wildcard};

/// How much of a constraint's version was left open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    /// All three numbers are given.
    Nothing,
    Patch,
    MinorAndPatch,
    /// Not even the major version is given.
    Everything,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Equal,
    NotEqual,
    Greater,
    Less,
    GreaterOrEqual,
    LessOrEqual,
    Tilde,
    Caret,
}

impl Operator {
    /// The operators as written, longest first.
    pub(crate) const SPELLINGS: [(&'static str, Self); 11] = [
        ("!=", Self::NotEqual),
        (">=", Self::GreaterOrEqual),
        ("=>", Self::GreaterOrEqual),
        ("<=", Self::LessOrEqual),
        ("=<", Self::LessOrEqual),
        ("~>", Self::Tilde),
        ("=", Self::Equal),
        (">", Self::Greater),
        ("<", Self::Less),
        ("~", Self::Tilde),
        ("^", Self::Caret),
    ];
}

/// One comparison: an operator and the version it compares with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Comparison {
    operator: Operator,
    spelling: &'static str,
    written: String,
    version: Version,
    open: Open,
}

impl Comparison {
    pub(crate) fn new(
        (spelling, operator): (&'static str, Operator),
        pattern: Pattern<'_>,
    ) -> Result<Self, Error> {
        let any = |segment: Option<&str>| segment.is_none_or(is_wildcard);
        let Pattern {
            whole,
            major,
            minor,
            patch,
            prerelease,
        } = pattern;
        let (open, text) = if is_wildcard(major) {
            (Open::Everything, format!("0.0.0{prerelease}"))
        } else if any(minor) {
            (Open::MinorAndPatch, format!("{major}.0.0{prerelease}"))
        } else if any(patch) {
            let minor = minor.unwrap_or_default();
            (Open::Patch, format!("{major}.{minor}.0{prerelease}"))
        } else {
            (Open::Nothing, whole.to_owned())
        };
        let version = Version::parse(&text).map_err(|_| Error::ConstraintVersion)?;
        Ok(Self {
            operator,
            spelling,
            written: whole.to_owned(),
            version,
            open,
        })
    }

    pub(crate) fn wants_prereleases(&self) -> bool {
        self.version.is_prerelease()
    }

    /// Whether `version` passes; if not, why.
    pub(crate) fn check(&self, version: &Version, prereleases: bool) -> Result<(), Mismatch> {
        if version.is_prerelease() && !prereleases {
            return Err(only_releases(version));
        }
        match self.operator {
            Operator::Equal => self.check_equal(version),
            Operator::NotEqual => self.check_not_equal(version),
            Operator::Greater => self.check_greater(version),
            Operator::Less => self.ensure(
                self.order(version).is_lt(),
                version,
                "is greater than or equal to",
            ),
            Operator::GreaterOrEqual => {
                self.ensure(self.order(version).is_ge(), version, "is less than")
            }
            Operator::LessOrEqual => self.check_less_or_equal(version),
            Operator::Tilde => self.check_tilde(version),
            Operator::Caret => self.check_caret(version),
        }
    }

    fn order(&self, version: &Version) -> std::cmp::Ordering {
        version.cmp_precedence(&self.version)
    }

    fn minor_open(&self) -> bool {
        self.open == Open::MinorAndPatch
    }

    fn ensure(&self, holds: bool, version: &Version, complaint: &str) -> Result<(), Mismatch> {
        self.ensure_with(holds, version, complaint, "")
    }

    fn ensure_with(
        &self,
        holds: bool,
        version: &Version,
        complaint: &str,
        remark: &str,
    ) -> Result<(), Mismatch> {
        if holds {
            return Ok(());
        }
        Err(Mismatch(format!(
            "{} {complaint} {}{remark}",
            quoted(&version.to_string()),
            quoted(&self.written)
        )))
    }

    fn check_equal(&self, version: &Version) -> Result<(), Mismatch> {
        if self.open != Open::Nothing {
            return self.check_tilde(version);
        }
        self.ensure(self.order(version).is_eq(), version, "is not equal to")
    }

    fn check_not_equal(&self, version: &Version) -> Result<(), Mismatch> {
        let own = &self.version;
        let differs = match self.open {
            _ if self.open != Open::Nothing && own.major() != version.major() => true,
            Open::MinorAndPatch => false,
            Open::Patch | Open::Everything if own.minor() != version.minor() => true,
            Open::Patch => {
                (version.is_prerelease() || own.is_prerelease())
                    && compare_prereleases(version.prerelease(), own.prerelease()).is_ne()
            }
            Open::Everything if own.patch() != version.patch() => true,
            Open::Everything | Open::Nothing => self.order(version).is_ne(),
        };
        self.ensure(differs, version, "is equal to")
    }

    fn check_greater(&self, version: &Version) -> Result<(), Mismatch> {
        let own = &self.version;
        let holds = match self.open {
            Open::Nothing => self.order(version).is_gt(),
            _ if version.major() != own.major() => version.major() > own.major(),
            // `>11` means 12 and up, `>11.1` means 11.2 and up.
            Open::MinorAndPatch => false,
            Open::Patch => version.minor() > own.minor(),
            Open::Everything => self.order(version).is_gt(),
        };
        self.ensure(holds, version, "is less than or equal to")
    }

    fn check_less_or_equal(&self, version: &Version) -> Result<(), Mismatch> {
        let own = &self.version;
        let holds = if self.open == Open::Nothing {
            self.order(version).is_le()
        } else {
            version.major() < own.major()
                || version.major() == own.major()
                    && (version.minor() <= own.minor() || self.minor_open())
        };
        self.ensure(holds, version, "is greater than")
    }

    /// `~1.2.3` is at least 1.2.3 within 1.2, `~1` at least 1.0.0 within 1.
    fn check_tilde(&self, version: &Version) -> Result<(), Mismatch> {
        let own = &self.version;
        self.ensure(self.order(version).is_ge(), version, "is less than")?;
        let zero = (own.major(), own.minor(), own.patch()) == (0, 0, 0);
        if zero && matches!(self.open, Open::Nothing | Open::Everything) {
            return Ok(());
        }
        let same_major = version.major() == own.major();
        self.ensure(same_major, version, "does not have same major version as")?;
        let same_minor = version.minor() == own.minor() || self.minor_open();
        self.ensure(
            same_minor,
            version,
            "does not have same major and minor version as",
        )
    }

    /// `^1.2.3` is at least 1.2.3 with the same first number that is not zero.
    fn check_caret(&self, version: &Version) -> Result<(), Mismatch> {
        let own = &self.version;
        self.ensure(self.order(version).is_ge(), version, "is less than")?;
        let same_major = version.major() == own.major();
        self.ensure(same_major, version, "does not have same major version as")?;
        if own.major() > 0 || self.minor_open() {
            return Ok(());
        }
        let same_minor = version.minor() == own.minor();
        if own.minor() > 0 || self.open == Open::Patch {
            return self.ensure_with(
                same_minor,
                version,
                "does not have same minor version as",
                ". Expected minor versions to match when constraint major version is 0",
            );
        }
        self.ensure(same_minor, version, "does not have same minor version as")?;
        self.ensure_with(
            own.patch() == version.patch(),
            version,
            "does not equal",
            ". Expect version and constraint to equal when major and minor versions are 0",
        )
    }
}

impl std::fmt::Display for Comparison {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.spelling, self.written)
    }
}

/// The complaint about a prerelease where none was asked for.
pub(crate) fn only_releases(version: &Version) -> Mismatch {
    Mismatch(format!(
        "{} is a prerelease version and the constraint is only looking for release versions",
        quoted(&version.to_string())
    ))
}
