//! Points in time as the API writes them: RFC 3339 in UTC, to the second or the microsecond.

use std::fmt;

/// Microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// A point in time from microseconds since the epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Timestamp(micros)
    }

    /// A point in time from whole seconds since the epoch.
    pub const fn from_seconds(seconds: i64) -> Self {
        Timestamp(seconds * 1_000_000)
    }

    /// Microseconds since the epoch.
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// Whole seconds since the epoch, rounded down.
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// The same point some seconds later.
    #[must_use]
    pub const fn plus_seconds(self, seconds: i64) -> Self {
        Timestamp(self.0.saturating_add(seconds.saturating_mul(1_000_000)))
    }

    /// The same point some microseconds later.
    #[must_use]
    pub const fn plus_micros(self, micros: i64) -> Self {
        Timestamp(self.0.saturating_add(micros))
    }

    /// `2006-01-02T15:04:05Z`.
    pub fn rfc3339(self) -> String {
        self.moment().rfc3339()
    }

    /// `2006-01-02T15:04:05.000000Z`.
    pub fn rfc3339_micro(self) -> String {
        self.moment().rfc3339_micro()
    }

    fn moment(self) -> everflow_time::Timestamp {
        everflow_time::Timestamp {
            seconds: self.seconds(),
            nanos: self.0.rem_euclid(1_000_000) as u32 * 1_000,
        }
    }

    /// Reads an RFC 3339 time (with an offset and any fraction).
    pub fn parse(text: &str) -> Option<Timestamp> {
        let moment = everflow_time::Timestamp::parse(text)?;
        Some(Timestamp(
            moment.seconds * 1_000_000 + i64::from(moment.nanos / 1_000),
        ))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.rfc3339())
    }
}

#[cfg(test)]
mod tests {
    use super::Timestamp;

    #[test]
    fn times_round_trip() {
        for text in [
            "1970-01-01T00:00:00Z",
            "2000-02-29T23:59:59Z",
            "2026-11-15T01:02:03Z",
            "1969-12-31T23:59:59Z",
        ] {
            assert_eq!(Timestamp::parse(text).unwrap().rfc3339(), text);
        }
        assert_eq!(
            Timestamp::parse("2026-11-15T01:02:03.5+01:00")
                .unwrap()
                .rfc3339_micro(),
            "2026-11-15T00:02:03.500000Z"
        );
        assert!(Timestamp::parse("2026-13-15T01:02:03Z").is_none());
    }
}
